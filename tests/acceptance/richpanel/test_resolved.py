"""Which message a webhook is about, and who wrote it: the help desk says so, whatever the webhook says, and however odd
its answers are."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast.core.errors import ExternalServiceFailed
from holdfast.guarantees import OnceStatus
from holdfast.operations.queues import Redrive
from richpanel.api.explain import explain_routing
from richpanel.demo.sandbox.help_desk import Message
from richpanel.domain.templates import load_templates
from richpanel.integrations.clients import HelpDeskClient, make_client
from richpanel.model.entities import ActionType, events
from richpanel.workers.worker import Worker
from tests.acceptance.richpanel.stage import EMAIL, START, STATUS, Stage, run, staged
from tests.acceptance.richpanel.test_counted import counts_of

MINIMAL = {"ticket_id": "c-1", "ticket_url": "https://desk.example/c-1", "trigger": "customer_message"}
LOG_IN = "I can't log in"
LOGGED_IN = [("assign", "accounts"), ("tag", "mw-routed")]
SECRET_WORD = "swordfish"

Change = Callable[[dict[str, Any]], dict[str, Any]]


class Odd(HelpDeskClient):
    """A help desk whose answers are changed on their way."""

    def __init__(self, stage: Stage, *, ticket: Change = dict, message: Change = dict) -> None:
        super().__init__(stage.desk_http)
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


class Down(HelpDeskClient):
    """A help desk that tells and does not do."""

    async def assign(self, ticket_id: str, team: str, reference: str) -> dict[str, Any]:
        raise ExternalServiceFailed("It is closed.", may_be_done=False)


def with_text(payload: dict[str, Any], text: str, **more: Any) -> dict[str, Any]:
    """The same webhook without the message's id."""
    return {name: value for name, value in payload.items() if name != "message_id"} | {"text": text} | more


async def given_up(stage: Stage, worker: Worker) -> None:
    while (await stage.queue()).waiting.backlog:
        await stage.attempt(worker)
        stage.clock.advance(100)


# --- odd answers --------------------------------------------------------------------------------------------


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
def test_an_odd_answer_of_the_help_desk_stops_no_event_and_no_word_of_it_is_logged(
    ticket: dict[str, Any], answer: dict[str, Any], minimal: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    async def test() -> None:
        async with staged() as stage:
            desk = Odd(stage, ticket=lambda seen: seen | ticket, message=lambda seen: seen | answer)
            payload = stage.write(LOG_IN)
            await stage.deliver(MINIMAL if minimal else payload)
            assert await stage.attempt(stage.worker(desk)) == 1
            assert ("tag", "mw-routed") in stage.effects

    run(test())
    assert caplog.records
    assert not [each for each in caplog.records if SECRET_WORD in logging.Formatter().format(each)]


def test_the_writer_of_a_message_counts_and_not_the_customer_of_its_ticket() -> None:
    async def test() -> None:
        async with staged() as stage:
            await stage.automate("email")
            await stage.says(STATUS)
            desk = Odd(stage, message=lambda seen: seen | {"sender": {"email": "else@mail.example"}})
            await stage.work_off(stage.worker(desk))
            [said] = [value for effect, value in stage.effects if effect == "message"]
            assert "shipped" not in said

    run(test())


# --- who wrote it -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "first",
    [
        MINIMAL | {"trigger": "tag_added:mw-routed"},
        MINIMAL | {"trigger": "The tag mw-routed was added"},
        MINIMAL | {"trigger": "ticket_updated", "sender_type": "agent"},
    ],
)
def test_a_webhook_of_another_change_takes_no_message_away_from_its_own(first: dict[str, Any]) -> None:
    async def test() -> None:
        async with staged() as stage:
            payload = stage.write(LOG_IN)
            await stage.deliver(first)
            await stage.work_off()
            await stage.deliver(payload)
            await stage.work_off()
            assert stage.effects == LOGGED_IN

    run(test())


def test_a_webhook_that_our_own_tag_set_off_and_that_names_no_message_does_nothing() -> None:
    async def test() -> None:
        async with staged() as stage:
            stage.write(LOG_IN)
            await stage.deliver(MINIMAL | {"trigger": "tag_added:mw-routed"})
            await stage.work_off()
            assert stage.effects == []

    run(test())


@pytest.mark.parametrize("trigger", ["tag mw-vip", "bmw-club-form"])
def test_a_customers_message_is_worked_on_whatever_set_its_webhook_off(trigger: str) -> None:
    async def test() -> None:
        async with staged() as stage:
            await stage.deliver(stage.write(LOG_IN) | {"trigger": trigger})
            await stage.work_off()
            assert stage.effects == LOGGED_IN

    run(test())


