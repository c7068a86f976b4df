"""Flows that an earlier version began continue to their ends with the current code."""

from __future__ import annotations

import pytest

from holdfast.core.errors import DeadlinePassed, InvalidRequest, NotWaiting, WaitTokenRefused
from holdfast.flows import Execution, ParkedFor
from holdfast.flows.transition import format_error

from . import trips
from .conftest import Library
from .trips import DEADLINE_S, NEWER_TRIPS, TIMER_S, TRIPS, Trip, read_log, read_trip, work

pytestmark = pytest.mark.anyio

TO_THE_OFFER = {"Plan", "Offer"}
WHOLE = {*TO_THE_OFFER, "Choice", "Book", "Confirm"}


async def test_every_flow_is_in_its_recorded_state(library: Library) -> None:
    found = {place.key: place for place in await TRIPS.list_executions(library.stores)}
    noted = library.notes["trips"]["places"]

    assert {key: {name: getattr(place, name) for name in noted[key]} for key, place in found.items()} == noted


async def test_issued_token_answers_its_wait(library: Library) -> None:
    stores, token = library.stores, library.notes["trips"]["tokens"]["waiting"]
    assert TRIPS.make_token(await read_trip(stores, "waiting")) == token
    with pytest.raises(WaitTokenRefused):
        await TRIPS.answer(stores, ("t-1", "waiting"), "choose", token="another", given={"seat": "1A"})
    with pytest.raises(InvalidRequest):
        await TRIPS.answer(stores, ("t-1", "waiting"), "choose", token=token)

    await TRIPS.answer(stores, ("t-1", "waiting"), "choose", token=token, given={"seat": "1A"})
    await _relay_and_work(library)
    await _advance_and_sweep(library, TIMER_S)

    trip = await read_trip(stores, "waiting")
    assert (trip.flow_state, trip.shown, trip.chosen) == ("done", "done", "1A")
    assert await read_log(stores, "waiting") == WHOLE
    with pytest.raises(NotWaiting):
        await TRIPS.answer(stores, ("t-1", "waiting"), "choose", token=token, given={"seat": "1B"})


async def test_a_wait_ends_at_its_deadline(library: Library) -> None:
    stores, token = library.stores, library.notes["trips"]["tokens"]["late"]
    library.clock.advance(DEADLINE_S)
    with pytest.raises(DeadlinePassed):
        await TRIPS.answer(stores, ("t-1", "late"), "choose", token=token, given={"seat": "1A"})
    await _advance_and_sweep(library, 0)

    assert (await read_trip(stores, "late")).flow_state == "cancelled"


async def test_flow_that_waits_for_a_timer_is_done_after_it(library: Library) -> None:
    await _advance_and_sweep(library, TIMER_S)

    assert (await read_trip(library.stores, "resting")).flow_state == "done"
    assert await read_log(library.stores, "resting") == WHOLE


async def test_retries_a_failed_step_after_its_backoff(library: Library) -> None:
    paused = ["retried: party", "retried: there", "retried: foreign", "put off"]
    await work(library.stores, None)
    before = [(await read_trip(library.stores, name)).flow_state for name in paused]
    await _advance_and_sweep(library, 120)

    assert before == ["asked"] * len(paused)
    await _assert_all_offered(library, *paused)


async def test_repeated_failure_continues_the_attempt_count(library: Library) -> None:
    library.clock.advance(120)
    await TRIPS.sweep(library.stores)
    await work(library.stores, trips.FATES)

    place = await _read_execution(library, "retried: party")
    assert place.attempts == 2
    library.clock.advance(120)
    await TRIPS.sweep(library.stores)
    await work(library.stores, trips.FATES)
    assert (await _read_execution(library, "retried: party")).parked_for == ParkedFor.FAILED


async def test_pending_sent_and_received_steps_are_all_done(library: Library) -> None:
    await _relay_and_work(library)
    assert (await read_trip(library.stores, "step received")).flow_state == "asked"
    library.clock.advance(trips.steps.visibility_s)
    await work(library.stores, None)

    await _assert_all_offered(library, "step sent", "step in the outbox", "step received")


async def test_resumes_a_parked_flow(library: Library) -> None:
    parked = ["parked: failed", "parked: foreign", "parked: mistake", "parked: lost"]

    assert [await TRIPS.resume(library.stores, ("t-1", name)) for name in parked] == [1, 1, 1, 1]

    await work(library.stores, None)
    await _assert_all_offered(library, *parked)


async def test_only_code_that_knows_the_state_resumes_a_flow_parked_in_it(library: Library) -> None:
    assert (await TRIPS.retry_unknown_states(library.stores)).resumed == 0

    assert (await NEWER_TRIPS.retry_unknown_states(library.stores)).resumed == 1


async def test_resumes_a_flow_parked_as_unreadable_once_it_is_fixed(library: Library) -> None:
    name = "parked: unreadable"
    await library.stores.run(Trip.of("t-1").update(name).set(Trip.version, 1))

    assert (await TRIPS.retry_unknown_states(library.stores)).resumed == 1
    await work(library.stores, None)
    assert (await read_trip(library.stores, name)).flow_state == "offered"


async def test_cancels_a_flow(library: Library) -> None:
    await TRIPS.cancel(library.stores, ("t-1", "waiting"), "too far")
    await TRIPS.cancel(library.stores, ("t-1", "retried: party"), "too far")

    for name in ("waiting", "retried: party"):
        assert (await read_trip(library.stores, name)).flow_state == "cancelled"
        assert "Cancelled: too far" in await read_log(library.stores, name)


async def test_errors_are_still_formatted_as_the_archive_stored_them(library: Library) -> None:
    if not library.is_latest:
        pytest.skip("only for the latest archive: an older version may have stored another error label")
    places = library.notes["trips"]["places"]

    for name, error in trips.FATES.items():
        noted = places[f"t-1#{name}"]
        assert format_error(error()) == (noted["error"] or noted["parked"].partition(" (at the first ")[0])


async def _assert_all_offered(library: Library, *names: str) -> None:
    """Check that these trips wait for a choice, with each effect up to there once."""
    for name in names:
        assert (await read_trip(library.stores, name)).flow_state == "offered", name
        assert await read_log(library.stores, name) == TO_THE_OFFER, name


async def _relay_and_work(library: Library) -> None:
    """Relay the outbox and handle every step that is in the queue."""
    await TRIPS.outbox.send_unsent(library.stores)
    await work(library.stores, None)


async def _advance_and_sweep(library: Library, seconds: float) -> None:
    """Move the clock, let the sweeper find what is due, and handle the steps."""
    library.clock.advance(seconds)
    await TRIPS.sweep(library.stores)
    await _relay_and_work(library)


async def _read_execution(library: Library, name: str) -> Execution:
    place = await library.stores.run(TRIPS.pattern_set.execution(f"t-1#{name}"))
    assert place is not None
    return place
