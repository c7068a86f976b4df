"""Message resolution: a webhook's message and author, as the sandbox help desk's responses say."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast.core.errors import ExternalServiceFailed
from holdfast.guarantees import OnceStatus
from holdfast.operations.queues import Redrive
from holdfast_demo.richpanel.sandbox.help_desk import Message
from richpanel.api.explain import explain_routing
from richpanel.domain.templates import load_templates
from richpanel.integrations.clients import HelpDeskClient, make_client
from richpanel.model.entities import ActionType, events
from richpanel.workers.worker import Worker
from tests.systems.richpanel.acceptance.middleware import (
    EMAIL,
    START,
    STATUS,
    Middleware,
    run,
    start_middleware,
)
from tests.systems.richpanel.acceptance.test_metrics import count_measurements

MINIMAL = {"ticket_id": "c-1", "ticket_url": "https://desk.example/c-1", "trigger": "customer_message"}
LOG_IN = "I can't log in"
LOG_IN_EFFECTS = [("assign", "accounts"), ("tag", "mw-routed")]
SECRET_WORD = "swordfish"

Change = Callable[[dict[str, Any]], dict[str, Any]]


class ChangingHelpDesk(HelpDeskClient):
    """Help desk client that changes each ticket and message it reads, by the given functions."""

    def __init__(self, middleware: Middleware, *, ticket: Change = dict, message: Change = dict) -> None:
        super().__init__(middleware.desk_http)
        object.__setattr__(self, "changes", (ticket, message))

    async def get_ticket(self, ticket_id: str) -> dict[str, Any]:
        return self._changes[0](await super().get_ticket(ticket_id))

    async def get_message(self, ticket_id: str, message_id: str) -> dict[str, Any]:
        return self._changes[1](await super().get_message(ticket_id, message_id))

    async def list_messages(self, ticket_id: str) -> list[dict[str, Any]]:
        return [self._changes[1](each) for each in await super().list_messages(ticket_id)]

    @property
    def _changes(self) -> tuple[Change, Change]:
        found: tuple[Change, Change] = self.__dict__["changes"]
        return found


class FailingHelpDesk(HelpDeskClient):
    """Help desk client whose reads work and whose assignments fail."""

    async def assign(self, ticket_id: str, team: str, reference: str) -> dict[str, Any]:
        raise ExternalServiceFailed("It is closed.", may_be_done=False)


def replace_id_with_text(payload: dict[str, Any], text: str, **more: Any) -> dict[str, Any]:
    """Return the same webhook with the text instead of the message's id."""
    return {name: value for name, value in payload.items() if name != "message_id"} | {"text": text} | more


async def exhaust_retries(middleware: Middleware, worker: Worker) -> None:
    """Let the worker attempt the queue's messages until none is left."""
    while (await middleware.get_queue_report()).waiting.backlog:
        await middleware.attempt(worker)
        middleware.clock.advance(100)


# --- invalid responses --------------------------------------------------------------------------------------


