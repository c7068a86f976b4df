"""Tests of the Resend mailer against its sandbox over HTTP: idempotency keys, refusals, lost answers.

The last test uses prepared responses instead of the sandbox.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from agenticpm.domain.tickets import Health, OutgoingMail
from agenticpm.integrations.resend.mailer import KEY_LIFETIME_S, ResendMailer
from holdfast.core.clock import RunClock
from holdfast.core.errors import ExternalServiceFailed, ExternalServiceRefused, HoldfastError
from holdfast.web import serve_in_thread
from holdfast.web.sandbox_faults import Faults
from holdfast_demo.agenticpm.sandbox.resend import ResendSandbox, build_resend_app

KEY = "re_of_the_test"
SENDER = "The agent <agent@example.com>"
MAIL = OutgoingMail(to=("ada@example.com",), subject="Digest", text="All is well.")


@asynccontextmanager
async def open_mailer(
    sandbox: ResendSandbox, *, key: str = KEY, url: str | None = None
) -> AsyncIterator[ResendMailer]:
    """Open a mailer of the sandbox, without a socket or at `url`. `key` is the API key."""
    headers = {"authorization": f"Bearer {key}"} if key else {}
    transport = None if url else httpx2.ASGITransport(build_resend_app(sandbox))
    async with httpx2.AsyncClient(
        transport=transport, base_url=url or "http://127.0.0.1", headers=headers, timeout=1.0
    ) as http:
        yield ResendMailer(http, SENDER)


async def send_failing(
    error: type[HoldfastError],
    sandbox: ResendSandbox,
    mail: OutgoingMail = MAIL,
    *,
    key: str = KEY,
    idempotency: str = "k-1",
) -> Any:
    """Send a mail that fails with this error, and return the error. `idempotency` is the idempotency key."""
    async with open_mailer(sandbox, key=key) as mailer:
        with pytest.raises(error) as raised:
            await mailer.send(mail, idempotency)
        return raised.value


async def test_sends_a_mail_from_the_sender_with_its_key() -> None:
    sandbox = ResendSandbox(api_key=KEY)
    async with open_mailer(sandbox) as mailer:
        outcome = await mailer.send(MAIL, "k-1")
    (entry,) = sandbox.ledger
    assert (entry["key"], entry["to"], entry["body"]["from"]) == ("k-1", ["ada@example.com"], SENDER)
    assert outcome == {"id": entry["id"]}


@pytest.mark.proves("AP-23")
async def test_same_key_twice_sends_one_mail_with_one_id() -> None:
    sandbox = ResendSandbox(api_key=KEY)
    async with open_mailer(sandbox) as mailer:
        outcomes = [await mailer.send(MAIL, "k-1") for _ in range(3)]
    assert len(sandbox.ledger) == 1
    assert outcomes == [outcomes[0]] * 3


async def test_key_expires_after_a_day_and_not_before(tmp_path: Path) -> None:
    clock = RunClock(tmp_path / "clock", start=1_000_000.0)
    sandbox = ResendSandbox(clock=clock)
    async with open_mailer(sandbox) as mailer:
        counted = []
        for wait in (0, KEY_LIFETIME_S - 1, 2):
            clock.advance(wait)
            await mailer.send(MAIL, "k-1")
            counted.append(len(sandbox.ledger))
        assert counted == [1, 1, 2]


async def test_rejects_another_mail_under_the_same_key() -> None:
    sandbox = ResendSandbox(api_key=KEY)
    async with open_mailer(sandbox) as mailer:
        await mailer.send(MAIL, "k-1")
        with pytest.raises(ExternalServiceRefused) as refused:
            await mailer.send(MAIL.model_copy(update={"text": "Another."}), "k-1")
        assert refused.value.code == "invalid_idempotent_request"
    assert len(sandbox.ledger) == 1


async def test_unverified_domain_is_refused_permanently_and_a_bad_key_temporarily() -> None:
    """An operator can fix the API key, so the mail is retried."""
    sandbox = ResendSandbox(api_key=KEY, domain="example.org")
    assert (await send_failing(ExternalServiceRefused, sandbox)).code == "validation_error"
    bad = await send_failing(ExternalServiceFailed, sandbox, key="re_other")
    assert (bad.may_be_done, "credentials" in bad.message) == (False, True)
    missing = await send_failing(ExternalServiceFailed, sandbox, key="")
    assert not missing.may_be_done
    assert sandbox.ledger == []


async def test_rejects_a_mail_to_an_invalid_address() -> None:
    assert (
        await send_failing(
            ExternalServiceRefused, ResendSandbox(), OutgoingMail(to=("nobody",), subject="s", text="t")
        )
    ).code == "422"


@pytest.mark.parametrize("key", ["", "k" * 257, "k\nk", "k\u00e9"])
async def test_rejects_a_key_that_is_invalid_in_a_header_before_any_request(key: str) -> None:
    sandbox = ResendSandbox()
    assert (
        await send_failing(ExternalServiceRefused, sandbox, idempotency=key)
    ).code == "invalid_idempotency_key"
    assert sandbox.ledger == []


async def test_rate_limit_reports_when_to_retry_and_that_nothing_was_sent() -> None:
    sandbox = ResendSandbox(faults=Faults(too_many=1.0, retry_after_s=7))
    error = await send_failing(ExternalServiceFailed, sandbox)
    assert (error.may_be_done, error.retry_after_s, sandbox.ledger) == (False, 7.0, [])


@pytest.mark.parametrize("faults", [Faults(failed_after=1.0), Faults(silent_after=1.0, silence_s=1.5)])
async def test_mail_with_a_lost_answer_may_be_sent_and_its_key_finds_it(faults: Faults) -> None:
    sandbox = ResendSandbox(faults=faults)
    with serve_in_thread(build_resend_app(sandbox)) as url:
        async with open_mailer(sandbox, url=url) as mailer:
            with pytest.raises(ExternalServiceFailed) as lost:
                await mailer.send(MAIL, "k-1")
            sandbox.faults = Faults()
            outcome = await mailer.send(MAIL, "k-1")
    assert lost.value.may_be_done
    assert [entry["id"] for entry in sandbox.ledger] == [outcome["id"]]


async def test_ledger_and_its_keys_survive_a_restart(tmp_path: Path) -> None:
    async with open_mailer(ResendSandbox(folder=tmp_path)) as mailer:
        first = await mailer.send(MAIL, "k-1")
    again = ResendSandbox(folder=tmp_path)
    async with open_mailer(again) as mailer:
        assert await mailer.send(MAIL, "k-1") == first
    assert len(again.ledger) == 1


async def test_truncated_ledger_line_has_no_effect(tmp_path: Path) -> None:
    async with open_mailer(ResendSandbox(folder=tmp_path)) as mailer:
        await mailer.send(MAIL, "k-1")
    with (tmp_path / "resend.jsonl").open("a") as file:
        file.write('{"number": 2, "wha')
    again = ResendSandbox(folder=tmp_path)
    async with open_mailer(again) as mailer:
        await mailer.send(MAIL, "k-2")
    assert [entry["key"] for entry in ResendSandbox(folder=tmp_path).ledger] == ["k-1", "k-2"]


async def check_health(sandbox: ResendSandbox, key: str = KEY) -> Health:
    async with open_mailer(sandbox, key=key) as mailer:
        return await mailer.check_health()


async def test_health_distinguishes_full_send_only_and_invalid_keys() -> None:
    assert (await check_health(ResendSandbox(api_key=KEY))).is_ok
    assert (
        await check_health(ResendSandbox(api_key=KEY, sends_only=True))
    ).detail == "The key is valid and may only send."
    assert not (await check_health(ResendSandbox(api_key=KEY), key="other")).is_ok
    assert not (await check_health(ResendSandbox(api_key=KEY), key="")).is_ok
    assert not (await check_health(ResendSandbox(api_key=KEY, faults=Faults(failed_before=1.0)))).is_ok


INVALID: list[tuple[int, Any, str, bool]] = [
    (200, {}, "id: Field required", True),
    (200, {"id": 7}, "id: ", True),
    (200, {"id": ""}, "id: ", True),
    (200, [], "the response: ", True),
    (200, "<html>", "not JSON", True),
    (200, None, "the response: ", True),
    (409, {"name": "concurrent_idempotent_requests"}, "sending the same mail", True),
    (409, "<html>", "409 (unknown)", True),
    (403, "<html>", "credentials", False),
    (403, {"name": 7}, "name: ", True),
    (302, None, "redirect", True),
    (418, {}, "418", False),
]


@pytest.mark.parametrize(("status", "body", "message", "may_be_done"), INVALID)
async def test_invalid_response_error_says_whether_the_mail_may_have_been_sent(
    status: int, body: Any, message: str, may_be_done: bool
) -> None:
    async def answer(request: Request) -> Response:
        return (
            Response(body or "", status_code=status)
            if body is None or isinstance(body, str)
            else JSONResponse(body, status_code=status)
        )

    transport = httpx2.ASGITransport(app=Starlette(routes=[Route("/emails", answer, methods=["POST"])]))
    async with httpx2.AsyncClient(base_url="http://127.0.0.1", transport=transport) as http:
        with pytest.raises(ExternalServiceFailed) as raised:
            await ResendMailer(http, SENDER).send(MAIL, "k-1")

    error = raised.value
    assert message in error.message
    assert error.may_be_done is may_be_done
