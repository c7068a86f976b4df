"""Tests of the flow's transitions, as declared and as stored: the document's, six more, and no others."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast import Stores, open_memory_stores
from holdfast.core.errors import InvalidTransition, NotCancellable, NotWaiting
from holdfast.flows import Next, Wait
from holdfast.flows.checks import get_targets
from holdfast.flows.transition import Overtaken, build_execution, commit
from holdfast.model.ulids import UlidGenerator
from holdfast.runtime import create_queues, create_tables
from holdfast.web.demo_env import patch_environ
from tests.systems.tripcortex.unit.policy_rules.trips import make_option
from tests.systems.tripcortex.unit.steps.booking_bench import HandClock, get_booking_item
from tripcortex.model import patterns
from tripcortex.model.entities import TERMINAL_STATUSES, Booking, BookingStatus, EmployeeId
from tripcortex.system import SYSTEM
from tripcortex.workers.flow import BOOKING_FLOW

S = BookingStatus
EMPLOYEE = EmployeeId("emp-42")
SECRET = {"HOLDFAST_SECRET_TRIPCORTEX_FLOW_TOKEN": "a-secret-of-the-tests"}
# Copied from the document's diagram, not derived from the code under test.
SEED = {
    (S.initiated, S.searching),
    (S.searching, S.options_presented),
    (S.searching, S.failed),
    (S.options_presented, S.user_selected),
    (S.options_presented, S.cancelled),
    (S.user_selected, S.booking),
    (S.booking, S.confirmed),
    (S.booking, S.failed),
}
# Transitions of the document that its diagram leaves out.
EXTENSIONS = {
    (S.initiated, S.failed),
    (S.initiated, S.cancelled),
    (S.searching, S.cancelled),
    (S.user_selected, S.failed),
    (S.user_selected, S.cancelled),
    # The approved flights are sold out, and the employee searches again.
    (S.user_selected, S.searching),
}


def get_status(state: str) -> BookingStatus:
    """Return the document's status that the flow's state is shown as."""
    status: BookingStatus = BOOKING_FLOW.get_state(state).shown_as
    return status


def list_edges() -> set[tuple[str, str]]:
    """Return all pairs of a state and a state that can follow it."""
    return {
        (state.name, target)
        for state in BOOKING_FLOW.states.values()
        for target in get_targets(state, BOOKING_FLOW.cancellation)
    }


@pytest.mark.proves("TC-60", "TC-61", "TC-62", "TC-X1", "TC-X9")
def test_flow_has_the_documents_transitions_and_the_six_missing_ones() -> None:
    moves = {
        (get_status(one), get_status(other))
        for one, other in list_edges()
        if get_status(one) is not get_status(other)
    }
    assert moves >= SEED
    assert moves - SEED == EXTENSIONS
    assert {get_status(name) for name in BOOKING_FLOW.states} == {*S}
    ends = {state.name for state in BOOKING_FLOW.states.values() if state.is_end}
    assert ends == {each.value for each in TERMINAL_STATUSES} == {"confirmed", "failed", "cancelled"}
    assert not [edge for edge in list_edges() if edge[0] in ends]


@pytest.mark.proves("TC-90", "TC-94")
def test_steps_have_the_documents_names_and_four_states_are_waits() -> None:
    assert BOOKING_FLOW.step_names == (
        "EmbedAndRetrieve",
        "ReasonAndPlan",
        "ValidatePlan",
        "ExecuteSearch",
        "BeginBooking",
        "CompleteBooking",
    )
    waits = {
        state.name: state.action for state in BOOKING_FLOW.states.values() if isinstance(state.action, Wait)
    }
    assert {name: set(wait.answers) for name, wait in waits.items()} == {
        "asking": {"answer"},
        "options_presented": {"choose"},
        "approving": {"decide", "reassign"},
        "repriced": {"accept", "search"},
    }
    # Every wait has a deadline.
    assert all(wait.deadline_s and wait.deadline_to for wait in waits.values())


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def stores(clock: HandClock) -> AsyncIterator[Stores]:
    with patch_environ(SECRET):
        async with open_memory_stores(SYSTEM, clock=clock) as opened:
            await create_tables(opened, SYSTEM.tables)
            await create_queues(opened, SYSTEM.queues)
            yield opened


async def make_booking(stores: Stores, clock: HandClock, state: str) -> Booking:
    """Create a booking in a state, with its execution, as the flow would have left it."""
    now = datetime.fromtimestamp(clock.now(), UTC)
    is_chosen = state in ("approving", "user_selected", "repriced", "booking", "confirmed")
    booking = Booking(
        employee_id=EMPLOYEE,
        booking_id=UlidGenerator(clock).new(),
        user_request="Boston to Chicago",
        status=get_status(state),
        flow_state=state,
        flight_options=[make_option("1"), make_option("2")],
        selected_option=make_option("1") if is_chosen else None,
        confirmation_number="UA-ABC123" if state == "confirmed" else None,
        created_at=now,
        updated_at=now,
    )
    await stores.run(patterns.create_booking(booking))
    if not BOOKING_FLOW.get_state(state).is_end:
        await stores.run(BOOKING_FLOW.pattern_set.begin(build_execution(BOOKING_FLOW, booking, now)))
    return booking


def get_changes(target: str) -> dict[str, Any]:
    """Return the attributes that a booking needs to be moved to this state."""
    if target != "confirmed":
        return {}
    return {"selected_option": make_option("1"), "confirmation_number": "UA-ABC123"}


@pytest.mark.proves("TC-61", "TC-62", "TC-63", "TC-70")
async def test_booking_accepts_legal_transitions_only(stores: Stores, clock: HandClock) -> None:
    legal = list_edges()
    for one, other in itertools.product(BOOKING_FLOW.states, BOOKING_FLOW.states):
        booking = await make_booking(stores, clock, one)
        stored = await get_booking_item(stores, booking)
        clock.move(1)
        allowed = get_targets(BOOKING_FLOW.get_state(one), BOOKING_FLOW.cancellation)
        moving = commit(BOOKING_FLOW, stores, booking, Next(other, get_changes(other)), allowed)
        if (one, other) not in legal:
            with pytest.raises(InvalidTransition):
                await moving
            assert await get_booking_item(stores, booking) == stored
            continue
        await moving
        after = await stores.run(patterns.booking(EMPLOYEE, booking.booking_id))
        assert after is not None
        assert (after.flow_state, after.status) == (other, get_status(other))
        assert after.updated_at == booking.updated_at + timedelta(seconds=1)
        assert after.version == booking.version + 1
        # A commit based on the previous version is too late.
        with pytest.raises(Overtaken):
            await commit(BOOKING_FLOW, stores, booking, Next(other, get_changes(other)), allowed)


@pytest.mark.proves("TC-62")
async def test_ended_booking_rejects_answers_and_cancellation(stores: Stores, clock: HandClock) -> None:
    for state in ("confirmed", "failed", "cancelled"):
        booking = await make_booking(stores, clock, state)
        stored = await get_booking_item(stores, booking)
        with pytest.raises(NotCancellable):
            await BOOKING_FLOW.cancel(stores, booking, "no")
        for name in ("choose", "answer", "decide", "reassign", "accept", "search"):
            with pytest.raises(NotWaiting):
                await BOOKING_FLOW.answer(stores, booking, name, token="x", given={"optionId": "1"})
        assert await get_booking_item(stores, booking) == stored


@pytest.mark.proves("TC-61")
async def test_no_step_may_write_the_status_itself_or_the_key(stores: Stores, clock: HandClock) -> None:
    booking = await make_booking(stores, clock, "initiated")
    for change in (
        {"status": S.confirmed},
        {"updated_at": booking.created_at},
        {"employee_id": "emp-1"},
        {"version": 7},
    ):
        with pytest.raises(InvalidTransition):
            await commit(BOOKING_FLOW, stores, booking, Next("retrieved", change), ("retrieved",))


@pytest.mark.proves("TC-94")
def test_flow_renders_a_diagram_and_states_language() -> None:
    drawn = BOOKING_FLOW.draw_diagram()
    assert all(state in drawn for state in BOOKING_FLOW.states)
    exported = BOOKING_FLOW.to_states_language()
    assert exported["StartAt"] in exported["States"]
    assert set(BOOKING_FLOW.states) <= set(exported["States"])
    assert all(step in json.dumps(exported) for step in BOOKING_FLOW.step_names)


@pytest.mark.proves("TC-94")
def test_diagram_and_states_language_show_all_ends_of_an_approval_deadline() -> None:
    drawn = BOOKING_FLOW.draw_diagram()
    ends = ("approving", "user_selected", "failed")
    assert all(f"approving --> {end} : after" in drawn for end in ends)
    states = BOOKING_FLOW.to_states_language()["States"]
    [late] = states["approving"]["Catch"]
    assert states[late["Next"]]["Type"] == "Task"
    choices = states[states[late["Next"]]["Next"]]["Choices"]
    assert {each["Next"] for each in choices} == {*ends}
