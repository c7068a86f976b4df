"""HTTP clients of the help desk and the shop, against the sandbox over real HTTP."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from holdfast.core.errors import ExternalServiceFailed, ExternalServiceRefused, NotFound, RequestRefused
from holdfast.web import serve_in_thread
from holdfast_demo.richpanel.sandbox import Faults, Sandbox, build_sandbox_app
from richpanel.integrations.clients import HelpDeskClient, ShopClient, make_client

T = TypeVar("T")
KEY = "key-of-the-test"


async def call_sandbox(
    call: Callable[[HelpDeskClient, ShopClient], Awaitable[T]],
    faults: Faults | None = None,
    *,
    key: str = KEY,
) -> tuple[T, Sandbox]:
    """Run `call` against a sandbox with one ticket and one order, and return its result and the sandbox."""
    sandbox = Sandbox(key=KEY, faults=faults or Faults())
    ticket = sandbox.desk.open_ticket("t 1:é", "email", {"email": "ada@example.com"})
    sandbox.desk.add_customer_message(ticket, "Where is my order?", "m 1")

    async def run(url: str) -> T:
        async with make_client(url, key) as http:
            return await call(HelpDeskClient(http), ShopClient(http))

    with serve_in_thread(build_sandbox_app(sandbox)) as url:
        return await run(url), sandbox


async def test_reads_a_message_with_special_characters_in_its_ids() -> None:
    message, _ = await call_sandbox(lambda desk, shop: desk.get_message("t 1:é", "m 1"))
    assert message["text"] == "Where is my order?"


async def test_effect_is_found_by_its_reference() -> None:
    async def ask(desk: HelpDeskClient, shop: ShopClient) -> tuple[Any, Any]:
        await desk.add_tag("t 1:é", "mw-routed", "act:rp_tag:t%201%3A%C3%A9:mw-routed:m%201")
        return await desk.find_activity(
            "t 1:é", "act:rp_tag:t%201%3A%C3%A9:mw-routed:m%201"
        ), await desk.find_activity("t 1:é", "other")

    (found, other), _ = await call_sandbox(ask)
    assert found["value"] == "mw-routed"
    assert other is None


async def test_help_desk_itself_is_not_idempotent() -> None:
    async def ask(desk: HelpDeskClient, shop: ShopClient) -> None:
        await desk.reply("t 1:é", "Hello", "r")
        await desk.reply("t 1:é", "Hello", "r")

    _, sandbox = await call_sandbox(ask)
    assert [entry.reference for entry in sandbox.desk.ledger] == ["r", "r"]


@pytest.mark.proves("RP-40")
async def test_too_many_requests_report_retry_after_and_no_effect() -> None:
    async def ask(desk: HelpDeskClient, shop: ShopClient) -> ExternalServiceFailed:
        with pytest.raises(ExternalServiceFailed) as failed:
            await desk.assign("t 1:é", "risk", "r")
        return failed.value

    failed, sandbox = await call_sandbox(ask, Faults(too_many=1.0, retry_after_s=7))
    assert (failed.may_be_done, failed.retry_after_s, sandbox.desk.ledger) == (False, 7.0, [])


async def test_failure_after_the_effect_says_that_it_may_be_done() -> None:
    async def ask(desk: HelpDeskClient, shop: ShopClient) -> ExternalServiceFailed:
        with pytest.raises(ExternalServiceFailed) as failed:
            await desk.add_note("t 1:é", "Suggested answer", "r")
        return failed.value

    failed, sandbox = await call_sandbox(ask, Faults(failed_after=1.0))
    assert failed.may_be_done
    assert len(sandbox.desk.ledger) == 1


async def test_failed_read_says_that_nothing_was_done() -> None:
    async def ask(desk: HelpDeskClient, shop: ShopClient) -> ExternalServiceFailed:
        with pytest.raises(ExternalServiceFailed) as failed:
            await desk.get_ticket("t 1:é")
        return failed.value

    failed, _ = await call_sandbox(ask, Faults(failed_before=1.0))
    assert not failed.may_be_done


async def test_failed_connection_says_that_nothing_was_done() -> None:
    async with make_client("http://127.0.0.1:9", "") as http:
        with pytest.raises(ExternalServiceFailed) as failed:
            await HelpDeskClient(http).add_tag("t 1:é", "x", "r")

    assert not failed.value.may_be_done


async def test_reading_an_unknown_ticket_or_with_a_wrong_key_is_refused() -> None:
    """Reading raises errors that are not worth a retry."""

    async def ask(desk: HelpDeskClient, shop: ShopClient) -> None:
        with pytest.raises(NotFound):
            await desk.get_ticket("unknown")

    await call_sandbox(ask)

    async def ask_with_wrong_key(desk: HelpDeskClient, shop: ShopClient) -> None:
        with pytest.raises(RequestRefused):
            await desk.get_ticket("t 1:é")

    await call_sandbox(ask_with_wrong_key, key="another")


async def test_change_to_an_unknown_ticket_is_final_but_a_wrong_key_is_retryable() -> None:
    async def ask(desk: HelpDeskClient, shop: ShopClient) -> None:
        with pytest.raises(ExternalServiceRefused) as refused:
            await desk.add_tag("unknown", "mw-routed", "r")
        assert refused.value.code == "404"

    await call_sandbox(ask)

    async def ask_with_wrong_key(desk: HelpDeskClient, shop: ShopClient) -> ExternalServiceFailed:
        with pytest.raises(ExternalServiceFailed) as failed:
            await desk.add_tag("t 1:é", "mw-routed", "r")
        return failed.value

    failed, sandbox = await call_sandbox(ask_with_wrong_key, key="another")
    assert not failed.may_be_done and sandbox.desk.ledger == []


async def test_finds_an_order_by_any_spelling_of_its_number() -> None:
    async def ask(desk: HelpDeskClient, shop: ShopClient) -> tuple[Any, Any]:
        await desk.http.post(
            "/sandbox/orders", json={"number": "#W1001", "email": "ada@example.com", "status": "shipped"}
        )
        return await shop.get_order("w1001"), await shop.get_order("#W9")

    (found, missing), _ = await call_sandbox(ask)
    assert found["status"] == "shipped"
    assert missing is None


def test_same_seed_gives_the_same_faults() -> None:
    def draw(seed: int) -> list[str]:
        faults = Faults(too_many=0.2, failed_before=0.2, failed_after=0.2, silent_after=0.2, seed=seed)
        return [faults.draw(0.0, changes=True) for _ in range(200)]

    assert draw(7) == draw(7)
    assert set(draw(7)) == {"none", "too_many", "failed_before", "failed_after", "silent_after"}
    assert draw(7) != draw(8)


def test_call_budget_is_exhausted_until_the_window_moves() -> None:
    faults = Faults(calls_max=2, window_s=30)
    assert [faults.draw(now, changes=False) for now in (0, 1, 2, 31)] == ["none", "none", "too_many", "none"]


@pytest.mark.parametrize("dots", [".", ".."])
async def test_refuses_dots_as_ticket_or_message_id(dots: str) -> None:
    """Dots would change the path of the URL."""

    async def ask(desk: HelpDeskClient, shop: ShopClient) -> None:
        with pytest.raises(NotFound):
            await desk.get_message(dots, "messages")
        with pytest.raises(NotFound):
            await desk.get_message("t 1:é", dots)

    await call_sandbox(ask)
