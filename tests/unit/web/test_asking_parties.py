"""One request to an outside party, over real HTTP, and what becomes of every kind of answer."""

from __future__ import annotations

import asyncio
import base64
import html
import json
import socket
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from holdfast.core.errors import ExternalServiceFailed, ExternalServiceRefused, HoldfastError, NotFound
from holdfast.web import external_client, serve_in_thread
from holdfast.web.external_client import ExternalClient, ExternalResponse, read_field, refuse_missing

METHODS = ["GET", "POST"]


class StandingClock:
    def now(self) -> float:
        return 1_000_000_000.0


def asked(
    response: Response, method: str = "GET", *, clock: Any = None, **asking: Any
) -> ExternalResponse | HoldfastError:
    """What a party that always answers the same gives, or how it fails."""

    async def answer(_: Request) -> Response:
        return response

    async def run(url: str) -> ExternalResponse | HoldfastError:
        async with httpx2.AsyncClient(base_url=url) as http:
            party = ExternalClient(http, "The desk", clock) if clock else ExternalClient(http, "The desk")
            try:
                return await party.request(method, "/thing", **asking)
            except HoldfastError as error:
                return error

    with serve_in_thread(Starlette(routes=[Route("/thing", answer, methods=METHODS)])) as url:
        return asyncio.run(run(url))


def with_status(status: int, text: str = "{}", headers: Mapping[str, str] | None = None) -> Response:
    return Response(text, status_code=status, headers=dict(headers or {}))


def test_gives_the_json_of_an_answer() -> None:
    answer = asked(with_status(201, '{"id": "1", "points": 3.5}', {"x-page": "2"}), "POST", json={"a": 1})
    assert isinstance(answer, ExternalResponse)
    assert (answer.status, answer.body, answer.headers["x-page"]) == (201, {"id": "1", "points": 3.5}, "2")


def test_an_empty_answer_has_no_body() -> None:
    answer = asked(with_status(204, ""), "POST")
    assert isinstance(answer, ExternalResponse)
    assert answer.body is None


@pytest.mark.parametrize(
    ("status", "method", "kind", "may_be_done"),
    [
        (401, "GET", ExternalServiceFailed, False),
        (403, "POST", ExternalServiceFailed, False),
        (302, "GET", ExternalServiceFailed, False),
        # Where to see what was done, as well as the wrong address: nobody knows.
        (302, "POST", ExternalServiceFailed, True),
        (303, "POST", ExternalServiceFailed, True),
        (402, "POST", ExternalServiceFailed, False),
        (408, "POST", ExternalServiceFailed, True),
        (408, "GET", ExternalServiceFailed, False),
        (499, "POST", ExternalServiceFailed, True),
        # In conflict with what another does just now: later it may pass.
        (409, "POST", ExternalServiceFailed, False),
        (423, "POST", ExternalServiceFailed, False),
        (429, "POST", ExternalServiceFailed, False),
        (500, "GET", ExternalServiceFailed, False),
        (500, "POST", ExternalServiceFailed, True),
        (503, "POST", ExternalServiceFailed, True),
    ],
)
def test_a_failure_says_whether_it_may_be_done(
    status: int, method: str, kind: type[ExternalServiceFailed], may_be_done: bool
) -> None:
    failed = asked(with_status(status), method)
    assert isinstance(failed, kind)
    assert failed.may_be_done is may_be_done
    assert "The desk" in failed.message


@pytest.mark.parametrize("status", [400, 404, 410, 422])
def test_a_change_is_refused_for_good_with_the_words_of_the_party(status: int) -> None:
    refused = asked(with_status(status, '{"errors":\n\t["no such field"]}'), "POST")
    assert isinstance(refused, ExternalServiceRefused)
    assert refused.code == str(status)
    assert '{"errors": ["no such field"]}' in refused.message


@pytest.mark.parametrize("status", [404, 410])
def test_a_read_of_what_is_gone_finds_nothing(status: int) -> None:
    assert isinstance(asked(with_status(status)), NotFound)


def test_a_search_by_post_that_changes_nothing_is_a_read() -> None:
    assert isinstance(asked(with_status(404), "POST", has_effect=False), NotFound)
    failed = asked(with_status(500), "POST", has_effect=False)
    assert isinstance(failed, ExternalServiceFailed)
    assert not failed.may_be_done