@pytest.mark.proves("RP-2")
@pytest.mark.proves("RP-3")
@pytest.mark.parametrize(
    ("ticket", "answer"),
    [
        ({}, {"text": f"I can't log in, {SECRET_WORD} \ud83d"}),
        ({}, {"text": f"I can't log in, {SECRET_WORD}" + "x" * 30_000}),
        ({}, {"text": None}),
        ({}, {"text": [SECRET_WORD]}),
        ({}, {"author": {"name": SECRET_WORD}}),
        ({}, {"created_at": SECRET_WORD}),
        ({}, {"created_at": "0001-01-01T00:00:00+14:00"}),
        ({}, {"email": SECRET_WORD * 50, "created_at": 5}),
        ({"tags": None}, {}),
        ({"tags": 5}, {}),
        ({"tags": [SECRET_WORD * 20, "\ud83d", 5]}, {}),
        ({"customer": [SECRET_WORD], "channel": SECRET_WORD * 9}, {}),
    ],
)
@pytest.mark.parametrize("minimal", [False, True])
def test_invalid_help_desk_response_stops_no_event_and_is_not_logged(
    ticket: dict[str, Any], answer: dict[str, Any], minimal: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    async def test() -> None:
        async with start_middleware() as middleware:
            desk = ChangingHelpDesk(
                middleware, ticket=lambda seen: seen | ticket, message=lambda seen: seen | answer
            )
            payload = middleware.write(LOG_IN)
            await middleware.deliver(MINIMAL if minimal else payload)
            assert await middleware.attempt(middleware.build_worker(desk)) == 1
            assert ("tag", "mw-routed") in middleware.effects

    run(test())
    assert caplog.records
    assert not [each for each in caplog.records if SECRET_WORD in logging.Formatter().format(each)]


def test_order_is_not_revealed_if_another_address_wrote_the_message() -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            await middleware.enable_automation("email")
            await middleware.send(STATUS)
            desk = ChangingHelpDesk(
                middleware, message=lambda seen: seen | {"sender": {"email": "else@mail.example"}}
            )
            await middleware.drain_queue(middleware.build_worker(desk))
            [said] = [value for effect, value in middleware.effects if effect == "message"]
            assert "shipped" not in said

    run(test())


# --- authors ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "first",
    [
        MINIMAL | {"trigger": "tag_added:mw-routed"},
        MINIMAL | {"trigger": "The tag mw-routed was added"},
        MINIMAL | {"trigger": "ticket_updated", "sender_type": "agent"},
    ],
)
def test_message_is_processed_once_after_a_webhook_about_another_change(first: dict[str, Any]) -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            payload = middleware.write(LOG_IN)
            await middleware.deliver(first)
            await middleware.drain_queue()
            await middleware.deliver(payload)
            await middleware.drain_queue()
            assert middleware.effects == LOG_IN_EFFECTS

    run(test())


def test_our_own_tags_webhook_without_a_message_does_nothing() -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            middleware.write(LOG_IN)
            await middleware.deliver(MINIMAL | {"trigger": "tag_added:mw-routed"})
            await middleware.drain_queue()
            assert middleware.effects == []

    run(test())


@pytest.mark.parametrize("trigger", ["tag mw-vip", "bmw-club-form"])
def test_customer_message_is_processed_whatever_triggered_the_webhook(trigger: str) -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            await middleware.deliver(middleware.write(LOG_IN) | {"trigger": trigger})
            await middleware.drain_queue()
            assert middleware.effects == LOG_IN_EFFECTS

    run(test())


@pytest.mark.parametrize("name", sorted(load_templates()))
@pytest.mark.parametrize("minimal", [False, True])
def test_our_own_messages_are_never_taken_for_the_customers(name: str, minimal: bool) -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            await middleware.send(LOG_IN)
            await middleware.drain_queue()
            text = load_templates()[name]
            ticket = middleware.sandbox.desk.find_ticket("c-1")
            assert ticket is not None
            said = text.fill(**dict.fromkeys(text.fields, "chargeback"))
            middleware.sandbox.desk.apply(ticket, "message", said, "somebody")
            own = ticket.messages[-1]
            before = list(middleware.effects)
            named = {"message_id": own.id, "created_at": own.created_at, "author": "customer"}
            await middleware.deliver(MINIMAL | ({} if minimal else named))
            await middleware.drain_queue()
            assert middleware.effects == before

    run(test())


@pytest.mark.proves("RP-31")
def test_why_explains_an_ignored_event() -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            await middleware.enable_automation("email")
            payload = middleware.write(LOG_IN)
            await middleware.deliver(payload)
            desk = ChangingHelpDesk(middleware, message=lambda seen: seen | {"author": "agent"})
            await middleware.drain_queue(middleware.build_worker(desk))
            assert middleware.effects == []
            [line] = (await explain_routing(middleware.stores, "evt:rp:c-1:m-1")).lines
            assert "did nothing, because written by an agent" in line

    run(test())


