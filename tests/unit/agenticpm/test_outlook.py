"""A mailbox by Microsoft Graph, against the stand-in over real HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from agenticpm.demo.sandbox.outlook import MAILBOX, TOKEN_S, OutlookSandbox, build_outlook_app
from agenticpm.domain.tickets import MailMessage, MailPage
from agenticpm.integrations.credentials import OutlookCredentials
from agenticpm.integrations.outlook.mailbox import GraphTokens, OutlookMailbox
from holdfast.core.clock import SYSTEM_CLOCK, Clock, RunClock
from holdfast.core.errors import ExternalServiceFailed, NotFound
from holdfast.web import external_client, serve_in_thread
from holdfast.web.sandbox_faults import Faults

T = TypeVar("T")
SECRET = "app-secret-of-the-test"
TOKEN = "token-of-the-test"
# Where a stand-in is that is asked without a socket between.
HERE = "http://127.0.0.1"


def asked(
    ask: Callable[[OutlookMailbox], Awaitable[T]],
    sandbox: OutlookSandbox,
    *,
    page_size: int = 50,
    clock: Clock = SYSTEM_CLOCK,
    **credentials: Any,
) -> T:
    async def run(url: str) -> T:
        told = {
            "mailbox": MAILBOX,
            "base_url": url,
            "login_url": url,
            **(credentials or {"access_token": TOKEN}),
        }
        found = OutlookCredentials.model_validate(told)
        async with httpx2.AsyncClient(base_url=url) as http:
            tokens = GraphTokens(http, found, clock)
            return await ask(OutlookMailbox(http, found.mailbox, tokens, page_size=page_size))

    with serve_in_thread(build_outlook_app(sandbox)) as url:
        return asyncio.run(run(url))


async def synced(
    mailbox: OutlookMailbox, checkpoint: str | None, known: dict[str, MailMessage]
) -> tuple[str, list[MailPage]]:
    """Reads to the end, and keeps `known` as somebody would who believes the pages."""
    pages: list[MailPage] = []
    while not pages or pages[-1].has_more:
        page = await mailbox.fetch_messages(checkpoint)
        if page.is_reset:
            known.clear()
        for each in page.messages:
            if each.is_removed:
                known.pop(each.id, None)
            else:
                known[each.id] = each
        pages.append(page)
        checkpoint = page.checkpoint
    return pages[-1].checkpoint, pages


def test_reads_what_is_there_in_pages_of_the_size_that_is_preferred() -> None:
    known: dict[str, MailMessage] = {}
    _, pages = asked(lambda box: synced(box, None, known), OutlookSandbox(access_token=TOKEN), page_size=2)
    assert [len(page.messages) for page in pages] == [2, 1]
    assert [(page.is_reset, page.has_more) for page in pages] == [(True, True), (False, False)]
    first = pages[0].messages[0]
    assert (first.subject, first.sender) == ("Crossing refunds", "ines@example.com")
    assert first.preview.startswith("MCU-3")


def test_tells_what_came_changed_and_went_since() -> None:
    sandbox = OutlookSandbox()

    async def ask(box: OutlookMailbox) -> tuple[dict[str, MailMessage], MailPage]:
        known: dict[str, MailMessage] = {}
        link, _ = await synced(box, None, known)
        (lunch,) = [each.id for each in known.values() if each.subject == "Lunch"]
        sandbox.remove(lunch)
        sandbox.receive(subject="New", **{"from": "ada@example.com"})
        _, (page,) = await synced(box, link, known)
        return known, page

    known, page = asked(ask, sandbox)
    assert sorted(each.subject for each in known.values()) == ["Crossing refunds", "New", "Pilot date"]
    assert [each.is_removed for each in page.messages] == [True, False]
    assert not page.is_reset


def test_the_same_checkpoint_twice_gives_the_same_page() -> None:
    async def ask(box: OutlookMailbox) -> tuple[MailPage, MailPage]:
        first = await box.fetch_messages(None)
        return await box.fetch_messages(first.checkpoint), await box.fetch_messages(first.checkpoint)

    once, again = asked(ask, OutlookSandbox(), page_size=1)
    assert once == again


@pytest.mark.proves("AP-24")
def test_a_link_that_was_forgotten_is_a_reset_with_everything() -> None:
    sandbox = OutlookSandbox()

    async def ask(box: OutlookMailbox) -> MailPage:
        link, _ = await synced(box, None, {})
        sandbox.expire()
        return await box.fetch_messages(link)

    page = asked(ask, sandbox)
    assert page.is_reset
    assert len(page.messages) == 3


@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("receive"), st.integers(0, 9)),
            st.tuples(st.just("edit"), st.integers(0, 9)),
            st.tuples(st.just("remove"), st.integers(0, 9)),
            st.tuples(st.just("sync"), st.integers(1, 3)),
            st.tuples(st.just("page"), st.integers(1, 3)),
            st.tuples(st.just("expire"), st.just(0)),
        ),
        max_size=20,
    )
)
def test_any_edits_and_readings_end_with_what_is_in_the_inbox(steps: list[tuple[str, int]]) -> None:
    sandbox = OutlookSandbox(with_sample=False)

    async def ask(url: str) -> dict[str, MailMessage]:
        known: dict[str, MailMessage] = {}
        link: str | None = None
        found = OutlookCredentials.model_validate(
            {"mailbox": MAILBOX, "base_url": url, "access_token": TOKEN}
        )
        transport = httpx2.ASGITransport(app=build_outlook_app(sandbox))
        async with httpx2.AsyncClient(base_url=url, transport=transport) as http:
            for what, number in [*steps, ("sync", 2), ("sync", 1)]:
                box = OutlookMailbox(
                    http, MAILBOX, GraphTokens(http, found, SYSTEM_CLOCK), page_size=max(number, 1)
                )
                ids = list(sandbox.messages)
                if what == "receive":
                    sandbox.receive(subject=f"Mail {number}")
                elif what == "edit" and ids:
                    sandbox.edit(ids[number % len(ids)], subject=f"Edited {number}")
                elif what == "remove" and ids:
                    sandbox.remove(ids[number % len(ids)])
                elif what == "expire":
                    sandbox.expire()
                elif what == "sync":
                    link, _ = await synced(box, link, known)
                elif what == "page":
                    page = await box.fetch_messages(link)
                    _believe(known, page)
                    link = page.checkpoint
        return known

    known = asyncio.run(ask(HERE))
    assert {id: each.subject for id, each in known.items()} == {
        id: each["subject"] for id, each in sandbox.messages.items()
    }


def _believe(known: dict[str, MailMessage], page: MailPage) -> None:
    if page.is_reset:
        known.clear()
    for each in page.messages:
        known.pop(each.id, None)
        if not each.is_removed:
            known[each.id] = each


# --- who asks -----------------------------------------------------------------------------------------------

APP: dict[str, Any] = {"tenant": "acme.example", "client_id": "c-1", "client_secret": SECRET}


def test_an_app_signs_in_once_and_again_shortly_before_its_token_ends(tmp_path: Path) -> None:
    clock = RunClock(tmp_path / "clock", start=1_000_000.0)
    sandbox = OutlookSandbox(clock=clock, secret=SECRET)

    async def ask(box: OutlookMailbox) -> list[int]:
        counted = []
        for wait in (0, 10, TOKEN_S - 200, 100):
            clock.advance(wait)
            await box.fetch_messages(None)
            counted.append(sandbox.sign_in_count)
        return counted

    assert asked(ask, sandbox, clock=clock, **APP) == [1, 1, 1, 2]


def test_a_token_that_was_withdrawn_is_replaced_at_the_next_request() -> None:
    sandbox = OutlookSandbox(secret=SECRET)

    async def ask(box: OutlookMailbox) -> int:
        await box.fetch_messages(None)
        sandbox._issued.clear()
        with pytest.raises(ExternalServiceFailed, match="credentials"):
            await box.fetch_messages(None)
        return len((await box.fetch_messages(None)).messages)

    assert asked(ask, sandbox, **APP) == 3


def test_a_wrong_secret_is_refused_without_being_shown() -> None:
    async def ask(box: OutlookMailbox) -> ExternalServiceFailed:
        with pytest.raises(ExternalServiceFailed) as failed:
            await box.fetch_messages(None)
        return failed.value

    failed = asked(ask, OutlookSandbox(secret="another"), **APP)
    assert "fix tenant" in failed.message
    assert SECRET not in failed.message


def signed_in(answer: httpx2.Response) -> ExternalServiceFailed:
    """How signing in fails, where it is answered so."""

    async def run() -> ExternalServiceFailed:
        found = OutlookCredentials.model_validate(
            {"mailbox": MAILBOX, "base_url": HERE, "login_url": HERE, **APP}
        )
        transport = httpx2.MockTransport(lambda _: answer)
        async with httpx2.AsyncClient(base_url=HERE, transport=transport) as http:
            with pytest.raises(ExternalServiceFailed) as failed:
                await GraphTokens(http, found, SYSTEM_CLOCK).get_bearer()
            return failed.value

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("told", "pause"),
    [("9" * 400, None), ("99999999999", 3600.0), ("1.5", 1.5), ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0)],
)
def test_a_sign_in_that_takes_no_more_says_when_to_come_again_within_reason(
    told: str, pause: float | None
) -> None:
    assert signed_in(httpx2.Response(429, headers={"retry-after": told})).retry_after_s == pause


def test_a_sign_in_without_end_is_not_read_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(external_client, "BODY_BYTES_MAX", 1000)
    body = b" " * 1000 + b'{"access_token": "t", "expires_in": 3600}'
    assert "larger than 1000 bytes" in signed_in(httpx2.Response(200, content=body)).message


@pytest.mark.parametrize("answer", [httpx2.Response(200, text="<html>"), httpx2.Response(200, json={})])
def test_a_sign_in_that_makes_no_sense_is_named(answer: httpx2.Response) -> None:
    assert "Invalid response from Outlook's sign-in" in signed_in(answer).message


def test_a_tenant_that_is_not_there_is_mended_in_the_integration() -> None:
    assert "fix tenant" in signed_in(httpx2.Response(404)).message


def test_health_tells_a_mailbox_that_can_be_read_from_one_that_cannot() -> None:
    assert asked(lambda box: box.check_health(), OutlookSandbox(access_token=TOKEN)).is_ok
    assert not asked(lambda box: box.check_health(), OutlookSandbox(access_token="other")).is_ok
    assert not asked(lambda box: box.check_health(), OutlookSandbox(mailbox="other@example.com")).is_ok


def test_a_mailbox_that_is_not_there_is_not_found() -> None:
    async def ask(box: OutlookMailbox) -> None:
        with pytest.raises(NotFound):
            await box.fetch_messages(None)

    asked(ask, OutlookSandbox(mailbox="other@example.com"))


def test_too_many_requests_say_when_to_come_again() -> None:
    async def ask(box: OutlookMailbox) -> ExternalServiceFailed:
        with pytest.raises(ExternalServiceFailed) as failed:
            await box.fetch_messages(None)
        return failed.value

    assert asked(ask, OutlookSandbox(faults=Faults(too_many=1.0, retry_after_s=9))).retry_after_s == 9.0


def test_the_doors_receive_edit_and_remove() -> None:
    sandbox = OutlookSandbox(with_sample=False)
    with serve_in_thread(build_outlook_app(sandbox)) as url, httpx2.Client(base_url=url) as http:
        id = http.post("/sandbox/messages", json={"subject": "A", "from": "a@example.com"}).json()["id"]
        http.post(f"/sandbox/messages/{id}", json={"subject": "B"}).raise_for_status()
        assert sandbox.messages[id]["subject"] == "B"
        http.delete(f"/sandbox/messages/{id}").raise_for_status()
        assert http.post("/sandbox/messages/none", json={}).status_code == 404
        http.post("/sandbox/expire").raise_for_status()
        http.post("/sandbox/faults", json={"too_many": 0.5}).raise_for_status()
        assert http.get("/sandbox/ledger").json() == {"ledger": []}
    assert (sandbox.messages, sandbox.faults.too_many) == ({}, 0.5)


# --- nonsense -----------------------------------------------------------------------------------------------

LINK = "@odata.deltaLink"
# Where a link of Graph's leads.
OWN = "{here}/v1.0/users/x/mailFolders/inbox/messages/delta?$deltatoken=1"
GOOD = {
    "id": "m",
    "subject": "s",
    "receivedDateTime": "2026-03-01T10:00:00Z",
    "bodyPreview": "",
    "from": None,
}


def answered(status: int, body: Any, checkpoint: str | None = None, path: str = "/{rest:path}") -> Any:
    """What the mailbox makes of one answer; `{here}` in a text is the party's own address."""

    async def answer(request: Request) -> Response:
        if isinstance(body, str) or body is None:
            return Response(body or "", status_code=status)
        here = str(request.base_url).rstrip("/")
        told = {
            name: each.replace("{here}", here) if isinstance(each, str) else each
            for name, each in body.items()
        }
        return JSONResponse(told, status_code=status)

    async def run(url: str) -> MailPage:
        told = {"mailbox": MAILBOX, "base_url": url, "access_token": TOKEN}
        transport = httpx2.ASGITransport(app=Starlette(routes=[Route(path, answer)]))
        async with httpx2.AsyncClient(base_url=url, transport=transport) as http:
            tokens = GraphTokens(http, OutlookCredentials.model_validate(told), SYSTEM_CLOCK)
            link = None if checkpoint is None else checkpoint.replace("{here}", url)
            return await OutlookMailbox(http, MAILBOX, tokens).fetch_messages(link)

    return asyncio.run(run(HERE))


