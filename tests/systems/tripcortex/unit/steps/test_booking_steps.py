"""One booking through all of the document's steps: the stored item and the audit entries after each."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from holdfast import Stores
from tests.systems.tripcortex.unit.steps.booking_bench import (
    EARLY,
    EMPLOYEE,
    HOME,
    POLICY_FILE,
    SENTENCE,
    Bench,
    open_bench,
)
from tripcortex.integrations.portal.circuit import BREAKER, PORTAL_CIRCUIT
from tripcortex.model import notices
from tripcortex.model.entities import AuditEvent, Booking, BookingStatus, CircuitState
from tripcortex.policies.embedding import LOCAL
from tripcortex.workers.flow import BOOKING_FLOW

S = BookingStatus
E = AuditEvent


@pytest.mark.proves(
    "TC-2",
    "TC-63",
    "TC-89",
    "TC-90",
    "TC-91",
    "TC-92",
    "TC-93",
    "TC-94",
    "TC-95",
    "TC-96",
    "TC-98",
    "TC-78",
    "TC-X8",
    "TC-X21",
)
async def test_each_step_writes_and_audits_what_the_document_says(trip: Bench) -> None:
    seen = await trip.ask(EARLY)
    stored = await trip.get_item(seen)
    assert (stored["employeeId"], stored["bookingId"]) == (EMPLOYEE, seen.booking_id)
    assert (stored["status"], stored["userRequest"]) == ("initiated", EARLY)
    assert stored["executionArn"] == f"holdfast:flow:booking:{seen.booking_id}"
    assert stored["createdAt"] == stored["updatedAt"] == "2026-03-10T14:30:00Z"
    assert await trip.trail(seen) == ()
    place = await trip.marker()
    assert place is not None and place.booking_id == seen.booking_id

    booking = await check_step(trip, seen, "EmbedAndRetrieve", E.policy_retrieval, S.searching)
    _check_retrieval(booking, (await trip.trail(seen))[0].model_dump())
    assert booking.booking_plan is None

    booking = await check_step(trip, booking, "ReasonAndPlan", E.reasoning, S.searching)
    entry = (await trip.trail(seen))[1]
    assert booking.booking_plan is not None
    assert booking.booking_plan.parameters.model_dump(mode="json") == {
        "origin": "BOS",
        "destination": "ORD",
        "departure_date": "2026-04-14",
        "return_date": "2026-04-16",
        "cabin_class": "economy",
    }
    assert entry.output["bookingPlan"]["parameters"]["destination"] == "ORD"
    assert (entry.model_id, entry.thinking_budget) == (
        "sentences",
        trip.dependencies.planner.thinking_budget,
    )

    booking = await check_step(trip, booking, "ValidatePlan", E.plan_validation, S.searching)
    assert booking.booking_plan is not None
    assert booking.booking_plan.policy_constraints.max_budget_usd == Decimal(900)
    assert booking.booking_plan.policy_constraints.preferred_vendors == ["UA", "DL"]
    assert (await trip.trail(seen))[2].output["ok"] is True

    booking = await check_step(trip, booking, "ExecuteSearch", E.flight_search, S.options_presented)
    circuit = await trip.circuit()
    assert (circuit.state, circuit.failure_count) == (CircuitState.closed, 0)
    assert (
        await trip.stores.run(BREAKER.pattern_set.state(PORTAL_CIRCUIT)) is None
    )  # a success writes nothing
    assert [each.option_id for each in booking.flight_options] == ["1", "2", "3"]
    audited = (await trip.trail(seen))[3].output["options"]
    assert [each["option"] for each in audited] == ["1", "2", "3"]

    # The wait: the queue is empty, the item has a hash of the token, the employee has a message.
    assert await trip.step() == 0
    assert booking.flow_due == get_time(trip) + timedelta(minutes=30)
    token = BOOKING_FLOW.make_token(booking)
    assert booking.flow_token is not None and token not in str(await trip.get_item(booking))
    [options] = await trip.list_messages()
    assert (options.kind, options.booking_id) == ("options", booking.booking_id)
    assert [each["option_id"] for each in options.body["options"]] == ["1", "2", "3"]
    assert await list_notices(trip.stores) == [(EMPLOYEE, options.message_id)]

    trip.clock.move(1)
    await trip.choose(booking, "2", token)
    booking = await trip.booking(booking)
    assert (booking.status, booking.flow_token) == (S.user_selected, None)
    assert booking.selected_option == booking.flight_options[1]
    await check_audit(trip, booking, "Choice", E.user_selection)

    # `booking` is written before the portal is asked to buy.
    booking = await check_step(trip, booking, "BeginBooking", E.flight_search, S.booking)
    assert trip.sandbox.ledger == [] and booking.confirmation_number is None

    booking = await check_step(trip, booking, "CompleteBooking", E.booking_completion, S.confirmed)
    [bought] = trip.sandbox.ledger
    assert bought["reference"] == booking.booking_id
    assert booking.confirmation_number == f"UA-{bought['order']['pnr']}"
    assert (await trip.trail(seen))[-1].output["confirmation"] == booking.confirmation_number
    kinds = [(each.kind, each.body.get("confirmationNumber")) for each in await trip.list_messages()]
    assert kinds == [("options", None), ("confirmation", booking.confirmation_number)]
    assert await trip.marker() is None and await BOOKING_FLOW.list_executions(trip.stores) == []

    trail = await trip.trail(seen)
    assert len(trail) == 7
    assert [each.audit_id for each in trail] == sorted(each.audit_id for each in trail)
    assert {each.employee_id for each in trail} == {EMPLOYEE}
    assert {*E} - {each.event for each in trail} == {E.error}


def get_time(trip: Bench) -> datetime:
    return datetime.fromtimestamp(trip.clock.now(), UTC)


async def check_step(
    trip: Bench, before: Booking, step: str, event: AuditEvent, status: BookingStatus
) -> Booking:
    """Handle one message a second later; check status, time, version and one new audit entry."""
    entries = len(await trip.trail(before))
    trip.clock.move(1)
    assert await trip.step() == 1
    booking = await trip.booking(before)
    assert booking.status is status
    assert booking.updated_at == get_time(trip) > before.updated_at
    assert booking.version == before.version + 1
    assert len(await trip.trail(booking)) == entries + 1
    await check_audit(trip, booking, step, event, is_timed=True)
    return booking


async def check_audit(
    trip: Bench, booking: Booking, step: str, event: AuditEvent, *, is_timed: bool = False
) -> None:
    """Check the last audit entry: step, event, time, expiry, and a duration if `is_timed`."""
    entry = (await trip.trail(booking))[-1]
    assert (entry.step, entry.event, entry.timestamp) == (step, event, get_time(trip))
    assert entry.expires_at == entry.timestamp.replace(year=2028)
    assert is_timed == (entry.latency_ms is not None)
    assert entry.error_code is None


def _check_retrieval(booking: Booking, entry: dict[str, object]) -> None:
    """Check inputs and outputs of the retrieval's audit entry against the booking's passages."""
    given, gave = entry["input"], entry["output"]
    assert isinstance(given, dict) and isinstance(gave, dict)
    assert given == {"user_request": EARLY, "query_embedding_dim": 1024}
    assert {"chunks_retrieved", "max_similarity", "confidence"} < gave.keys()
    assert gave["chunks_retrieved"] == len(booking.passages) == 4
    assert gave["confidence"] == booking.policy_confidence == "high"
    assert float(gave["max_similarity"]) == max(each.similarity or 0 for each in booking.passages)
    assert {(each.file_name, each.source_page) for each in booking.passages} == {
        (POLICY_FILE, page) for page in (2, 3, 4, 5)
    }
    assert entry["model_id"] == LOCAL


async def list_notices(stores: Stores) -> list[tuple[str, str]]:
    """Relay, receive and delete the notices; return employee and message id of each.

    They hold no content of the messages.
    """
    sender = stores.for_component("sender")
    await notices.NOTICES.send_unsent(sender)
    received = await sender.run(notices.notices.consumer.receive(10, 0.0))
    await sender.run(notices.notices.consumer.delete(*received))
    assert all(each.message.model_dump().keys() == {"employee_id", "message_id"} for each in received)
    return [(each.message.employee_id, each.message.message_id) for each in received]


@pytest.mark.proves("TC-X23", "TC-64")
async def test_next_tuesday_on_a_tuesday_is_a_week_later(trip: Bench) -> None:
    """The stored plan has the document's shape and the policy's constraints."""
    booking = await trip.request_options(SENTENCE)
    stored = await trip.get_item(booking)
    plan = stored["bookingPlan"]
    assert isinstance(plan, dict)
    assert plan["parameters"] == {
        "origin": "BOS",
        "destination": "ORD",
        "departure_date": "2026-03-17",
        "return_date": "2026-03-19",
        "cabin_class": "economy",
    }
    assert plan["intent"] == "flight_booking" and 0 <= Decimal(str(plan["confidence"])) <= 1
    constraints = plan["policy_constraints"]
    assert isinstance(constraints, dict)
    assert constraints["max_budget_usd"] == 900
    assert constraints["preferred_vendors"] == ["UA", "DL"]


@pytest.mark.proves("TC-65", "TC-X20")
@pytest.mark.parametrize(("most", "shown"), [(None, 3), ("1", 1), ("5", 5)])
async def test_number_of_options_is_configurable_and_the_item_is_small(most: str | None, shown: int) -> None:
    async with open_bench(variables={} if most is None else {"TRIPCORTEX_OPTIONS_MAX": most}) as trip:
        booking = await trip.request_options()
        assert len(booking.flight_options) == shown
        assert len(str(await trip.get_item(booking))) < 100_000


@pytest.mark.proves("TC-59")
async def test_stores_flight_times_in_local_time(trip: Bench) -> None:
    booking = await trip.request_options()
    for option in booking.flight_options:
        first, last = option.outbound[0], option.outbound[-1]
        # Boston is four hours behind UTC on that day, Chicago five.
        assert first.departs_at.utcoffset() == timedelta(hours=-4)
        assert last.arrives_at.utcoffset() == timedelta(hours=-5)
        assert first.departs_at.date().isoformat() == "2026-04-14"


@pytest.mark.proves("TC-90")
async def test_citations_match_the_audited_similarities(trip: Bench) -> None:
    booking = await trip.request_options()
    audited = {
        each["id"]: float(each["similarity"]) for each in (await trip.trail(booking))[0].output["chunks"]
    }
    found = {each.chunk_id: float(each.similarity or 0) for each in booking.passages}
    assert found and audited == found


async def test_plan_and_options_cite_the_words_of_the_confirmed_rules(trip: Bench) -> None:
    booking = await trip.request_options()
    assert booking.booking_plan is not None
    cited = {each.source_page: each.quote for each in booking.booking_plan.citations}
    assert cited[2] == "Economy class is required on flights of less than 6 hours."
    assert {each.verdict for each in booking.flight_options} == {"allowed"}
    for option in booking.flight_options:
        pages = {each.source_page for each in option.citations}
        assert pages >= {2, 4, 5} and all(each.chunk_id.startswith("rule:") for each in option.citations)


@pytest.mark.proves("TC-2")
async def test_masks_personal_data_in_the_audit(trip: Bench) -> None:
    booking = await trip.ask(f"{EARLY}, mail me at jane.roe@example.com", HOME)
    await trip.work()
    trail = await trip.trail(booking)
    assert trail and "jane.roe" not in str(trail)