@pytest.mark.proves("RP-31")
def test_why_explains_a_withdrawn_reply() -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            await middleware.enable_automation("email")
            await middleware.send(STATUS)
            middleware.set_faults(failed_after=1.0)
            assert await middleware.attempt() == 0
            middleware.set_faults()
            await middleware.enable_automation("email", safe_mode=True)
            await middleware.drain_queue()
            line = (await explain_routing(middleware.stores, "c-1")).lines[-1]
            assert "was to do auto_reply → order_status" in line
            assert "It was not done: withdrawn." in line

    run(test())


# --- copies under other names -------------------------------------------------------------------------------


@pytest.mark.proves("RP-1")
@pytest.mark.proves("RP-11")
@pytest.mark.parametrize("order", [("id", "text", "none"), ("none", "text", "id"), ("text", "none", "id")])
def test_webhooks_with_id_text_or_neither_of_one_message_are_one_event(
    order: tuple[str, ...],
) -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            payload = middleware.write(LOG_IN)
            webhooks = {"id": payload, "text": replace_id_with_text(payload, LOG_IN), "none": MINIMAL}
            for kind in order:
                await middleware.deliver(webhooks[kind])
                await middleware.drain_queue()
            assert middleware.effects == LOG_IN_EFFECTS

    run(test())


@pytest.mark.proves("RP-11")
def test_webhook_without_an_id_is_matched_by_text_rather_than_time() -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            other = middleware.write("I want to cancel my order please")
            payload = middleware.write(LOG_IN)
            # The sender's timestamps are imprecise: by time it would be the other message.
            await middleware.deliver(replace_id_with_text(payload, LOG_IN, created_at=other["created_at"]))
            await middleware.drain_queue()
            assert middleware.effects == LOG_IN_EFFECTS

    run(test())


@pytest.mark.proves("RP-11")
def test_waits_until_the_help_desk_has_the_text_of_a_webhook_without_id() -> None:
    """A webhook with a text and no id is retried while no message at the help desk has the text."""

    async def test() -> None:
        async with start_middleware() as middleware:
            payload = middleware.write(LOG_IN)
            ticket = middleware.sandbox.desk.find_ticket("c-1")
            assert ticket is not None
            written = ticket.messages.pop()
            await middleware.deliver(replace_id_with_text(payload, LOG_IN))
            assert await middleware.attempt() == 0
            ticket.messages.append(written)
            await middleware.drain_queue()
            assert middleware.effects == LOG_IN_EFFECTS

    run(test())


@pytest.mark.proves("RP-11")
def test_message_whose_text_never_matches_is_routed_at_the_last_attempt() -> None:
    """The webhook's text differs from the help desk's, so the last attempt processes all recent messages."""

    async def test() -> None:
        async with start_middleware() as middleware:
            await middleware.deliver(replace_id_with_text(middleware.write(LOG_IN), f"<p>{LOG_IN}</p>"))
            await middleware.drain_queue()
            assert middleware.effects == LOG_IN_EFFECTS
            assert (await middleware.get_queue_report()).dead == 0

    run(test())


@pytest.mark.proves("RP-X7")
@pytest.mark.parametrize("minutes", [(4, 6), (6, 4)])
def test_copies_in_two_buckets_without_any_id_are_one_event(
    minutes: tuple[int, int],
) -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            payload = middleware.write(LOG_IN)
            worker = middleware.build_worker(
                ChangingHelpDesk(middleware, message=lambda seen: seen | {"id": None})
            )
            for each in minutes:
                stamped = (START + timedelta(minutes=each)).isoformat()
                middleware.clock.advance(300)
                await middleware.deliver(replace_id_with_text(payload, LOG_IN, created_at=stamped))
                await middleware.drain_queue(worker)
            assert middleware.effects == LOG_IN_EFFECTS

    run(test())


