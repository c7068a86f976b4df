"""`ExternalClient` over real HTTP: how every kind of response and failure is mapped."""

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


class FixedClock:
    """A clock that always returns the same time."""

    def now(self) -> float:
        return 1_000_000_000.0


def send_request(
    response: Response, method: str = "GET", *, clock: Any = None, **asking: Any
) -> ExternalResponse | HoldfastError:
    """Return the response, or the error, of a service that always answers the same."""

    async def answer(_: Request) -> Response:
        return response

    async def run(url: str) -> ExternalResponse | HoldfastError:
        async with httpx2.AsyncClient(base_url=url) as http:
            client = ExternalClient(http, "The desk", clock) if clock else ExternalClient(http, "The desk")
            try:
                return await client.request(method, "/thing", **asking)
            except HoldfastError as error:
                return error

    with serve_in_thread(Starlette(routes=[Route("/thing", answer, methods=METHODS)])) as url:
        return asyncio.run(run(url))


def make_response(status: int, text: str = "{}", headers: Mapping[str, str] | None = None) -> Response:
    return Response(text, status_code=status, headers=dict(headers or {}))


def test_returns_the_json_of_a_response() -> None:
    answer = send_request(
        make_response(201, '{"id": "1", "points": 3.5}', {"x-page": "2"}), "POST", json={"a": 1}
    )
    assert isinstance(answer, ExternalResponse)
    assert (answer.status, answer.body, answer.headers["x-page"]) == (201, {"id": "1", "points": 3.5}, "2")


def test_empty_response_has_no_body() -> None:
    answer = send_request(make_response(204, ""), "POST")
    assert isinstance(answer, ExternalResponse)
    assert answer.body is None


@pytest.mark.parametrize(
    ("status", "method", "kind", "may_be_done"),
    [
        (401, "GET", ExternalServiceFailed, False),
        (403, "POST", ExternalServiceFailed, False),
        (302, "GET", ExternalServiceFailed, False),
        # Either a result page or a wrong address: unknown.
        (302, "POST", ExternalServiceFailed, True),
        (303, "POST", ExternalServiceFailed, True),
        (402, "POST", ExternalServiceFailed, False),
        (408, "POST", ExternalServiceFailed, True),
        (408, "GET", ExternalServiceFailed, False),
        (499, "POST", ExternalServiceFailed, True),
        # Conflicts with a concurrent change: a retry may succeed.
        (409, "POST", ExternalServiceFailed, False),
        (423, "POST", ExternalServiceFailed, False),
        (429, "POST", ExternalServiceFailed, False),
        (500, "GET", ExternalServiceFailed, False),
        (500, "POST", ExternalServiceFailed, True),
        (503, "POST", ExternalServiceFailed, True),
    ],
)
def test_failure_states_whether_it_may_be_done(
    status: int, method: str, kind: type[ExternalServiceFailed], may_be_done: bool
) -> None:
    failed = send_request(make_response(status), method)
    assert isinstance(failed, kind)
    assert failed.may_be_done is may_be_done
    assert "The desk" in failed.message


@pytest.mark.parametrize("status", [400, 404, 410, 422])
def test_refused_change_is_permanent_and_quotes_the_service(status: int) -> None:
    refused = send_request(make_response(status, '{"errors":\n\t["no such field"]}'), "POST")
    assert isinstance(refused, ExternalServiceRefused)
    assert refused.code == str(status)
    assert '{"errors": ["no such field"]}' in refused.message


@pytest.mark.parametrize("status", [404, 410])
def test_read_of_a_missing_resource_is_not_found(status: int) -> None:
    assert isinstance(send_request(make_response(status)), NotFound)


def test_post_marked_as_a_read_is_a_read() -> None:
    assert isinstance(send_request(make_response(404), "POST", has_effect=False), NotFound)
    failed = send_request(make_response(500), "POST", has_effect=False)
    assert isinstance(failed, ExternalServiceFailed)
    assert not failed.may_be_done


def test_accepted_status_is_a_response_with_any_body() -> None:
    page = send_request(make_response(412, "<html>"), accepted_statuses=frozenset({412}))
    response = send_request(make_response(412, '{"sync": "x"}'), accepted_statuses=frozenset({412}))
    assert isinstance(page, ExternalResponse)
    assert isinstance(response, ExternalResponse)
    assert (page.status, page.body, response.body) == (412, None, {"sync": "x"})


@pytest.mark.parametrize("text", ["<html>fine</html>", "{", '{"points": NaN}', "[" * 100_000, "\xff"])
@pytest.mark.parametrize("method", METHODS)
def test_invalid_json_is_a_failure_and_a_change_may_be_done(text: str, method: str) -> None:
    failed = send_request(Response(text.encode("latin-1"), status_code=200), method)
    assert isinstance(failed, ExternalServiceFailed)
    assert "not JSON" in failed.message
    assert failed.may_be_done is (method == "POST")


@pytest.mark.parametrize(
    ("sent", "pause"),
    [
        ({"retry-after": "7"}, 7.0),
        ({}, None),
        # The clock of the test is at 01:46:40.
        ({"retry-after": "Sun, 09 Sep 2001 01:46:50 GMT"}, 10.0),
    ],
)
def test_rate_limit_reports_when_to_retry(sent: dict[str, str], pause: float | None) -> None:
    headers = httpx2.Headers(sent)
    client = ExternalClient(httpx2.AsyncClient(), "The desk", FixedClock())
    failed = client._build_failure(429, headers, b"", changes=True)
    assert isinstance(failed, ExternalServiceFailed)
    assert failed.retry_after_s == pause


