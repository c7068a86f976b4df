"""Mail through the worker: quotes, dates, other languages, automatic mail, and replies that prove bad."""

from __future__ import annotations

import pytest

from holdfast.core.errors import InvalidRequest
from richpanel.domain.templates import get_template
from richpanel.workers.reply_quality import list_reply_quality, resume_replies
from tests.systems.richpanel.acceptance.middleware import EMAIL, STATUS, Middleware, run, start_middleware

QUESTION = "What is the status of my order?"
QUOTE = "On Mon, 2 Feb 2026 at 10:15, Shop <help@shop.example> wrote:\n> Is it about order #48213?"
ASK = get_template("ask_order_number").text
REMIND = get_template("ask_order_number_reminder").text
NO_MATCH = get_template("ask_order_number_again").text


def list_replies(middleware: Middleware, conversation: str = "c-1") -> list[str]:
    """Return the texts that the middleware sent in a conversation."""
    return [
        each.value
        for each in middleware.ledger
        if each.effect == "message" and each.ticket_id == conversation
    ]


async def receive(middleware: Middleware, text: str, conversation: str = "c-1", email: str = EMAIL) -> None:
    """Let a customer write, and the worker process it."""
    await middleware.send(text, conversation, email=email)
    await middleware.drain_queue()


def test_a_date_is_never_answered_as_a_wrong_order_number() -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            await middleware.enable_automation("email")
            await receive(middleware, QUESTION)
            await receive(middleware, "Where is it? I ordered on 3 November 2026")
            assert list_replies(middleware) == [ASK, REMIND]

    run(test())


def test_a_number_in_a_quote_does_not_count_and_a_person_is_reached() -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            await middleware.enable_automation("email")
            await receive(middleware, QUESTION)
            await receive(middleware, f"I want to speak to a person\n\n{QUOTE}")
            assert list_replies(middleware) == [ASK]
            assert ("assign", "care") in middleware.effects

    run(test())


def test_only_a_number_that_the_shop_confirms_for_the_customer_counts() -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            await middleware.enable_automation("email")
            await receive(middleware, "Where is my order? It is W2378156, or was it 5551234?")
            await receive(middleware, STATUS, "c-2", email="eve@mail.example")
            [own] = list_replies(middleware)
            assert own.startswith("Hello, your order ending in 8156 is now: shipped.")
            assert list_replies(middleware, "c-2") == [NO_MATCH]

    run(test())


def test_another_language_is_tagged_and_not_answered() -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            await middleware.enable_automation("email")
            await receive(middleware, "Wo ist meine Bestellung W2378156?")
            assert middleware.effects == [
                ("assign", "triage"),
                ("tag", "mw-routed"),
                ("tag", "mw-language-de"),
            ]

    run(test())


def test_an_automatic_reply_is_not_answered_and_moves_nothing() -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            await middleware.enable_automation("email")
            await receive(middleware, QUESTION)
            before = list(middleware.effects)
            await receive(middleware, "I am out of the office until Monday. In urgent cases call Joan.")
            assert middleware.effects[len(before) :] == [("tag", "mw-automatic")]
            state = await middleware.get_state()
            assert state is not None and state.pending_flow is not None and state.last_routed_team == "orders"

    run(test())


def test_replies_stop_by_themselves_and_an_operator_resumes_them() -> None:
    async def test() -> None:
        async with start_middleware(judged_replies_min=5) as middleware:
            await middleware.enable_automation("email")
            for number in range(5):
                await receive(middleware, STATUS, f"bad-{number}")
                await receive(middleware, "That is wrong, it never arrived!", f"bad-{number}")
            middleware.clock.advance(31)
            await receive(middleware, STATUS, "stopped")
            assert list_replies(middleware, "stopped") == []
            assert "wrote again 5 times" in (await middleware.list_audit("stopped"))[0].payload

            [row] = await list_reply_quality(middleware.stores)
            assert (row.replies, row.written_again, row.corrected) == (5, 5, 0)
            await resume_replies(middleware.stores, "order_status", by="operator")
            middleware.clock.advance(31)
            await receive(middleware, STATUS, "resumed")
            assert len(list_replies(middleware, "resumed")) == 1

    run(test())


def test_a_reply_and_its_judgement_count_once_whatever_fails() -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            await middleware.enable_automation("email")
            await middleware.send(STATUS)
            middleware.set_faults(failed_after=0.5)
            await middleware.drain_queue()
            await middleware.send("That is wrong, it never arrived!")
            await middleware.drain_queue()
            [row] = await list_reply_quality(middleware.stores)
            assert (row.replies, row.written_again) == (1, 1)

    run(test())


def test_unknown_intents_cannot_be_resumed() -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            with pytest.raises(InvalidRequest, match="expected one of"):
                await resume_replies(middleware.stores, "nothing", by="operator")

    run(test())