def test_a_status_that_passes_is_an_answer_whatever_its_body() -> None:
    page = asked(with_status(412, "<html>"), accepted_statuses=frozenset({412}))
    told = asked(with_status(412, '{"sync": "x"}'), accepted_statuses=frozenset({412}))
    assert isinstance(page, ExternalResponse)
    assert isinstance(told, ExternalResponse)
    assert (page.status, page.body, told.body) == (412, None, {"sync": "x"})


@pytest.mark.parametrize("text", ["<html>fine</html>", "{", '{"points": NaN}', "[" * 100_000, "\xff"])
@pytest.mark.parametrize("method", METHODS)
def test_what_is_no_json_is_nonsense_and_may_be_done_if_it_changes(text: str, method: str) -> None:
    failed = asked(Response(text.encode("latin-1"), status_code=200), method)
    assert isinstance(failed, ExternalServiceFailed)
    assert "not JSON" in failed.message
    assert failed.may_be_done is (method == "POST")


@pytest.mark.parametrize(
    ("told", "pause"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "-7"}, 0.0),
        ({"retry-after": "1e9"}, external_client.RETRY_AFTER_S_MAX),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({}, None),
        # The clock of the test stands at 01:46:40.
        ({"retry-after": "Sun, 09 Sep 2001 01:46:50 GMT"}, 10.0),
        ({"retry-after": "Sun, 09 Sep 2001 01:00:00 GMT"}, 0.0),
    ],
)
def test_too_many_requests_says_when_to_come_again(told: dict[str, str], pause: float | None) -> None:
    headers = httpx2.Headers(told)
    party = ExternalClient(httpx2.AsyncClient(), "The desk", StandingClock())
    failed = party._build_failure(429, headers, b"", changes=True)
    assert isinstance(failed, ExternalServiceFailed)
    assert failed.retry_after_s == pause


def test_a_date_to_come_again_is_measured_by_the_clock_of_the_party() -> None:
    headers = {"retry-after": "Wed, 04 Feb 2026 10:00:30 GMT", "date": "Wed, 04 Feb 2026 10:00:00 GMT"}
    party = ExternalClient(httpx2.AsyncClient(), "The desk", StandingClock())
    failed = party._build_failure(429, httpx2.Headers(headers), b"", changes=True)
    assert isinstance(failed, ExternalServiceFailed)
    assert failed.retry_after_s == 30.0


def test_no_connection_means_that_it_was_not_asked() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # Bound, and nobody listens.
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"

        async def ask() -> None:
            async with httpx2.AsyncClient(base_url=url) as http:
                await ExternalClient(http, "The desk").request("POST", "/thing")

        with pytest.raises(
            ExternalServiceFailed, match=r"No connection to The desk: the request was not sent\."
        ) as failed:
            asyncio.run(ask())
    assert not failed.value.may_be_done