@pytest.mark.proves("RP-1")
def test_next_webhook_completes_a_message_whose_first_became_a_dead_letter() -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            payload = middleware.write(LOG_IN)
            await middleware.deliver(MINIMAL)
            await exhaust_retries(middleware, middleware.build_worker(FailingHelpDesk(middleware.desk_http)))
            assert (await middleware.get_queue_report()).dead == 1
            await middleware.deliver(payload)
            await middleware.drain_queue()
            assert middleware.effects == LOG_IN_EFFECTS
            record = await middleware.get_record("evt:rp:c-1:m-1")
            assert record is not None and record.status is OnceStatus.PROCESSED

    run(test())


def test_email_message_id_is_processed_and_not_stored() -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            payload = middleware.write(LOG_IN)
            ticket = middleware.sandbox.desk.find_ticket("c-1")
            assert ticket is not None
            written = ticket.messages.pop()
            ticket.messages.append(Message(f"<1.{EMAIL}>", written.author, written.text, written.created_at))
            answer = await middleware.deliver(payload | {"message_id": f"<1.{EMAIL}>"})
            await middleware.deliver(MINIMAL)
            await middleware.drain_queue()
            assert middleware.effects == LOG_IN_EFFECTS
            assert EMAIL not in answer.text
            assert all(EMAIL not in each.reference for each in middleware.ledger)

    run(test())


# --- missing messages ---------------------------------------------------------------------------------------


def test_waits_for_a_message_the_help_desk_does_not_have_yet() -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            payload = middleware.write(LOG_IN)
            ticket = middleware.sandbox.desk.find_ticket("c-1")
            assert ticket is not None
            written = ticket.messages.pop()
            await middleware.deliver(payload)
            assert await middleware.attempt() == 0
            ticket.messages.append(written)
            await middleware.drain_queue()
            assert middleware.effects == LOG_IN_EFFECTS

    run(test())


@pytest.mark.proves("RP-31")
def test_missing_message_is_given_up_counted_and_explained() -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            counts = count_measurements(middleware)
            event_id = await middleware.send(LOG_IN)
            ticket = middleware.sandbox.desk.find_ticket("c-1")
            assert ticket is not None
            ticket.messages.clear()
            await middleware.drain_queue()
            record = await middleware.get_record(event_id)
            assert record is not None and record.status is OnceStatus.PROCESSED
            assert counts["events_gone",] == 1
            assert (await middleware.get_queue_report()).dead == 0
            [entry] = await middleware.list_audit()
            assert entry.result is not None and (entry.result.ok, entry.result.reason) == (False, "gone")
            assert (
                "no longer has the message" in (await explain_routing(middleware.stores, event_id)).lines[0]
            )

    run(test())


@pytest.mark.parametrize("minimal", [False, True])
def test_redriven_event_is_processed_after_a_wrong_help_desk_address(
    minimal: bool,
) -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            payload = middleware.write(LOG_IN)
            await middleware.deliver(MINIMAL if minimal else payload)
            async with make_client(f"{middleware.desk_http.base_url}/api", "") as wrong:
                await exhaust_retries(middleware, middleware.build_worker(HelpDeskClient(wrong)))
            assert (await middleware.get_queue_report()).dead == 1
            names = events.physical_name("", dead_letter=True), events.physical_name("")
            await middleware.stores.engines.get("queues").run(Redrive(*names))
            await middleware.drain_queue()
            assert middleware.effects == LOG_IN_EFFECTS

    run(test())


# --- webhooks without a message -----------------------------------------------------------------------------


@pytest.mark.proves("RP-46")
def test_replies_on_the_tickets_channel_if_the_webhook_names_none() -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            await middleware.enable_automation("email")
            middleware.write(STATUS)
            await middleware.deliver(MINIMAL)
            await middleware.drain_queue()
            assert middleware.effects[-1][0] == "message"

    run(test())


