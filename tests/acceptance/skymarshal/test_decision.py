"""A decision is written once: whatever is repeated, changed in between, or cut short."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from holdfast import Stores, Usage, create_tables, meter_usage, open_stores
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
from holdfast.stores.tables.embedded import EmbeddedTables
from holdfast.stores.tables.port import Tables
from skymarshal.disruptions.decision import Choice, Decision, confirm
from skymarshal.domain.statuses import CrewPosition
from skymarshal.model.entities import DisruptedPassenger, Disruption, Flight, FlightId, PassengerId, flights
from skymarshal.system import SYSTEM
from tests.acceptance.skymarshal.stage import (
    Stage,
    asked_for,
    at,
    booking,
    crew,
    flight,
    passenger,
    staged,
)

PEOPLE = [f"P{n:03}" for n in range(120)]
ROWS = (
    flight(),
    flight("2", "EY6411", "LHR-EDI", at(11, 20), at(12, 45), "G-EUYA"),
    *(passenger(each) for each in PEOPLE),
    *(booking(f"B-{each}", each) for each in PEOPLE),
    booking("C-1", PEOPLE[0], "2"),
)
LATE = asked_for("delay", delay_minutes=240, delay_code="41")
FLY_LATE = Choice(option="delay", decided_by="duty manager", disruption_id="D-1")


@pytest.fixture
def stage() -> Iterator[Stage]:
    with staged(*ROWS) as made:
        yield made


def the_flight(stage: Stage) -> Flight:
    found = stage.wait(stage.stores.run(Flight.of(FlightId("1")).get()))
    assert found is not None
    return found


def decided(stage: Stage) -> list[Disruption]:
    return list(stage.wait(stage.stores.all(Disruption.scan(reason="all that was decided"))))


def noted(stage: Stage) -> dict[str, DisruptedPassenger]:
    rows = stage.wait(stage.stores.all(DisruptedPassenger.scan(reason="all that was noted")))
    return {row.passenger_id: row for row in rows}


def changed_tables(before: dict[str, list[Any]], after: dict[str, list[Any]]) -> set[str]:
    return {name for name in before if before[name] != after[name]}


# --- what is written ----------------------------------------------------------------------------------------


def test_a_delay_that_is_confirmed_moves_the_flight_and_notes_every_passenger(stage: Stage) -> None:
    before = stage.dump()
    report, decision = stage.confirm(LATE, FLY_LATE)
    moved, (record,), rows = the_flight(stage), decided(stage), noted(stage)
    assert (moved.flight_status, moved.delay_code, moved.version) == ("DELAYED", "41", 2)
    assert (moved.departure, moved.arrival) == (at(6), at(13, 40))
    assert (record.option, record.delay_minutes, record.settled) == ("delay", 240, True)
    assert (record.decided_by, record.passengers_hit) == ("duty manager", 120)
    assert sorted(rows) == PEOPLE
    assert rows[PEOPLE[0]].missed_connections == 1 and rows[PEOPLE[1]].missed_connections == 0
    assert rows[PEOPLE[0]].risk_rank == "3#LOW"
    assert (decision.passengers_noted, decision.repeated) == (120, False)
    assert report.flight.version == 1
    assert changed_tables(before, stage.dump()) == {"Flights", "Disruptions", "DisruptedPassengers"}


def test_a_cancellation_that_is_confirmed_cancels_the_flight(stage: Stage) -> None:
    stage.confirm(asked_for("cancel"), Choice(option="cancel", decided_by="duty manager"))
    assert the_flight(stage).flight_status == "CANCELLED"
    assert noted(stage)[PEOPLE[0]].missed_connections == 1


def test_a_swap_that_is_confirmed_gives_the_flight_the_other_aircraft_and_its_seats(stage: Stage) -> None:
    choice = Choice(option="swap-A6-AEA", decided_by="duty manager")
    stage.confirm(asked_for("swap", swap_to="A6-AEA"), choice)
    swapped = the_flight(stage)
    assert (swapped.aircraft_registration, swapped.aircraft_type, swapped.capacity) == ("A6-AEA", "A321", 196)
    flown = stage.wait(stage.stores.all(Flight.by_aircraft("A6-AEA").query()))
    assert [each.flight_id for each in flown] == ["1"]


def test_passengers_are_noted_as_the_decision_leaves_them_not_as_it_was_feared(stage: Stage) -> None:
    report, _ = stage.confirm(LATE, Choice(option="swap-A6-BLB", decided_by="duty manager"))
    assert report.passengers.missing_connections == 1
    assert {row.missed_connections for row in noted(stage).values()} == {0}
    assert the_flight(stage).departure == at(2)


def test_without_an_id_a_decision_gets_one(stage: Stage) -> None:
    _, decision = stage.confirm(LATE, Choice(option="delay", decided_by="duty manager"))
    assert [row.disruption_id for row in decided(stage)] == [decision.disruption_id]
    assert len(decision.disruption_id) == 26


# --- repeated -----------------------------------------------------------------------------------------------


def test_a_repeat_changes_nothing_more(stage: Stage) -> None:
    _, first = stage.confirm(LATE, FLY_LATE)
    after = stage.dump()
    _, again = stage.confirm(LATE, FLY_LATE)
    assert (first.repeated, again.repeated) == (False, True)
    assert again == first.model_copy(update={"repeated": True})
    assert stage.dump() == after


def test_the_decision_of_another_person_under_the_same_id_is_refused(stage: Stage) -> None:
    stage.confirm(LATE, FLY_LATE)
    after = stage.dump()
    with pytest.raises(Conflict, match=r"delay of flight EY11 \(240 minutes\), by duty manager"):
        stage.confirm(LATE, FLY_LATE.model_copy(update={"decided_by": "somebody else"}))
    assert stage.dump() == after


def test_a_swap_that_leaves_on_time_leaves_no_delay_behind(stage: Stage) -> None:
    stage.put(flight(estimated_departure=at(6), estimated_arrival=at(13, 40), flight_status="DELAYED"))
    choice = Choice(option="swap-A6-BLB", decided_by="duty manager", disruption_id="D-1")
    report, _ = stage.confirm(LATE, choice)
    chosen = next(each for each in report.options.proposed if each.id == choice.option)
    now = the_flight(stage)
    assert chosen.delay_minutes == 0
    assert (now.aircraft_registration, now.flight_status, now.version) == ("A6-BLB", "SCHEDULED", 2)
    assert (now.delay_code, now.estimated_departure, now.departure) == (None, None, at(2))


class Crowded:
    """The engine while others are at the same items: so many transactions are cancelled for that reason alone."""

    def __init__(self, tables: Tables, times: int) -> None:
        self._tables, self._left = tables, times

    async def run(self, request: Operation[Any]) -> Any:
        if isinstance(request, TransactWriteItems) and self._left:
            self._left -= 1
            raise TransactionCancelled([CancellationReason("TransactionConflict"), CancellationReason()])
        return await self._tables.run(request)


def test_a_transaction_in_the_way_of_another_is_repeated(stage: Stage) -> None:
    crowded = Stores(cast(Tables, Crowded(stage.stores.tables, 2)), system=SYSTEM)
    _, decision = stage.wait(confirm(crowded, LATE, FLY_LATE))
    assert not decision.repeated
    assert the_flight(stage).version == 2


def test_where_others_are_always_in_the_way_it_is_to_be_tried_later(stage: Stage) -> None:
    crowded = Stores(cast(Tables, Crowded(stage.stores.tables, 1_000)), system=SYSTEM)
    with pytest.raises(RetryLater, match="nothing was decided"):
        stage.wait(confirm(crowded, LATE, FLY_LATE))
    assert (the_flight(stage).version, decided(stage)) == (1, [])


def test_a_cancellation_can_be_repeated_too(stage: Stage) -> None:
    choice = Choice(option="cancel", decided_by="duty manager", disruption_id="D-1", version=1)
    stage.confirm(asked_for("cancel"), choice)
    after = stage.dump()
    _, again = stage.confirm(asked_for("cancel"), choice)
    assert again.repeated and stage.dump() == after


@pytest.mark.parametrize(
    ("asked", "option"),
    [
        (LATE, "cancel"),
        (asked_for("cancel"), "delay"),
        (asked_for("delay", flight_id="2", delay_minutes=9), "delay"),
        (asked_for("delay", delay_minutes=241, delay_code="41"), "delay"),
        (asked_for("delay", delay_minutes=240, delay_code="93"), "delay"),
    ],
    ids=["another option", "another kind", "another flight", "another delay", "another cause"],
)
def test_another_decision_under_the_same_id_is_refused_and_nothing_is_written(
    stage: Stage, asked: Any, option: str
) -> None:
    stage.confirm(LATE, FLY_LATE)
    after = stage.dump()
    with pytest.raises(Conflict, match="D-1 was already decided: delay for the delay of flight EY11"):
        stage.confirm(asked, FLY_LATE.model_copy(update={"option": option}))
    assert stage.dump() == after


def test_two_at_once_with_the_same_id_make_one_decision(stage: Stage) -> None:
    others: list[Decision] = []

    def overtake() -> None:
        others.append(asyncio.run(confirm(stage.stores, LATE, FLY_LATE))[1])

    def seen(usage: Usage) -> None:
        # The first has found nothing on record, and has yet to write: now the second does all of it.
        if usage.pattern == "DX1" and not others and threading.current_thread() is threading.main_thread():
            second = threading.Thread(target=overtake)
            second.start()
            second.join()

    stage.stores.observe(seen)
    _, first = stage.confirm(LATE, FLY_LATE)
    assert [other.repeated for other in others] == [False] and first.repeated
    assert the_flight(stage).version == 2
    assert len(decided(stage)) == 1 and len(noted(stage)) == 120


def test_whether_an_id_was_decided_is_read_as_of_now(stage: Stage) -> None:
    stage.confirm(LATE, FLY_LATE)
    with meter_usage() as meter:
        stage.confirm(LATE, FLY_LATE)
    # An item of less than 4 KB: one unit consistently, half of one eventually.
    assert meter.filter_by_pattern("DX1").units.read == 1.0


# --- changed in between -------------------------------------------------------------------------------------


def _changed_by_somebody(stage: Stage) -> None:
    item = Flight.put(flight(version=2, capacity=200)).build_item()
    tables = cast(EmbeddedTables, stage.stores.tables)
    tables.run_blocking(PutItem(stage.stores.physical_name(flights), item))


def test_a_decision_on_an_old_report_is_refused_and_nothing_is_written(stage: Stage) -> None:
    seen = stage.assess("delay", delay_minutes=240).flight.version
    _changed_by_somebody(stage)
    before = stage.dump()
    with pytest.raises(Conflict, match="EY11 has changed since the assessment.*version 2"):
        stage.confirm(LATE, FLY_LATE.model_copy(update={"version": seen}))
    assert stage.dump() == before


def test_a_flight_changed_while_the_decision_is_written_is_a_conflict_and_nothing_is_written(
    stage: Stage,
) -> None:
    def meddle(usage: Usage) -> None:
        # The last reading before the transaction: whether the id is on record.
        if usage.pattern == "DX1":
            _changed_by_somebody(stage)

    stage.stores.observe(meddle)
    before = stage.dump()
    with pytest.raises(Conflict, match="decide again"):
        stage.confirm(LATE, FLY_LATE)
    assert changed_tables(before, stage.dump()) == {"Flights"}
    assert (the_flight(stage).version, the_flight(stage).capacity) == (2, 200)


def test_of_two_decisions_at_once_one_wins_and_the_other_is_a_conflict(stage: Stage) -> None:
    async def both() -> list[Any]:
        choices = [FLY_LATE.model_copy(update={"disruption_id": each}) for each in ("D-1", "D-2")]
        work = (confirm(stage.stores, LATE, choice) for choice in choices)
        return await asyncio.gather(*work, return_exceptions=True)

    results = stage.wait(both())
    assert sorted(type(each).__name__ for each in results) == ["Conflict", "tuple"]
    assert len(decided(stage)) == 1 and the_flight(stage).version == 2


@pytest.mark.parametrize("status", ["CANCELLED", "DEPARTED", "ARRIVED"])
def test_nothing_is_left_to_decide_about_a_flight_that_is_over(stage: Stage, status: str) -> None:
    stage.put(flight(flight_status=status))
    before = stage.dump()
    with pytest.raises(Conflict, match=f"it is {status} now"):
        stage.confirm(LATE, FLY_LATE)
    assert stage.dump() == before


# --- cut short ----------------------------------------------------------------------------------------------

KILLED = """
import asyncio, os, sys
from holdfast import open_stores
from holdfast.config.settings import Settings
from skymarshal.disruptions.decision import confirm
from skymarshal.system import SYSTEM
from tests.acceptance.skymarshal.test_decision import FLY_LATE, LATE