@pytest.mark.parametrize("name", sorted(load_templates()))
@pytest.mark.parametrize("minimal", [False, True])
def test_what_we_have_said_ourselves_is_never_taken_for_a_customers_words(name: str, minimal: bool) -> None:
    async def test() -> None:
        async with staged() as stage:
            await stage.says(LOG_IN)
            await stage.work_off()
            text = load_templates()[name]
            ticket = stage.sandbox.desk.find_ticket("c-1")
            assert ticket is not None
            said = text.fill(**dict.fromkeys(text.fields, "chargeback"))
            stage.sandbox.desk.apply(ticket, "message", said, "somebody")
            own = ticket.messages[-1]
            before = list(stage.effects)
            named = {"message_id": own.id, "created_at": own.created_at, "author": "customer"}
            await stage.deliver(MINIMAL | ({} if minimal else named))
            await stage.work_off()
            assert stage.effects == before

    run(test())


@pytest.mark.proves("RP-31")
def test_why_nothing_was_done_is_told_too() -> None:
    async def test() -> None:
        async with staged() as stage:
            await stage.automate("email")
            payload = stage.write(LOG_IN)
            await stage.deliver(payload)
            desk = Odd(stage, message=lambda seen: seen | {"author": "agent"})
            await stage.work_off(stage.worker(desk))
            assert stage.effects == []
            [line] = (await explain_routing(stage.stores, "evt:rp:c-1:m-1")).lines
            assert "did nothing, because written by an agent" in line

    run(test())


@pytest.mark.proves("RP-31")
def test_why_tells_of_an_answer_that_was_withdrawn() -> None:
    async def test() -> None:
        async with staged() as stage:
            await stage.automate("email")
            await stage.says(STATUS)
            stage.fail(failed_after=1.0)
            assert await stage.attempt() == 0
            stage.fail()
            await stage.automate("email", safe_mode=True)
            await stage.work_off()
            line = (await explain_routing(stage.stores, "c-1")).lines[-1]
            assert "was to do auto_reply → order_status" in line
            assert "It was not done: withdrawn." in line

    run(test())


# --- copies under other names -------------------------------------------------------------------------------


@pytest.mark.proves("RP-1")
@pytest.mark.proves("RP-11")
@pytest.mark.parametrize("order", [("id", "text", "none"), ("none", "text", "id"), ("text", "none", "id")])
def test_one_message_told_of_by_its_id_by_its_text_and_not_at_all_is_one_event(
    order: tuple[str, ...],
) -> None:
    async def test() -> None:
        async with staged() as stage:
            payload = stage.write(LOG_IN)
            webhooks = {"id": payload, "text": with_text(payload, LOG_IN), "none": MINIMAL}
            for kind in order:
                await stage.deliver(webhooks[kind])
                await stage.work_off()
            assert stage.effects == LOGGED_IN

    run(test())


@pytest.mark.proves("RP-11")
def test_a_message_without_an_id_is_decided_on_its_own_text() -> None:
    async def test() -> None:
        async with staged() as stage:
            other = stage.write("I want to cancel my order please")
            payload = stage.write(LOG_IN)
            # A sender whose stamps are rough: by its time it would be the other.
            await stage.deliver(with_text(payload, LOG_IN, created_at=other["created_at"]))
            await stage.work_off()
            assert stage.effects == LOGGED_IN

    run(test())


@pytest.mark.proves("RP-11")
def test_a_message_without_an_id_is_waited_for_until_the_help_desk_has_it() -> None:
    async def test() -> None:
        async with staged() as stage:
            payload = stage.write(LOG_IN)
            ticket = stage.sandbox.desk.find_ticket("c-1")
            assert ticket is not None
            written = ticket.messages.pop()
            await stage.deliver(with_text(payload, LOG_IN))
            assert await stage.attempt() == 0
            ticket.messages.append(written)
            await stage.work_off()
            assert stage.effects == LOGGED_IN

    run(test())


@pytest.mark.proves("RP-11")
def test_a_text_that_the_help_desk_tells_in_another_form_is_found_as_what_is_new_at_the_last() -> None:
    async def test() -> None:
        async with staged() as stage:
            await stage.deliver(with_text(stage.write(LOG_IN), f"<p>{LOG_IN}</p>"))
            await stage.work_off()
            assert stage.effects == LOGGED_IN
            assert (await stage.queue()).dead == 0

    run(test())