def test_an_answer_that_breaks_off_may_have_been_done() -> None:
    async def ask() -> None:
        async def cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{")
            writer.close()
            await writer.wait_closed()

        async with await asyncio.start_server(cut, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}") as http:
                await ExternalClient(http, "The desk").request("POST", "/thing")

    with pytest.raises(
        ExternalServiceFailed, match=r"The desk did not respond \(RemoteProtocolError\)\."
    ) as failed:
        asyncio.run(ask())
    assert failed.value.may_be_done


def test_an_answer_without_end_is_not_read_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(external_client, "BODY_BYTES_MAX", 1000)
    failed = asked(with_status(200, '"' + "x" * 1000 + '"'))
    assert isinstance(failed, ExternalServiceFailed)
    assert "larger than 1000 bytes" in failed.message


def test_an_answer_that_comes_byte_by_byte_is_given_up_as_a_whole() -> None:
    async def ask() -> None:
        stopped = asyncio.Event()

        async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            """Each byte comes in time for the client, whose limit is for each."""
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n")
            try:
                while not stopped.is_set():
                    writer.write(b" ")
                    await writer.drain()
                    await asyncio.sleep(0.01)
            except ConnectionError:
                pass
            finally:
                writer.close()

        async with await asyncio.start_server(drip, "127.0.0.1", 0) as server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            async with httpx2.AsyncClient(base_url=url, timeout=5.0) as http:
                try:
                    await ExternalClient(http, "The desk", timeout_s=0.2).request("POST", "/thing")
                finally:
                    stopped.set()

    with pytest.raises(
        ExternalServiceFailed, match=r"The desk did not respond completely within 0\.2 s\."
    ) as failed:
        asyncio.run(ask())
    assert failed.value.may_be_done


SECRET = "s3cr3t/of+the=test"
BASIC = base64.b64encode(f"agent@example.com:{SECRET}".encode()).decode()


@pytest.mark.parametrize(
    "client",
    [
        {"headers": {"authorization": f"Bearer {SECRET}"}},
        {"headers": {"x-api-key": SECRET}},
        {"auth": ("agent@example.com", SECRET)},
    ],
)
@pytest.mark.parametrize("passes", [frozenset(), frozenset({400})])
def test_a_party_that_repeats_what_it_was_sent_puts_no_credential_into_our_words(
    client: dict[str, Any], passes: frozenset[int]
) -> None:
    async def echo(request: Request) -> Response:
        forms = (html.escape(SECRET), quote(SECRET, safe=""), SECRET.replace("/", "\\/"), SECRET)
        told = f'{{"why": "{" ".join(forms)}", "sent": {json.dumps(dict(request.headers))}}}'
        return Response(told, status_code=400)

    async def run(url: str) -> str:
        async with httpx2.AsyncClient(base_url=url, **client) as http:
            try:
                return str(
                    await ExternalClient(http, "The desk").request("POST", "/thing", accepted_statuses=passes)
                )
            except ExternalServiceRefused as refused:
                return refused.message

    with serve_in_thread(Starlette(routes=[Route("/thing", echo, methods=METHODS)])) as url:
        said = asyncio.run(run(url))
    assert "[hidden]" in said
    assert not [each for each in (SECRET, BASIC, "s3cr3t", "of+the") if each in said]


def test_secrets_that_go_as_a_form_are_hidden_too() -> None:
    async def run() -> str:
        transport = httpx2.MockTransport(lambda request: httpx2.Response(400, content=request.content))
        async with httpx2.AsyncClient(transport=transport, base_url="http://desk.example") as http:
            party = ExternalClient(http, "The desk", secrets=(SECRET,))
            assert SECRET not in repr(party)
            with pytest.raises(ExternalServiceRefused) as refused:
                await party.request("POST", "/token", form={"client_secret": SECRET, "grant": "client"})
            return refused.value.message

    said = asyncio.run(run())
    assert "client_secret=[hidden]&grant=client" in said


@pytest.mark.parametrize("body", [{"a": "\ud800"}, {"a": float("nan")}, {"a": object()}])
def test_what_cannot_be_put_into_a_request_was_not_sent(body: Any) -> None:
    refused = asked(with_status(200), "POST", json=body)
    assert isinstance(refused, ExternalServiceRefused)
    failed = asked(with_status(200), "POST", json=body, has_effect=False)
    assert isinstance(failed, ExternalServiceFailed)
    assert not failed.may_be_done


def test_the_time_of_an_answer_is_the_partys_own_where_it_tells_it() -> None:
    party = ExternalClient(httpx2.AsyncClient(), "The desk", StandingClock())
    told = ExternalResponse(200, None, httpx2.Headers({"date": "Sun, 09 Sep 2001 01:46:50 GMT"}))
    assert party.get_response_time(told) == StandingClock().now() + 10
    assert party.get_response_time(ExternalResponse(200, None, httpx2.Headers())) == StandingClock().now()


def test_a_change_of_what_a_read_does_not_find_is_refused() -> None:
    with pytest.raises(ExternalServiceRefused, match="no such thing") as refused, refuse_missing():
        raise NotFound("The desk knows no such thing (404).")
    assert refused.value.code == "404"


@pytest.mark.parametrize(
    ("body", "kind"),
    [({}, str), ([], str), (None, dict), ({"a": 1}, str), ({"a": True}, int), ({"a": None}, list)],
)
def test_a_member_of_another_kind_is_nonsense_and_is_named(body: Any, kind: type) -> None:
    with pytest.raises(
        ExternalServiceFailed, match=f"Invalid response from The desk: expected a as {kind.__name__}, got"
    ):
        read_field(body, "a", kind, "The desk")


def test_a_member_of_its_kind_is_given() -> None:
    assert read_field({"a": 1}, "a", int, "The desk") == 1
    assert read_field({"a": False}, "a", bool, "The desk") is False