@pytest.mark.parametrize("hours", [25, 24 * 20])
def test_finds_a_message_written_long_before_the_first_webhook(hours: int) -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            middleware.write(LOG_IN)
            middleware.clock.advance(hours * 3600)
            await middleware.deliver(MINIMAL)
            await middleware.drain_queue()
            assert middleware.effects == LOG_IN_EFFECTS

    run(test())


def test_old_message_with_an_expired_record_is_not_repeated() -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            await middleware.send(LOG_IN)
            await middleware.drain_queue()
            middleware.clock.advance(31 * 86400)
            await middleware.deliver(MINIMAL)
            await middleware.drain_queue()
            assert middleware.effects == LOG_IN_EFFECTS

    run(test())


@pytest.mark.parametrize("time", ["2026-02-03T10:00:01", "yesterday", None])
def test_finds_a_message_with_an_unreadable_time(time: str | None) -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            middleware.write(LOG_IN)
            await middleware.deliver(MINIMAL)
            await middleware.drain_queue(
                middleware.build_worker(
                    ChangingHelpDesk(middleware, message=lambda seen: seen | {"created_at": time})
                )
            )
            assert middleware.effects == LOG_IN_EFFECTS

    run(test())


@pytest.mark.proves("RP-42")
def test_new_messages_are_processed_oldest_first() -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            middleware.write(LOG_IN)
            middleware.write("where is my order")
            ticket = middleware.sandbox.desk.find_ticket("c-1")
            assert ticket is not None
            ticket.messages.reverse()
            await middleware.deliver(MINIMAL)
            await middleware.drain_queue()
            assert [value for effect, value in middleware.effects if effect == "assign"] == [
                "accounts",
                "orders",
            ]

    run(test())


# --- time ---------------------------------------------------------------------------------------------------


@pytest.mark.proves("RP-42")
def test_late_event_gets_no_reply_even_if_its_webhook_has_no_time() -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            await middleware.enable_automation("email")
            older, newer = middleware.write(STATUS), middleware.write(LOG_IN)
            for payload in (newer, older):
                del payload["created_at"]
                await middleware.deliver(payload)
                await middleware.drain_queue()
            assert "message" not in {effect for effect, _ in middleware.effects}

    run(test())


@pytest.mark.proves("RP-42")
def test_message_time_in_the_future_does_not_make_later_events_late() -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            await middleware.enable_automation("email")
            await middleware.deliver(middleware.write(LOG_IN) | {"created_at": "2099-01-01T00:00:00Z"})
            await middleware.drain_queue()
            await middleware.send(STATUS)
            await middleware.drain_queue()
            assert middleware.effects[-1][0] == "message"
            state = await middleware.get_state()
            assert state is not None and state.last_event_created_at is not None
            assert state.last_event_created_at <= datetime.fromtimestamp(middleware.clock.now(), UTC)

    run(test())


# --- plans --------------------------------------------------------------------------------------------------


def test_plan_to_do_nothing_survives_a_retry() -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            await middleware.send(LOG_IN)
            desk = ChangingHelpDesk(middleware, message=lambda seen: seen | {"author": "agent"})
            worker = middleware.build_worker(desk)

            class KilledWorker(Worker):
                async def _complete(self, *given: Any) -> None:
                    raise ExternalServiceFailed("It was killed.", may_be_done=False)

            assert await middleware.attempt(KilledWorker(**vars(worker))) == 0
            await middleware.drain_queue()
            assert middleware.effects == []
            assert (await middleware.get_queue_report()).dead == 0
            assert [each.action_type for each in await middleware.list_audit()] == [ActionType.ignore]

    run(test())


def test_fallback_key_is_counted_once_per_event() -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            counts = count_measurements(middleware)
            await middleware.deliver(replace_id_with_text(middleware.write(LOG_IN), LOG_IN))
            worker = middleware.build_worker(FailingHelpDesk(middleware.desk_http))
            for _ in range(3):
                assert await middleware.attempt(worker) == 0
                middleware.clock.advance(100)
            await middleware.drain_queue()
            assert counts["fallback_keys_used", "text"] == 1

    run(test())