@pytest.mark.proves("RP-X7")
@pytest.mark.parametrize("minutes", [(4, 6), (6, 4)])
def test_copies_in_two_buckets_of_a_message_that_has_no_id_anywhere_are_one_event(
    minutes: tuple[int, int],
) -> None:
    async def test() -> None:
        async with staged() as stage:
            payload = stage.write(LOG_IN)
            worker = stage.worker(Odd(stage, message=lambda seen: seen | {"id": None}))
            for each in minutes:
                stamped = (START + timedelta(minutes=each)).isoformat()
                stage.clock.advance(300)
                await stage.deliver(with_text(payload, LOG_IN, created_at=stamped))
                await stage.work_off(worker)
            assert stage.effects == LOGGED_IN

    run(test())


@pytest.mark.proves("RP-1")
def test_a_message_whose_first_webhook_died_is_done_by_the_next() -> None:
    async def test() -> None:
        async with staged() as stage:
            payload = stage.write(LOG_IN)
            await stage.deliver(MINIMAL)
            await given_up(stage, stage.worker(Down(stage.desk_http)))
            assert (await stage.queue()).dead == 1
            await stage.deliver(payload)
            await stage.work_off()
            assert stage.effects == LOGGED_IN
            record = await stage.record("evt:rp:c-1:m-1")
            assert record is not None and record.status is OnceStatus.PROCESSED

    run(test())


def test_a_message_with_the_id_of_an_e_mail_is_worked_on_and_the_address_in_it_is_not_kept() -> None:
    async def test() -> None:
        async with staged() as stage:
            payload = stage.write(LOG_IN)
            ticket = stage.sandbox.desk.find_ticket("c-1")
            assert ticket is not None
            written = ticket.messages.pop()
            ticket.messages.append(Message(f"<1.{EMAIL}>", written.author, written.text, written.created_at))
            answer = await stage.deliver(payload | {"message_id": f"<1.{EMAIL}>"})
            await stage.deliver(MINIMAL)
            await stage.work_off()
            assert stage.effects == LOGGED_IN
            assert EMAIL not in answer.text
            assert all(EMAIL not in each.reference for each in stage.ledger)

    run(test())


# --- what is no longer there --------------------------------------------------------------------------------


def test_a_message_that_the_help_desk_does_not_have_yet_is_waited_for() -> None:
    async def test() -> None:
        async with staged() as stage:
            payload = stage.write(LOG_IN)
            ticket = stage.sandbox.desk.find_ticket("c-1")
            assert ticket is not None
            written = ticket.messages.pop()
            await stage.deliver(payload)
            assert await stage.attempt() == 0
            ticket.messages.append(written)
            await stage.work_off()
            assert stage.effects == LOGGED_IN

    run(test())


@pytest.mark.proves("RP-31")
def test_a_message_that_stays_away_is_done_with_and_that_is_counted_and_explained() -> None:
    async def test() -> None:
        async with staged() as stage:
            counts = counts_of(stage)
            event_id = await stage.says(LOG_IN)
            ticket = stage.sandbox.desk.find_ticket("c-1")
            assert ticket is not None
            ticket.messages.clear()
            await stage.work_off()
            record = await stage.record(event_id)
            assert record is not None and record.status is OnceStatus.PROCESSED
            assert counts["events_gone",] == 1
            assert (await stage.queue()).dead == 0
            [entry] = await stage.audit()
            assert entry.result is not None and (entry.result.ok, entry.result.reason) == (False, "gone")
            assert "no longer has the message" in (await explain_routing(stage.stores, event_id)).lines[0]

    run(test())


@pytest.mark.parametrize("minimal", [False, True])
def test_while_the_help_desks_address_is_wrong_events_die_and_come_back_when_it_is_right(
    minimal: bool,
) -> None:
    async def test() -> None:
        async with staged() as stage:
            payload = stage.write(LOG_IN)
            await stage.deliver(MINIMAL if minimal else payload)
            async with make_client(f"{stage.desk_http.base_url}/api", "") as wrong:
                await given_up(stage, stage.worker(HelpDeskClient(wrong)))
            assert (await stage.queue()).dead == 1
            names = events.physical_name("", dead_letter=True), events.physical_name("")
            await stage.stores.engines.get("queues").run(Redrive(*names))
            await stage.work_off()
            assert stage.effects == LOGGED_IN

    run(test())


# --- webhooks that name no message --------------------------------------------------------------------------


