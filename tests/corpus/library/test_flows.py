"""Flows that an earlier version began are carried on to their ends by the current code."""

from __future__ import annotations

import pytest

from holdfast.core.errors import DeadlinePassed, InvalidRequest, NotWaiting, WaitTokenRefused
from holdfast.flows import Execution, ParkedFor
from holdfast.flows.transition import format_error

from . import trips
from .conftest import Library
from .trips import DEADLINE_S, NEWER_TRIPS, TIMER_S, TRIPS, Trip, log_of, trip_of, work

pytestmark = pytest.mark.anyio

TO_THE_OFFER = {"Plan", "Offer"}
WHOLE = {*TO_THE_OFFER, "Choice", "Book", "Confirm"}


async def test_every_flow_is_where_it_was(library: Library) -> None:
    found = {place.key: place for place in await TRIPS.list_executions(library.stores)}
    noted = library.notes["trips"]["places"]

    assert {key: {name: getattr(place, name) for name in noted[key]} for key, place in found.items()} == noted


async def test_a_wait_is_answered_by_the_token_that_was_given_out(library: Library) -> None:
    stores, token = library.stores, library.notes["trips"]["tokens"]["waiting"]
    assert TRIPS.make_token(await trip_of(stores, "waiting")) == token
    with pytest.raises(WaitTokenRefused):
        await TRIPS.answer(stores, ("t-1", "waiting"), "choose", token="another", given={"seat": "1A"})
    with pytest.raises(InvalidRequest):
        await TRIPS.answer(stores, ("t-1", "waiting"), "choose", token=token)

    await TRIPS.answer(stores, ("t-1", "waiting"), "choose", token=token, given={"seat": "1A"})
    await _carry_on(library)
    await _pass_time(library, TIMER_S)

    trip = await trip_of(stores, "waiting")
    assert (trip.flow_state, trip.shown, trip.chosen) == ("done", "done", "1A")
    assert await log_of(stores, "waiting") == WHOLE
    with pytest.raises(NotWaiting):
        await TRIPS.answer(stores, ("t-1", "waiting"), "choose", token=token, given={"seat": "1B"})


async def test_a_wait_ends_at_its_deadline(library: Library) -> None:
    stores, token = library.stores, library.notes["trips"]["tokens"]["late"]
    library.clock.advance(DEADLINE_S)
    with pytest.raises(DeadlinePassed):
        await TRIPS.answer(stores, ("t-1", "late"), "choose", token=token, given={"seat": "1A"})
    await _pass_time(library, 0)

    assert (await trip_of(stores, "late")).flow_state == "cancelled"


async def test_a_timer_goes_off(library: Library) -> None:
    await _pass_time(library, TIMER_S)

    assert (await trip_of(library.stores, "resting")).flow_state == "done"
    assert await log_of(library.stores, "resting") == WHOLE


async def test_a_step_that_failed_is_tried_again_after_its_pause(library: Library) -> None:
    paused = ["retried: party", "retried: there", "retried: foreign", "put off"]
    await work(library.stores, None)
    before = [(await trip_of(library.stores, name)).flow_state for name in paused]
    await _pass_time(library, 120)

    assert before == ["asked"] * len(paused)
    await _all_offered(library, *paused)


async def test_a_step_that_fails_again_counts_on(library: Library) -> None:
    library.clock.advance(120)
    await TRIPS.sweep(library.stores)
    await work(library.stores, trips.FATES)

    place = await _place(library, "retried: party")
    assert place.attempts == 2
    library.clock.advance(120)
    await TRIPS.sweep(library.stores)
    await work(library.stores, trips.FATES)
    assert (await _place(library, "retried: party")).parked_for == ParkedFor.FAILED


async def test_a_message_that_was_on_its_way_arrives(library: Library) -> None:
    await _carry_on(library)
    assert (await trip_of(library.stores, "step received")).flow_state == "asked"
    library.clock.advance(trips.steps.visibility_s)
    await work(library.stores, None)

    await _all_offered(library, "step sent", "step in the outbox", "step received")


async def test_what_was_parked_is_resumed(library: Library) -> None:
    parked = ["parked: failed", "parked: foreign", "parked: mistake", "parked: lost"]

    assert [await TRIPS.resume(library.stores, ("t-1", name)) for name in parked] == [1, 1, 1, 1]

    await work(library.stores, None)
    await _all_offered(library, *parked)


async def test_what_was_parked_for_a_state_is_taken_up_by_code_that_knows_it(library: Library) -> None:
    assert (await TRIPS.retry_unknown_states(library.stores)).resumed == 0

    assert (await NEWER_TRIPS.retry_unknown_states(library.stores)).resumed == 1


async def test_what_was_parked_as_unreadable_is_taken_up_when_it_is_fixed(library: Library) -> None:
    name = "parked: unreadable"
    await library.stores.run(Trip.of("t-1").update(name).set(Trip.version, 1))

    assert (await TRIPS.retry_unknown_states(library.stores)).resumed == 1
    await work(library.stores, None)
    assert (await trip_of(library.stores, name)).flow_state == "offered"


async def test_a_flow_is_cancelled(library: Library) -> None:
    await TRIPS.cancel(library.stores, ("t-1", "waiting"), "too far")
    await TRIPS.cancel(library.stores, ("t-1", "retried: party"), "too far")

    for name in ("waiting", "retried: party"):
        assert (await trip_of(library.stores, name)).flow_state == "cancelled"
        assert "Cancelled: too far" in await log_of(library.stores, name)


async def test_an_error_is_stored_by_its_name(library: Library) -> None:
    if not library.is_latest:
        pytest.skip("an earlier version may have had another name for it")
    places = library.notes["trips"]["places"]

    for name, error in trips.FATES.items():
        noted = places[f"t-1#{name}"]
        assert format_error(error()) == (noted["error"] or noted["parked"].partition(" (at the first try")[0])


async def _all_offered(library: Library, *names: str) -> None:
    for name in names:
        assert (await trip_of(library.stores, name)).flow_state == "offered", name
        assert await log_of(library.stores, name) == TO_THE_OFFER, name


async def _carry_on(library: Library) -> None:
    await TRIPS.outbox.relay(library.stores)
    await work(library.stores, None)


async def _pass_time(library: Library, seconds: float) -> None:
    library.clock.advance(seconds)
    await TRIPS.sweep(library.stores)
    await _carry_on(library)


async def _place(library: Library, name: str) -> Execution:
    place = await library.stores.run(TRIPS.pattern_set.execution(f"t-1#{name}"))
    assert place is not None
    return place