stores = open_stores(SYSTEM, Settings(tables="sqlite:" + sys.argv[1]))

def die(usage):
    if usage.pattern == sys.argv[2]:
        os._exit(9)

stores.observe(die)
asyncio.run(confirm(stores, LATE, FLY_LATE))
"""


@pytest.mark.parametrize(
    ("after", "rows_left"),
    [("DX4+DX5", 0), ("DX7", 25)],
    ids=["between the record and the rows", "among the rows"],
)
def test_a_decision_cut_short_by_a_kill_is_completed_by_a_repeat(
    tmp_path: Path, after: str, rows_left: int
) -> None:
    settings = Settings(tables=f"sqlite:{tmp_path / 'tables.db'}")
    filled = open_stores(SYSTEM, settings)
    asyncio.run(create_tables(filled, SYSTEM.tables))
    Stage(filled).put(*ROWS)
    asyncio.run(filled.close())
    command = [sys.executable, "-c", KILLED, str(tmp_path / "tables.db"), after]
    killed = subprocess.run(command, check=False, cwd=Path(__file__).parents[3], timeout=60)
    assert killed.returncode == 9

    stage = Stage(open_stores(SYSTEM, settings))
    assert [row.settled for row in decided(stage)] == [False]
    assert len(noted(stage)) == rows_left and the_flight(stage).version == 2
    _, decision = stage.confirm(LATE, FLY_LATE)
    assert decision.repeated
    assert [row.settled for row in decided(stage)] == [True]
    assert sorted(noted(stage)) == PEOPLE and the_flight(stage).version == 2
    asyncio.run(stage.stores.close())


# --- refused ------------------------------------------------------------------------------------------------


def test_an_option_that_was_not_proposed_is_refused_with_those_that_were(stage: Stage) -> None:
    before = stage.dump()
    with pytest.raises(
        InvalidRequest, match=r"Invalid option 'teleport': expected one of those proposed: .*cancel"
    ):
        stage.confirm(LATE, FLY_LATE.model_copy(update={"option": "teleport"}))
    assert stage.dump() == before


def test_an_option_with_something_in_its_way_needs_to_be_wanted_despite_it(stage: Stage) -> None:
    stage.put(crew("R1", "123", CrewPosition.CAPTAIN, at(0, 45), at(10)))
    with pytest.raises(InvalidRequest, match=r"is blocked: 1 crew member\(s\) would break"):
        stage.confirm(LATE, FLY_LATE)
    assert the_flight(stage).version == 1
    stage.confirm(LATE, FLY_LATE.model_copy(update={"despite_blockers": True}))
    assert the_flight(stage).flight_status == "DELAYED"


def test_the_api_may_confirm_and_the_agent_may_not(stage: Stage) -> None:
    agent = Stage(stage.stores.for_component("agent"))
    before = stage.dump()
    with pytest.raises(ComponentRefused) as refused:
        agent.confirm(LATE, FLY_LATE)
    assert (refused.value.component, refused.value.pattern) == ("agent", "DX4")
    assert stage.dump() == before
    _, decision = Stage(stage.stores.for_component("api")).confirm(LATE, FLY_LATE)
    assert not decision.repeated


def test_the_disruptions_that_hit_a_passenger_are_one_query(stage: Stage) -> None:
    stage.confirm(LATE, FLY_LATE)
    found = stage.wait(stage.stores.all(DisruptedPassenger.of(PassengerId(PEOPLE[7])).query()))
    assert [row.disruption_id for row in found] == ["D-1"]