@pytest.mark.proves("RP-46")
def test_a_message_is_answered_on_the_channel_of_its_ticket_where_the_webhook_names_none() -> None:
    async def test() -> None:
        async with staged() as stage:
            await stage.automate("email")
            stage.write(STATUS)
            await stage.deliver(MINIMAL)
            await stage.work_off()
            assert stage.effects[-1][0] == "message"

    run(test())


@pytest.mark.parametrize("hours", [25, 24 * 20])
def test_what_was_written_long_before_the_first_webhook_is_found(hours: int) -> None:
    async def test() -> None:
        async with staged() as stage:
            stage.write(LOG_IN)
            stage.clock.advance(hours * 3600)
            await stage.deliver(MINIMAL)
            await stage.work_off()
            assert stage.effects == LOGGED_IN

    run(test())


def test_what_was_done_so_long_ago_that_its_record_has_ended_is_not_done_again() -> None:
    async def test() -> None:
        async with staged() as stage:
            await stage.says(LOG_IN)
            await stage.work_off()
            stage.clock.advance(31 * 86400)
            await stage.deliver(MINIMAL)
            await stage.work_off()
            assert stage.effects == LOGGED_IN

    run(test())


@pytest.mark.parametrize("told", ["2026-02-03T10:00:01", "yesterday", None])
def test_a_message_whose_time_has_no_zone_or_cannot_be_read_is_found(told: str | None) -> None:
    async def test() -> None:
        async with staged() as stage:
            stage.write(LOG_IN)
            await stage.deliver(MINIMAL)
            await stage.work_off(stage.worker(Odd(stage, message=lambda seen: seen | {"created_at": told})))
            assert stage.effects == LOGGED_IN

    run(test())


@pytest.mark.proves("RP-42")
def test_what_is_new_is_worked_on_from_the_oldest_on() -> None:
    async def test() -> None:
        async with staged() as stage:
            stage.write(LOG_IN)
            stage.write("where is my order")
            ticket = stage.sandbox.desk.find_ticket("c-1")
            assert ticket is not None
            ticket.messages.reverse()
            await stage.deliver(MINIMAL)
            await stage.work_off()
            assert [value for effect, value in stage.effects if effect == "assign"] == ["accounts", "orders"]

    run(test())


# --- time ---------------------------------------------------------------------------------------------------


@pytest.mark.proves("RP-42")
def test_an_event_is_known_to_be_late_where_its_webhook_tells_no_time() -> None:
    async def test() -> None:
        async with staged() as stage:
            await stage.automate("email")
            older, newer = stage.write(STATUS), stage.write(LOG_IN)
            for payload in (newer, older):
                del payload["created_at"]
                await stage.deliver(payload)
                await stage.work_off()
            assert "message" not in {effect for effect, _ in stage.effects}

    run(test())


@pytest.mark.proves("RP-42")
def test_a_time_that_is_still_to_come_makes_nothing_late() -> None:
    async def test() -> None:
        async with staged() as stage:
            await stage.automate("email")
            await stage.deliver(stage.write(LOG_IN) | {"created_at": "2099-01-01T00:00:00Z"})
            await stage.work_off()
            await stage.says(STATUS)
            await stage.work_off()
            assert stage.effects[-1][0] == "message"
            state = await stage.state()
            assert state is not None and state.last_event_created_at is not None
            assert state.last_event_created_at <= datetime.fromtimestamp(stage.clock.now(), UTC)

    run(test())


# --- plans --------------------------------------------------------------------------------------------------


def test_a_plan_to_do_nothing_is_kept_though_a_later_attempt_would_route() -> None:
    async def test() -> None:
        async with staged() as stage:
            await stage.says(LOG_IN)
            desk = Odd(stage, message=lambda seen: seen | {"author": "agent"})
            worker = stage.worker(desk)

            class Killed(Worker):
                async def _complete(self, *given: Any) -> None:
                    raise ExternalServiceFailed("It was killed.", may_be_done=False)

            assert await stage.attempt(Killed(**vars(worker))) == 0
            await stage.work_off()
            assert stage.effects == []
            assert (await stage.queue()).dead == 0
            assert [each.action_type for each in await stage.audit()] == [ActionType.ignore]

    run(test())


def test_a_fallback_key_counts_once_however_often_its_event_is_tried() -> None:
    async def test() -> None:
        async with staged() as stage:
            counts = counts_of(stage)
            await stage.deliver(with_text(stage.write(LOG_IN), LOG_IN))
            worker = stage.worker(Down(stage.desk_http))
            for _ in range(3):
                assert await stage.attempt(worker) == 0
                stage.clock.advance(100)
            await stage.work_off()
            assert counts["fallback_keys_used", "text"] == 1

    run(test())