NONSENSE: list[tuple[int, Any, str]] = [
    (200, "<html>welcome</html>", "not JSON"),
    (200, None, "the response: "),
    (200, {}, "value: Field required"),
    (200, {"value": {}}, "value: "),
    (200, {"value": [7], LINK: OWN}, "value.0: "),
    (200, {"value": []}, "neither @odata.nextLink nor @odata.deltaLink"),
    (200, {"value": [], LINK: 7}, "@odata.deltaLink: "),
    (200, {"value": [], LINK: "https://evil.example/v1.0/x"}, "does not lead to the messages"),
    (200, {"value": [], "@odata.nextLink": "//evil.example/v1.0/x"}, "does not lead to the messages"),
    (200, {"value": [], LINK: "/v1.0/x"}, "does not lead to the messages"),
    *[
        (200, {"value": [], LINK: "{here}" + path}, "does not lead to the messages")
        for path in (
            "/elsewhere",
            "/v1.0/users/x",
            "/v1.0/users/x/messages/delta/more",
            "/v1.0/sites/x/messages/delta",
            "/v1.0/users/../../admin/messages/delta",
            "/v1.0/users/%2e%2e/messages/delta",
            "/v1.0/users/..%5cx/messages/delta",
            "/beta/v1.0/users/x/messages/delta",
        )
    ],
    (200, {"value": [], LINK: "http://u@[bad/v1.0/x"}, "does not lead to the messages"),
    (200, {"value": [{**GOOD, "id": ""}], LINK: OWN}, "id: "),
    (
        200,
        {"value": [{**GOOD, "receivedDateTime": "yesterday"}], LINK: OWN},
        "receivedDateTime: ",
    ),
    (200, {"value": [{**GOOD, "receivedDateTime": 7}], LINK: OWN}, "receivedDateTime: "),
    (
        200,
        {"value": [{**GOOD, "receivedDateTime": "2026-03-01T10:00:00"}], LINK: OWN},
        "receivedDateTime",
    ),
    (200, {"value": [{**GOOD, "from": "a@b"}], LINK: OWN}, "from: "),
    (200, {"value": [{"@removed": {}}], LINK: OWN}, "id: Field required"),
    (301, None, "redirect"),
]


