"""Decisions on a small airline: written once, even if repeated, racing with other changes or interrupted."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from holdfast import Stores, open_stores
from holdfast.config.settings import Settings
from holdfast.core.errors import (
    CancellationReason,
    ComponentRefused,
    Conflict,
    InvalidRequest,
    RetryLater,
    TransactionCancelled,
)
from holdfast.operations.tables import Operation, PutItem, TransactWriteItems
from holdfast.runtime import Usage, create_tables, meter_usage
from holdfast.stores.tables.embedded import EmbeddedTables
from holdfast.stores.tables.port import Tables
from skymarshal.disruptions.decision import Choice, Decision, confirm
from skymarshal.disruptions.report import DisruptionRequest
from skymarshal.domain.statuses import CrewPosition
from skymarshal.model.entities import DisruptedPassenger, Disruption, Flight, FlightId, flights
from skymarshal.system import SYSTEM
from tests.cases import all_cases
from tests.processes import Process, preload
from tests.systems.skymarshal.acceptance.small_airline import (
    Airline,
    at,
    booking,
    crew,
    flight,
    make_request,
    open_airline,
    passenger,
)

PEOPLE = [f"P{n:03}" for n in range(120)]
ROWS = (
    flight(),
    flight("2", "EY6411", "LHR-EDI", at(11, 20), at(12, 45), "G-EUYA"),
    *(passenger(each) for each in PEOPLE),
    *(booking(f"B-{each}", each) for each in PEOPLE),
    booking("C-1", PEOPLE[0], "2"),
)
LATE = make_request("delay", delay_minutes=240, delay_code="41")
FLY_LATE = Choice(option="delay", decided_by="duty manager", disruption_id="D-1")


@pytest.fixture
def airline() -> Iterator[Airline]:
    """A small airline with 120 passengers on flight 1, the first of whom connects to flight 2."""
    with open_airline(*ROWS) as made:
        yield made


def get_flight(airline: Airline) -> Flight:
    """Return the stored flight 1."""
    found = airline.wait(airline.stores.run(Flight.of(FlightId("1")).get()))
    assert found is not None
    return found


def list_decisions(airline: Airline) -> list[Disruption]:
    """Return every recorded decision."""
    return list(airline.wait(airline.stores.all(Disruption.scan(reason="all that was decided"))))


def list_disrupted_passengers(airline: Airline) -> dict[str, DisruptedPassenger]:
    """Return the recorded rows of affected passengers by passenger id."""
    rows = airline.wait(airline.stores.all(DisruptedPassenger.scan(reason="all that was noted")))
    return {row.passenger_id: row for row in rows}


def list_changed_tables(before: dict[str, list[Any]], after: dict[str, list[Any]]) -> set[str]:
    """Return the names of the tables whose items differ between two dumps."""
    return {name for name in before if before[name] != after[name]}


# --- writes -------------------------------------------------------------------------------------------------


def test_confirmed_delay_moves_the_flight_and_records_its_passengers(airline: Airline) -> None:
    before = airline.dump()
    report, decision = airline.confirm(LATE, FLY_LATE)
    moved, (record,), rows = get_flight(airline), list_decisions(airline), list_disrupted_passengers(airline)
    assert (moved.flight_status, moved.delay_code, moved.version) == ("DELAYED", "41", 2)
    assert (moved.departure, moved.arrival) == (at(6), at(13, 40))
    assert (record.option, record.delay_minutes, record.settled) == ("delay", 240, True)
    assert (record.decided_by, record.passengers_hit) == ("duty manager", 120)
    assert sorted(rows) == PEOPLE
    assert rows[PEOPLE[0]].missed_connections == 1 and rows[PEOPLE[1]].missed_connections == 0
    assert rows[PEOPLE[0]].risk_rank == "3#LOW"
    assert (decision.passengers_noted, decision.repeated) == (120, False)
    assert report.flight.version == 1
    assert list_changed_tables(before, airline.dump()) == {"Flights", "Disruptions", "DisruptedPassengers"}


def test_confirmed_cancellation_cancels_the_flight(airline: Airline) -> None:
    airline.confirm(make_request("cancel"), Choice(option="cancel", decided_by="duty manager"))
    assert get_flight(airline).flight_status == "CANCELLED"
    assert list_disrupted_passengers(airline)[PEOPLE[0]].missed_connections == 1


def test_confirmed_swap_assigns_the_new_aircraft_and_its_seats(airline: Airline) -> None:
    choice = Choice(option="swap-A6-AEA", decided_by="duty manager")
    airline.confirm(make_request("swap", swap_to="A6-AEA"), choice)
    swapped = get_flight(airline)
    assert (swapped.aircraft_registration, swapped.aircraft_type, swapped.capacity) == ("A6-AEA", "A321", 196)
    flown = airline.wait(airline.stores.all(Flight.by_aircraft("A6-AEA").query()))
    assert [each.flight_id for each in flown] == ["1"]


def test_passengers_are_recorded_as_decided_rather_than_as_predicted(airline: Airline) -> None:
    """The delay would break a connection, but the chosen swap leaves on time and breaks none."""
    report, _ = airline.confirm(LATE, Choice(option="swap-A6-BLB", decided_by="duty manager"))
    assert report.passengers.missing_connections == 1
    assert {row.missed_connections for row in list_disrupted_passengers(airline).values()} == {0}
    assert get_flight(airline).departure == at(2)


def test_generates_an_id_for_a_decision_without_one(airline: Airline) -> None:
    _, decision = airline.confirm(LATE, Choice(option="delay", decided_by="duty manager"))
    assert [row.disruption_id for row in list_decisions(airline)] == [decision.disruption_id]
    assert len(decision.disruption_id) == 26


# --- repeats ------------------------------------------------------------------------------------------------


def test_repeated_decision_changes_nothing(airline: Airline) -> None:
    _, first = airline.confirm(LATE, FLY_LATE)
    after = airline.dump()
    with meter_usage() as meter:
        _, again = airline.confirm(LATE, FLY_LATE)
    assert (first.repeated, again.repeated) == (False, True)
    assert again == first.model_copy(update={"repeated": True})
    assert airline.dump() == after
    # An item of less than 4 KB costs one unit consistently and half a unit eventually.
    assert meter.filter_by_pattern("DX1").units.read == 1.0


def test_swap_on_time_clears_the_delay(airline: Airline) -> None:
    airline.put(flight(estimated_departure=at(6), estimated_arrival=at(13, 40), flight_status="DELAYED"))
    choice = Choice(option="swap-A6-BLB", decided_by="duty manager", disruption_id="D-1")
    report, _ = airline.confirm(LATE, choice)
    chosen = next(each for each in report.options.proposed if each.id == choice.option)
    now = get_flight(airline)
    assert chosen.delay_minutes == 0
    assert (now.aircraft_registration, now.flight_status, now.version) == ("A6-BLB", "SCHEDULED", 2)
    assert (now.delay_code, now.estimated_departure, now.departure) == (None, None, at(2))


class ConflictingTables:
    """A tables engine that cancels the first `times` transactions because of conflicts."""

    def __init__(self, tables: Tables, times: int) -> None:
        self._tables, self._left = tables, times

    async def run(self, request: Operation[Any]) -> Any:
        if isinstance(request, TransactWriteItems) and self._left:
            self._left -= 1
            raise TransactionCancelled([CancellationReason("TransactionConflict"), CancellationReason()])
        return await self._tables.run(request)


def test_retries_a_conflicting_transaction(airline: Airline) -> None:
    crowded = Stores(cast(Tables, ConflictingTables(airline.stores.tables, 2)), system=SYSTEM)
    _, decision = airline.wait(confirm(crowded, LATE, FLY_LATE))
    assert not decision.repeated
    assert get_flight(airline).version == 2


def test_persistent_conflicts_ask_to_retry_later(airline: Airline) -> None:
    crowded = Stores(cast(Tables, ConflictingTables(airline.stores.tables, 1_000)), system=SYSTEM)
    with pytest.raises(RetryLater, match="nothing was decided"):
        airline.wait(confirm(crowded, LATE, FLY_LATE))
    assert (get_flight(airline).version, list_decisions(airline)) == (1, [])


@all_cases(
    ("asked", "change"),
    [
        (LATE, {"option": "cancel"}),
        (LATE, {"decided_by": "somebody else"}),
        (make_request("cancel"), {}),
        (make_request("delay", flight_id="2", delay_minutes=9), {}),
        (make_request("delay", delay_minutes=241, delay_code="41"), {}),
        (make_request("delay", delay_minutes=240, delay_code="93"), {}),
    ],
)
def test_refuses_another_decision_under_the_same_id(
    airline: Airline, asked: DisruptionRequest, change: dict[str, str]
) -> None:
    airline.confirm(LATE, FLY_LATE)
    after = airline.dump()
    decided = r"D-1 was already decided: delay for the delay of flight EY11 \(240 minutes\), by duty manager"
    with pytest.raises(Conflict, match=decided):
        airline.confirm(asked, FLY_LATE.model_copy(update=change))
    assert airline.dump() == after


def test_concurrent_confirmations_with_one_id_make_one_decision(airline: Airline) -> None:
    others: list[Decision] = []

    def overtake() -> None:
        others.append(asyncio.run(confirm(airline.stores, LATE, FLY_LATE))[1])

    def on_usage(usage: Usage) -> None:
        # The first call has found no decision and has not written yet: now the second call completes.
        if usage.pattern == "DX1" and not others and threading.current_thread() is threading.main_thread():
            second = threading.Thread(target=overtake)
            second.start()
            second.join()

    airline.stores.observe(on_usage)
    _, first = airline.confirm(LATE, FLY_LATE)
    assert [other.repeated for other in others] == [False] and first.repeated
    assert get_flight(airline).version == 2
    assert len(list_decisions(airline)) == 1 and len(list_disrupted_passengers(airline)) == 120


# --- concurrent changes -------------------------------------------------------------------------------------


def _change_flight(airline: Airline) -> None:
    """Overwrite flight 1 with version 2 and another capacity, past the patterns."""
    item = Flight.put(flight(version=2, capacity=200)).build_item()
    tables = cast(EmbeddedTables, airline.stores.tables)
    tables.run_blocking(PutItem(airline.stores.physical_name(flights), item))


def test_refuses_a_decision_on_an_outdated_report(airline: Airline) -> None:
    seen = airline.assess("delay", delay_minutes=240).flight.version
    _change_flight(airline)
    before = airline.dump()
    with pytest.raises(Conflict, match="EY11 has changed since the assessment.*version 2"):
        airline.confirm(LATE, FLY_LATE.model_copy(update={"version": seen}))
    assert airline.dump() == before


def test_concurrent_flight_change_is_a_conflict(airline: Airline) -> None:
    def interfere(usage: Usage) -> None:
        # The last read before the transaction looks for an existing decision.
        if usage.pattern == "DX1":
            _change_flight(airline)

    airline.stores.observe(interfere)
    before = airline.dump()
    with pytest.raises(Conflict, match="decide again"):
        airline.confirm(LATE, FLY_LATE)
    assert list_changed_tables(before, airline.dump()) == {"Flights"}
    assert (get_flight(airline).version, get_flight(airline).capacity) == (2, 200)


def test_one_of_two_concurrent_decisions_wins_and_the_other_is_a_conflict(airline: Airline) -> None:
    async def confirm_both() -> list[Any]:
        choices = [FLY_LATE.model_copy(update={"disruption_id": each}) for each in ("D-1", "D-2")]
        work = (confirm(airline.stores, LATE, choice) for choice in choices)
        return await asyncio.gather(*work, return_exceptions=True)

    results = airline.wait(confirm_both())
    assert sorted(type(each).__name__ for each in results) == ["Conflict", "tuple"]
    assert len(list_decisions(airline)) == 1 and get_flight(airline).version == 2


@all_cases("status", ["CANCELLED", "DEPARTED", "ARRIVED"])
def test_refuses_a_decision_on_a_cancelled_departed_or_arrived_flight(airline: Airline, status: str) -> None:
    airline.put(flight(flight_status=status))
    before = airline.dump()
    with pytest.raises(Conflict, match=f"it is {status} now"):
        airline.confirm(LATE, FLY_LATE)
    assert airline.dump() == before


# --- interruptions ------------------------------------------------------------------------------------------

preload(__name__)


async def main(tables: str, pattern: str) -> None:
    """Confirm the delay and end the process once this pattern has run."""

    def die(usage: Usage) -> None:
        if usage.pattern == pattern:
            os._exit(9)

    stores = open_stores(SYSTEM, Settings(tables=tables))
    stores.observe(die)
    await confirm(stores, LATE, FLY_LATE)


@pytest.mark.parametrize(
    ("after", "rows_left"),
    [("DX4+DX5", 0), ("DX7", 25)],
    ids=["between the record and the rows", "among the rows"],
)
def test_repeat_completes_a_decision_after_a_kill(tmp_path: Path, after: str, rows_left: int) -> None:
    settings = Settings(tables=f"sqlite:{tmp_path / 'tables.db'}")
    filled = open_stores(SYSTEM, settings)
    asyncio.run(create_tables(filled, SYSTEM.tables))
    Airline(filled).put(*ROWS)
    asyncio.run(filled.close())
    with Process(__name__, settings.tables, after) as killed:
        assert killed.wait() == 9, killed.read_log()

    airline = Airline(open_stores(SYSTEM, settings))
    assert [row.settled for row in list_decisions(airline)] == [False]
    assert len(list_disrupted_passengers(airline)) == rows_left and get_flight(airline).version == 2
    _, decision = airline.confirm(LATE, FLY_LATE)
    assert decision.repeated
    assert [row.settled for row in list_decisions(airline)] == [True]
    assert sorted(list_disrupted_passengers(airline)) == PEOPLE and get_flight(airline).version == 2
    asyncio.run(airline.stores.close())


# --- refusals -----------------------------------------------------------------------------------------------


def test_refuses_an_option_that_was_not_proposed(airline: Airline) -> None:
    before = airline.dump()
    with pytest.raises(
        InvalidRequest, match=r"Invalid option 'teleport': expected one of those proposed: .*cancel"
    ):
        airline.confirm(LATE, FLY_LATE.model_copy(update={"option": "teleport"}))
    assert airline.dump() == before


def test_blocked_option_needs_an_explicit_override(airline: Airline) -> None:
    """It is refused without `despite_blockers` and written with it."""
    airline.put(crew("R1", "123", CrewPosition.CAPTAIN, at(0, 45), at(10)))
    with pytest.raises(InvalidRequest, match=r"is blocked: 1 crew member\(s\) would break"):
        airline.confirm(LATE, FLY_LATE)
    assert get_flight(airline).version == 1
    airline.confirm(LATE, FLY_LATE.model_copy(update={"despite_blockers": True}))
    assert get_flight(airline).flight_status == "DELAYED"


def test_api_may_confirm_and_agent_may_not(airline: Airline) -> None:
    agent = Airline(airline.stores.for_component("agent"))
    before = airline.dump()
    with pytest.raises(ComponentRefused) as refused:
        agent.confirm(LATE, FLY_LATE)
    assert (refused.value.component, refused.value.pattern) == ("agent", "DX4")
    assert airline.dump() == before
    _, decision = Airline(airline.stores.for_component("api")).confirm(LATE, FLY_LATE)
    assert not decision.repeated