def test_retry_date_is_measured_by_the_clock_of_the_service() -> None:
    headers = {"retry-after": "Wed, 04 Feb 2026 10:00:30 GMT", "date": "Wed, 04 Feb 2026 10:00:00 GMT"}
    client = ExternalClient(httpx2.AsyncClient(), "The desk", FixedClock())
    failed = client._build_failure(429, httpx2.Headers(headers), b"", changes=True)
    assert isinstance(failed, ExternalServiceFailed)
    assert failed.retry_after_s == 30.0


def test_connection_failure_means_nothing_was_sent() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # Bound, but not listening.
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"

        async def ask() -> None:
            async with httpx2.AsyncClient(base_url=url) as http:
                await ExternalClient(http, "The desk").request("POST", "/thing")

        with pytest.raises(
            ExternalServiceFailed, match=r"No connection to The desk: the request was not sent\."
        ) as failed:
            asyncio.run(ask())
    assert not failed.value.may_be_done


def test_interrupted_response_may_be_done() -> None:
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


def test_stops_reading_an_endless_response(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(external_client, "MAX_BODY_BYTES", 1000)
    failed = send_request(make_response(200, '"' + "x" * 1000 + '"'))
    assert isinstance(failed, ExternalServiceFailed)
    assert "larger than 1000 bytes" in failed.message


def test_gives_up_a_slow_response_as_a_whole() -> None:
    async def ask() -> None:
        stopped = asyncio.Event()

        async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            """Send each byte within the client's timeout, which applies to each read."""
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
def test_echoed_credentials_are_not_in_the_error(client: dict[str, Any], passes: frozenset[int]) -> None:
    async def echo(request: Request) -> Response:
        forms = (html.escape(SECRET), quote(SECRET, safe=""), SECRET.replace("/", "\\/"), SECRET)
        body = f'{{"why": "{" ".join(forms)}", "sent": {json.dumps(dict(request.headers))}}}'
        return Response(body, status_code=400)

    async def run(url: str) -> str:
        async with httpx2.AsyncClient(base_url=url, **client) as http:
            try:
                return str(
                    await ExternalClient(http, "The desk").request("POST", "/thing", accepted_statuses=passes)
                )
            except ExternalServiceRefused as refused:
                return refused.message

    with serve_in_thread(Starlette(routes=[Route("/thing", echo, methods=METHODS)])) as url:
        message = asyncio.run(run(url))
    assert "[hidden]" in message
    assert not [each for each in (SECRET, BASIC, "s3cr3t", "of+the") if each in message]


def test_hides_secrets_sent_as_a_form() -> None:
    async def run() -> str:
        transport = httpx2.MockTransport(lambda request: httpx2.Response(400, content=request.content))
        async with httpx2.AsyncClient(transport=transport, base_url="http://desk.example") as http:
            client = ExternalClient(http, "The desk", secrets=(SECRET,))
            assert SECRET not in repr(client)
            with pytest.raises(ExternalServiceRefused) as refused:
                await client.request("POST", "/token", form={"client_secret": SECRET, "grant": "client"})
            return refused.value.message

    message = asyncio.run(run())
    assert "client_secret=[hidden]&grant=client" in message


@pytest.mark.parametrize("body", [{"a": "\ud800"}, {"a": float("nan")}, {"a": object()}])
def test_unsendable_change_is_refused_and_unsendable_read_fails(body: Any) -> None:
    refused = send_request(make_response(200), "POST", json=body)
    assert isinstance(refused, ExternalServiceRefused)
    failed = send_request(make_response(200), "POST", json=body, has_effect=False)
    assert isinstance(failed, ExternalServiceFailed)
    assert not failed.may_be_done


def test_response_time_is_the_services_own_if_given() -> None:
    client = ExternalClient(httpx2.AsyncClient(), "The desk", FixedClock())
    response = ExternalResponse(200, None, httpx2.Headers({"date": "Sun, 09 Sep 2001 01:46:50 GMT"}))
    assert client.get_response_time(response) == FixedClock().now() + 10
    assert client.get_response_time(ExternalResponse(200, None, httpx2.Headers())) == FixedClock().now()


def test_refuse_missing_turns_not_found_into_a_refusal() -> None:
    with pytest.raises(ExternalServiceRefused, match="no such thing") as refused, refuse_missing():
        raise NotFound("The desk knows no such thing (404).")
    assert refused.value.code == "404"


@pytest.mark.parametrize(
    ("body", "kind"),
    [({}, str), ([], str), (None, dict), ({"a": 1}, str), ({"a": True}, int), ({"a": None}, list)],
)
def test_names_a_field_of_the_wrong_type(body: Any, kind: type) -> None:
    with pytest.raises(
        ExternalServiceFailed, match=f"Invalid response from The desk: expected a as {kind.__name__}, got"
    ):
        read_field(body, "a", kind, "The desk")


def test_returns_a_field_of_the_right_type() -> None:
    assert read_field({"a": 1}, "a", int, "The desk") == 1
    assert read_field({"a": False}, "a", bool, "The desk") is False