@pytest.mark.parametrize(("status", "body", "said"), NONSENSE)
def test_an_answer_that_makes_no_sense_is_named(status: int, body: Any, said: str) -> None:
    with pytest.raises(ExternalServiceFailed) as failed:
        answered(status, body)
    assert said in failed.value.message
    assert not failed.value.may_be_done


def test_an_empty_checkpoint_is_none() -> None:
    assert answered(200, {"value": [GOOD], LINK: OWN}, "").is_reset


@pytest.mark.parametrize(
    "change", [{"isRead": True}, {"subject": "s2"}, {"from": None, "bodyPreview": ""}, {}]
)
def test_what_tells_only_a_part_of_a_mail_is_no_news_and_stops_nothing(change: dict[str, Any]) -> None:
    page = answered(200, {"value": [{"id": "m", **change}, GOOD], LINK: OWN})
    assert [each.subject for each in page.messages] == ["s"]


@pytest.mark.parametrize(
    "path",
    [
        "/v1.0/me/mailfolders('AQMk=')/messages/delta?$skiptoken=1",
        "/v1.0/users('7d1e')/mailFolders('inbox')/messages/microsoft.graph.delta()?$deltatoken=1",
        "/v1.0/users/7d1e/mailFolders/inbox/messages/delta(changeType='created')?$deltatoken=1",
    ],
)
def test_links_are_followed_in_any_of_the_forms_that_graph_gives_them(path: str) -> None:
    assert answered(200, {"value": [], LINK: "{here}" + path}).checkpoint == HERE + path


@pytest.mark.parametrize(
    "checkpoint", ["https://evil.example/v1.0/x", "not a link", "{here}.evil.example/v1.0/"]
)
def test_a_checkpoint_that_leads_elsewhere_is_not_followed(checkpoint: str) -> None:
    with pytest.raises(ExternalServiceFailed, match="the checkpoint does not lead to the messages"):
        answered(200, {"value": [], LINK: OWN}, checkpoint)


@pytest.mark.parametrize(("status", "code"), [(404, "ErrorItemNotFound"), (400, "BadRequest"), (400, None)])
def test_a_refusal_that_does_not_say_it_has_forgotten_is_no_reset(status: int, code: str | None) -> None:
    body: Any = "<html>" if code is None else {"error": {"code": code}}
    with pytest.raises(ExternalServiceFailed, match=f"refused the link of the checkpoint with {status}"):
        answered(status, body, OWN)
