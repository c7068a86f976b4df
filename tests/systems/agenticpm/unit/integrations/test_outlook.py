"""Tests of the Outlook mailbox, against its sandbox in process and against prepared responses."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from agenticpm.domain.tickets import MailMessage, MailPage
from agenticpm.integrations.credentials import OutlookCredentials
from agenticpm.integrations.outlook.mailbox import GraphTokens, OutlookMailbox
from holdfast.core.clock import SYSTEM_CLOCK, Clock, RunClock
from holdfast.core.errors import ExternalServiceFailed, NotFound
from holdfast.web import external_client, serve_in_thread
from holdfast.web.sandbox_faults import Faults
from holdfast_demo.agenticpm.sandbox.outlook import MAILBOX, TOKEN_S, OutlookSandbox, build_outlook_app
from tests.systems.agenticpm.unit.samples import ManualClock

SECRET = "app-secret-of-the-test"
TOKEN = "token-of-the-test"
# Address of a sandbox that is called without a socket.
HERE = "http://127.0.0.1"


@asynccontextmanager
async def open_mailbox(
    sandbox: OutlookSandbox, *, page_size: int = 50, clock: Clock = SYSTEM_CLOCK, **credentials: Any
) -> AsyncIterator[OutlookMailbox]:
    """Open a mailbox of the sandbox without a socket."""
    given = {"mailbox": MAILBOX, "base_url": HERE, "login_url": HERE}
    found = OutlookCredentials.model_validate(given | (credentials or {"access_token": TOKEN}))
    transport = httpx2.ASGITransport(build_outlook_app(sandbox))
    async with httpx2.AsyncClient(transport=transport, base_url=HERE) as http:
        tokens = GraphTokens(http, found, clock)
        yield OutlookMailbox(http, found.mailbox, tokens, page_size=page_size)


async def sync_all(
    mailbox: OutlookMailbox, checkpoint: str | None, known: dict[str, MailMessage]
) -> tuple[str, list[MailPage]]:
    """Read to the end and apply the pages to `known`. Return the checkpoint and the pages."""
    pages: list[MailPage] = []
    while not pages or pages[-1].has_more:
        page = await mailbox.fetch_messages(checkpoint)
        apply_page(known, page)
        pages.append(page)
        checkpoint = page.checkpoint
    return pages[-1].checkpoint, pages


async def test_reads_pages_of_the_preferred_size() -> None:
    known: dict[str, MailMessage] = {}
    async with open_mailbox(OutlookSandbox(access_token=TOKEN), page_size=2) as box:
        _, pages = await sync_all(box, None, known)
    assert [len(page.messages) for page in pages] == [2, 1]
    assert [(page.is_reset, page.has_more) for page in pages] == [(True, True), (False, False)]
    first = pages[0].messages[0]
    assert (first.subject, first.sender) == ("Crossing refunds", "ines@example.com")
    assert first.preview.startswith("MCU-3")


async def test_reports_new_and_removed_mails() -> None:
    sandbox = OutlookSandbox()
    async with open_mailbox(sandbox) as box:
        known: dict[str, MailMessage] = {}
        link, _ = await sync_all(box, None, known)
        (lunch,) = [each.id for each in known.values() if each.subject == "Lunch"]
        sandbox.remove(lunch)
        sandbox.receive(subject="New", **{"from": "ada@example.com"})
        _, (page,) = await sync_all(box, link, known)
    assert sorted(each.subject for each in known.values()) == ["Crossing refunds", "New", "Pilot date"]
    assert [each.is_removed for each in page.messages] == [True, False]
    assert not page.is_reset


async def test_same_checkpoint_returns_the_same_page_twice() -> None:
    async with open_mailbox(OutlookSandbox(), page_size=1) as box:
        first = await box.fetch_messages(None)
        once, again = await box.fetch_messages(first.checkpoint), await box.fetch_messages(first.checkpoint)
    assert once == again


@pytest.mark.proves("AP-24")
async def test_expired_link_causes_a_full_reset() -> None:
    sandbox = OutlookSandbox()
    async with open_mailbox(sandbox) as box:
        link, _ = await sync_all(box, None, {})
        sandbox.expire()
        page = await box.fetch_messages(link)
    assert page.is_reset
    assert len(page.messages) == 3


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
async def test_any_edits_and_reads_end_with_the_current_inbox(steps: list[tuple[str, int]]) -> None:
    sandbox = OutlookSandbox(with_sample=False)

    known: dict[str, MailMessage] = {}
    link: str | None = None
    for what, number in [*steps, ("sync", 2), ("sync", 1)]:
        ids = list(sandbox.messages)
        async with open_mailbox(sandbox, page_size=max(number, 1)) as box:
            if what == "receive":
                sandbox.receive(subject=f"Mail {number}")
            elif what == "edit" and ids:
                sandbox.edit(ids[number % len(ids)], subject=f"Edited {number}")
            elif what == "remove" and ids:
                sandbox.remove(ids[number % len(ids)])
            elif what == "expire":
                sandbox.expire()
            elif what == "sync":
                link, _ = await sync_all(box, link, known)
            elif what == "page":
                page = await box.fetch_messages(link)
                apply_page(known, page)
                link = page.checkpoint
    assert {id: each.subject for id, each in known.items()} == {
        id: each["subject"] for id, each in sandbox.messages.items()
    }


def apply_page(known: dict[str, MailMessage], page: MailPage) -> None:
    """Apply one page to the known messages."""
    if page.is_reset:
        known.clear()
    for each in page.messages:
        known.pop(each.id, None)
        if not each.is_removed:
            known[each.id] = each


# --- sign-in ------------------------------------------------------------------------------------------------

APP: dict[str, Any] = {"tenant": "acme.example", "client_id": "c-1", "client_secret": SECRET}


async def test_app_signs_in_once_and_again_shortly_before_its_token_expires(tmp_path: Path) -> None:
    clock = RunClock(tmp_path / "clock", start=1_000_000.0)
    sandbox = OutlookSandbox(clock=clock, secret=SECRET)
    async with open_mailbox(sandbox, clock=clock, **APP) as box:
        counted = []
        for wait in (0, 10, TOKEN_S - 200, 100):
            clock.advance(wait)
            await box.fetch_messages(None)
            counted.append(sandbox.sign_in_count)
        assert counted == [1, 1, 1, 2]


async def test_app_signs_in_again_if_it_did_while_the_clock_was_ahead() -> None:
    clock = ManualClock()
    sandbox = OutlookSandbox(clock=clock, secret=SECRET)
    async with open_mailbox(sandbox, clock=clock, **APP) as box:
        for move in (86_400.0, -86_400.0):
            clock.advance(move)
            await box.fetch_messages(None)
        assert sandbox.sign_in_count == 2


async def test_replaces_a_revoked_token_on_the_next_request() -> None:
    sandbox = OutlookSandbox(secret=SECRET)
    async with open_mailbox(sandbox, **APP) as box:
        await box.fetch_messages(None)
        sandbox._issued.clear()
        with pytest.raises(ExternalServiceFailed, match="credentials"):
            await box.fetch_messages(None)
        assert len((await box.fetch_messages(None)).messages) == 3


async def test_rejects_a_wrong_secret_without_showing_it() -> None:
    async with open_mailbox(OutlookSandbox(secret="another"), **APP) as box:
        with pytest.raises(ExternalServiceFailed) as failed:
            await box.fetch_messages(None)
    assert "fix tenant" in failed.value.message
    assert SECRET not in failed.value.message


async def get_sign_in_error(answer: httpx2.Response) -> ExternalServiceFailed:
    """Return the error of a sign-in that gets this response."""
    found = OutlookCredentials.model_validate(
        {"mailbox": MAILBOX, "base_url": HERE, "login_url": HERE, **APP}
    )
    transport = httpx2.MockTransport(lambda _: answer)
    async with httpx2.AsyncClient(base_url=HERE, transport=transport) as http:
        with pytest.raises(ExternalServiceFailed) as failed:
            await GraphTokens(http, found, SYSTEM_CLOCK).get_bearer()
        return failed.value


@pytest.mark.parametrize(
    ("header", "pause"),
    [("9" * 400, None), ("99999999999", 3600.0), ("1.5", 1.5), ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0)],
)
async def test_rate_limited_sign_in_reports_a_bounded_retry_time(header: str, pause: float | None) -> None:
    assert (
        await get_sign_in_error(httpx2.Response(429, headers={"retry-after": header}))
    ).retry_after_s == pause


async def test_rejects_a_sign_in_response_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(external_client, "MAX_BODY_BYTES", 1000)
    body = b" " * 1000 + b'{"access_token": "t", "expires_in": 3600}'
    assert "larger than 1000 bytes" in (await get_sign_in_error(httpx2.Response(200, content=body))).message


@pytest.mark.parametrize("answer", [httpx2.Response(200, text="<html>"), httpx2.Response(200, json={})])
async def test_invalid_sign_in_response_is_reported(answer: httpx2.Response) -> None:
    assert "Invalid response from Outlook's sign-in" in (await get_sign_in_error(answer)).message


async def test_error_for_an_unknown_tenant_says_what_to_fix() -> None:
    assert "fix tenant" in (await get_sign_in_error(httpx2.Response(404))).message


async def test_health_distinguishes_readable_and_unreadable_mailboxes() -> None:
    async with open_mailbox(OutlookSandbox(access_token=TOKEN)) as box:
        assert (await box.check_health()).is_ok
    async with open_mailbox(OutlookSandbox(access_token="other")) as box:
        assert not (await box.check_health()).is_ok
    async with open_mailbox(OutlookSandbox(mailbox="other@example.com")) as box:
        assert not (await box.check_health()).is_ok


async def test_missing_mailbox_is_not_found() -> None:
    async with open_mailbox(OutlookSandbox(mailbox="other@example.com")) as box:
        with pytest.raises(NotFound):
            await box.fetch_messages(None)


async def test_rate_limit_reports_when_to_retry() -> None:
    async with open_mailbox(OutlookSandbox(faults=Faults(too_many=1.0, retry_after_s=9))) as box:
        with pytest.raises(ExternalServiceFailed) as failed:
            await box.fetch_messages(None)
        assert failed.value.retry_after_s == 9.0


def test_control_routes_receive_edit_and_remove() -> None:
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


# --- invalid responses --------------------------------------------------------------------------------------

LINK = "@odata.deltaLink"
# Target of a Graph link.
OWN = "{here}/v1.0/users/x/mailFolders/inbox/messages/delta?$deltatoken=1"
GOOD = {
    "id": "m",
    "subject": "s",
    "receivedDateTime": "2026-03-01T10:00:00Z",
    "bodyPreview": "",
    "from": None,
}


async def read_with_response(
    status: int, body: Any, checkpoint: str | None = None, path: str = "/{rest:path}"
) -> Any:
    """Read one page of the mailbox from a service with this response.

    `{here}` in a text is the service's own address.
    """

    async def answer(request: Request) -> Response:
        if isinstance(body, str) or body is None:
            return Response(body or "", status_code=status)
        here = str(request.base_url).rstrip("/")
        content = {
            name: each.replace("{here}", here) if isinstance(each, str) else each
            for name, each in body.items()
        }
        return JSONResponse(content, status_code=status)

    values = {"mailbox": MAILBOX, "base_url": HERE, "access_token": TOKEN}
    transport = httpx2.ASGITransport(app=Starlette(routes=[Route(path, answer)]))
    async with httpx2.AsyncClient(base_url=HERE, transport=transport) as http:
        tokens = GraphTokens(http, OutlookCredentials.model_validate(values), SYSTEM_CLOCK)
        link = None if checkpoint is None else checkpoint.replace("{here}", HERE)
        return await OutlookMailbox(http, MAILBOX, tokens).fetch_messages(link)


INVALID: list[tuple[int, Any, str]] = [
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


@pytest.mark.parametrize(("status", "body", "message"), INVALID)
async def test_invalid_response_fails_with_its_reason(status: int, body: Any, message: str) -> None:
    with pytest.raises(ExternalServiceFailed) as failed:
        await read_with_response(status, body)
    assert message in failed.value.message
    assert not failed.value.may_be_done


async def test_empty_checkpoint_means_no_checkpoint() -> None:
    assert (await read_with_response(200, {"value": [GOOD], LINK: OWN}, "")).is_reset


@pytest.mark.parametrize(
    "change", [{"isRead": True}, {"subject": "s2"}, {"from": None, "bodyPreview": ""}, {}]
)
async def test_ignores_partial_mails(change: dict[str, Any]) -> None:
    """An entry without a received time is a changed mail, not a new one."""
    page = await read_with_response(200, {"value": [{"id": "m", **change}, GOOD], LINK: OWN})
    assert [each.subject for each in page.messages] == ["s"]


@pytest.mark.parametrize(
    "path",
    [
        "/v1.0/me/mailfolders('AQMk=')/messages/delta?$skiptoken=1",
        "/v1.0/users('7d1e')/mailFolders('inbox')/messages/microsoft.graph.delta()?$deltatoken=1",
        "/v1.0/users/7d1e/mailFolders/inbox/messages/delta(changeType='created')?$deltatoken=1",
    ],
)
async def test_follows_links_in_every_form_of_graph(path: str) -> None:
    assert (await read_with_response(200, {"value": [], LINK: "{here}" + path})).checkpoint == HERE + path


@pytest.mark.parametrize(
    "checkpoint", ["https://evil.example/v1.0/x", "not a link", "{here}.evil.example/v1.0/"]
)
async def test_does_not_follow_a_checkpoint_to_another_host(checkpoint: str) -> None:
    with pytest.raises(ExternalServiceFailed, match="the checkpoint does not lead to the messages"):
        await read_with_response(200, {"value": [], LINK: OWN}, checkpoint)


@pytest.mark.parametrize(("status", "code"), [(404, "ErrorItemNotFound"), (400, "BadRequest"), (400, None)])
async def test_other_refusals_cause_no_reset(status: int, code: str | None) -> None:
    """They fail, because only an expired link starts from the beginning."""
    body: Any = "<html>" if code is None else {"error": {"code": code}}
    with pytest.raises(ExternalServiceFailed, match=f"refused the link of the checkpoint with {status}"):
        await read_with_response(status, body, OWN)
