"""The migration of CrewRoster to CrewRoster_v2 under writes and reads: in memory, file, served and moto."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from random import Random, SystemRandom
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from holdfast import Stores
from holdfast.core.errors import ComponentRefused, Conflict, DeclarationError, InvalidRequest
from holdfast.guarantees.table_migration import (
    MigrationStep,
    Pace,
    Phase,
    get_status,
    migrate,
    plan_migration,
    remove_source,
)
from holdfast.operations.tables import Operation, PutItem
from holdfast.runtime import create_tables, describe_table, import_csv
from holdfast.stores.tables.dynamodb import open_dynamodb
from holdfast.stores.tables.embedded import open_tables
from holdfast.stores.tables.embedded.faults import EngineFaults
from holdfast.stores.tables.port import Tables
from holdfast.wire.http.server import start_server
from holdfast_demo.skymarshal.sample.crew import build_crew_assignments
from holdfast_demo.skymarshal.sample.schedule import Block
from skymarshal.api.csv_imports import IMPORTS
from skymarshal.model import queries, roster
from skymarshal.model.entities import CrewAssignment, CrewDuty, RosterId, crew_roster, crew_roster_v2
from skymarshal.model.roster import CREW_ROSTER_V2
from skymarshal.system import SYSTEM
from tests.contract.moto import moto_endpoint
from tests.systems.skymarshal.acceptance.roster_traffic import (
    Traffic,
    assert_arrived,
    fill_roster,
    keep_reading,
    make_assignment,
)

REGION = "us-east-1"
PACE = Pace(lease_s=5, segments=2, batch_size=20)
TABLES = (crew_roster, *(table for table in SYSTEM.tables if table.name in ("Flights", "Migrations")))


# --- the engines --------------------------------------------------------------------------------------------


@contextmanager
def _open_served() -> Iterator[Tables]:
    """Open a DynamoDB client of the project's own server over an engine in memory."""
    with open_tables() as behind, start_server(tables=behind) as url:
        yield open_dynamodb(endpoint=url, region=REGION)


@contextmanager
def _open_moto() -> Iterator[Tables]:
    """Open a DynamoDB client of a moto server."""
    with moto_endpoint() as address:
        yield open_dynamodb(endpoint=f"http://{address}", region=REGION)


@contextmanager
def _open_file() -> Iterator[Tables]:
    """Open the embedded engine on a temporary file."""
    with TemporaryDirectory() as folder, open_tables(Path(folder) / "tables.db") as tables:
        yield tables


ENGINES: dict[str, Callable[[], Any]] = {
    "memory": open_tables,
    "file": _open_file,
    "serve": _open_served,
    "moto": _open_moto,
}


@asynccontextmanager
async def _open_stores(engine: str) -> AsyncIterator[Stores]:
    """Open stores on an engine of `ENGINES` with the tables that the migration needs."""
    with ENGINES[engine]() as tables:
        stores = Stores(tables, system=SYSTEM)
        await create_tables(stores, TABLES)
        try:
            yield stores
        finally:
            if engine in ("serve", "moto"):
                tables.close()


def _make_random() -> Random:
    """Return a generator with a new seed, which is printed so that a failure can be repeated."""
    seed = SystemRandom().randrange(2**32)
    print(f"seed {seed}")  # noqa: T201
    return Random(seed)


# --- the migration ------------------------------------------------------------------------------------------


@pytest.mark.proves("SM-44", "SM-X20")
@pytest.mark.parametrize("engine", ["file", "serve"])
async def test_readers_and_writers_continue_during_the_migration(engine: str) -> None:
    rows = 300 if engine == "file" else 60
    random = _make_random()

    async with _open_stores(engine) as stores:
        before = await fill_roster(stores, rows, random)
        resting, api = before[0], stores.for_component("api")
        writers = [
            Traffic(stores, name, Random(random.random()), before[start::2])
            for start, name in ((1, "day"), (2, "night"))
        ]
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for writer in writers:
                group.create_task(writer.run(stop))
            reading = group.create_task(keep_reading(api, stop, resting))
            await _wait_for_traffic(writers)
            report = await migrate(CREW_ROSTER_V2, stores, pace=PACE)
            await _wait_for_traffic(writers)
            stop.set()

        assert report.phase is Phase.SWITCHED
        assert reading.result() > 0
        await assert_arrived(stores, [resting, *(row for writer in writers for row in writer.rows.values())])
        assert (await remove_source(CREW_ROSTER_V2, stores)).phase is Phase.REMOVED
        assert await describe_table(stores, crew_roster) is None


async def test_conflicting_transactions_are_retried_without_errors() -> None:
    """On DynamoDB, many transactions conflict on the items of the fence and the lease."""
    random = _make_random()

    async with _open_stores("memory") as stores:
        before = await fill_roster(stores, 60, random)
        crowded = Stores(_ConflictingTables(stores.tables, random), system=SYSTEM)
        writer = Traffic(crowded, "day", Random(random.random()), before)
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(writer.run(stop))
            report = await migrate(CREW_ROSTER_V2, crowded, pace=PACE)
            await _wait_for_traffic([writer])
            stop.set()
        assert report.phase is Phase.SWITCHED
        await assert_arrived(stores, writer.rows.values())


class _ConflictingTables:
    """A tables engine in which a fifth of all transactions and writes conflict."""

    def __init__(self, tables: Tables, random: Random) -> None:
        self._tables, self._faults = tables, EngineFaults(conflicts=0.2, seed=random.randrange(2**32))

    async def run(self, operation: Operation[Any]) -> Any:
        self._faults.raise_for(operation)
        return await self._tables.run(operation)


@pytest.mark.proves("SM-44")
@pytest.mark.parametrize("engine", ENGINES)
async def test_writes_between_the_steps_arrive_on_every_engine(engine: str) -> None:
    random = _make_random()
    async with _open_stores(engine) as stores:
        pace = Pace(segments=1, batch_size=10, parallel_writes=1)
        writer = Traffic(stores, "day", random, await fill_roster(stores, 20, random))
        for step in MigrationStep:
            await migrate(CREW_ROSTER_V2, stores, until=step, pace=pace)
            for _ in range(10):
                await writer.step()
        await assert_arrived(stores, writer.rows.values())
        assert (await get_status(CREW_ROSTER_V2, stores)).followed > 0
        assert (await remove_source(CREW_ROSTER_V2, stores)).phase is Phase.REMOVED


async def _wait_for_traffic(writers: list[Traffic]) -> None:
    """Wait until every writer has made ten more changes."""
    goals = [writer.changes + 10 for writer in writers]
    while any(writer.changes < goal for writer, goal in zip(writers, goals, strict=True)):
        await asyncio.sleep(0.001)


@pytest.mark.proves("SM-44")
async def test_steps_run_in_order_and_readers_switch_last() -> None:
    async with _open_stores("memory") as stores:
        before = await fill_roster(stores, 50, Random(1))
        seen = []
        for step in MigrationStep:
            seen.append((await migrate(CREW_ROSTER_V2, stores, until=step, pace=PACE)).phase)
            assert await roster.is_roster_switched(stores) == (step is MigrationStep.SWITCH)
        report = await get_status(CREW_ROSTER_V2, stores)

        assert seen == [Phase.PREPARED, Phase.BACKFILLED, Phase.VERIFIED, Phase.SWITCHED]
        assert (report.rows, report.copied + report.passed_over, report.repaired) == (50, 50, 0)
        await assert_arrived(stores, before)


@pytest.mark.proves("SM-X19")
async def test_both_sectors_of_a_duty_are_kept_and_the_plan_warns() -> None:
    async with _open_stores("memory") as stores:
        first = make_assignment(RosterId("R-1"), Random(1))
        second = first.model_copy(update={"roster_id": "R-2", "flight_id": "other"})
        for row in (first, second):
            await stores.run(CrewAssignment.put(row))

        found = await plan_migration(CREW_ROSTER_V2, stores)
        assert (found.rows, found.collision_count, found.is_possible) == (2, 0, True)
        assert (found.plain_key, found.plain_key_lost) == ("crew_id, duty_start", 1)
        assert await describe_table(stores, crew_roster_v2) is None, "a plan writes nothing"
        await migrate(CREW_ROSTER_V2, stores, pace=PACE)
        await assert_arrived(stores, [first, second])


@pytest.mark.proves("SM-X19")
async def test_plan_finds_the_two_sector_duties_of_the_sample_and_all_rows_migrate() -> None:
    async with _open_stores("memory") as stores:
        await create_tables(stores, SYSTEM.tables)
        for each in build_crew_assignments(Block(0)):
            await stores.run(CrewAssignment.put(each))
        found = await plan_migration(CREW_ROSTER_V2, stores)

        assert found.is_possible
        assert found.plain_key_lost > 0
        assert (found.rows, found.target_rows) == (455, 0)
        report = await migrate(CREW_ROSTER_V2, stores)
        assert (report.rows, report.repaired) == (455, 0)


# --- refusals -----------------------------------------------------------------------------------------------


async def test_unreadable_row_stops_the_migration_before_any_write() -> None:
    async with _open_stores("memory") as stores:
        await fill_roster(stores, 3, Random(1))
        await stores.tables.run(PutItem("CrewRoster", {"roster_id": "R-bad", "crew_id": "1"}))

        with pytest.raises(DeclarationError, match="roster_id = R-bad of CrewAssignment cannot be moved"):
            await migrate(CREW_ROSTER_V2, stores, pace=PACE)
        assert await describe_table(stores, crew_roster_v2) is None
        assert (await get_status(CREW_ROSTER_V2, stores)).phase is None


async def test_old_table_cannot_be_removed_before_the_switch() -> None:
    async with _open_stores("memory") as stores:
        await fill_roster(stores, 3, Random(1))
        with pytest.raises(InvalidRequest, match="is still in use"):
            await remove_source(CREW_ROSTER_V2, stores)
        await migrate(CREW_ROSTER_V2, stores, until=MigrationStep.VERIFY, pace=PACE)
        with pytest.raises(InvalidRequest, match="is verified"):
            await remove_source(CREW_ROSTER_V2, stores)
        assert await describe_table(stores, crew_roster) is not None


async def test_write_past_the_fence_prevents_removing_the_old_table_unless_forced() -> None:
    async with _open_stores("memory") as stores:
        await fill_roster(stores, 3, Random(1))
        await migrate(CREW_ROSTER_V2, stores, pace=PACE)
        await stores.run(CrewAssignment.put(make_assignment(RosterId("R-stray"), Random(2))))

        with pytest.raises(Conflict, match="roster_id = R-stray"):
            await remove_source(CREW_ROSTER_V2, stores)
        assert await describe_table(stores, crew_roster) is not None
        assert (await remove_source(CREW_ROSTER_V2, stores, force=True)).phase is Phase.REMOVED


# --- the application ----------------------------------------------------------------------------------------


async def test_agent_reads_the_authoritative_roster_and_may_not_write() -> None:
    async with _open_stores("memory") as stores:
        [row] = await fill_roster(stores, 1, Random(1))
        agent = stores.for_component("agent")
        assert [each.roster_id for each in await queries.get_crew_rows(agent, row.flight_id)] == [
            row.roster_id
        ]
        await migrate(CREW_ROSTER_V2, stores, pace=PACE)

        assert await roster.is_roster_switched(agent)
        assert [type(each) for each in await queries.get_crew_rows(agent, row.flight_id)] == [CrewDuty]
        with pytest.raises(ComponentRefused):
            await roster.release(agent, row)


@pytest.mark.parametrize("is_switched", [False, True], ids=["old table", "new table"])
async def test_concurrent_change_is_a_conflict_in_both_tables(is_switched: bool) -> None:
    async with _open_stores("memory") as stores:
        [seen] = await fill_roster(stores, 1, Random(1))
        if is_switched:
            await migrate(CREW_ROSTER_V2, stores, pace=PACE)
        api = stores.for_component("api")
        await roster.change(api, seen, make_assignment(seen.roster_id, Random(2)))

        with pytest.raises(Conflict):
            await roster.change(api, seen, make_assignment(seen.roster_id, Random(3)))
        with pytest.raises(Conflict):
            await roster.release(api, seen)
        with pytest.raises(Conflict):
            await roster.assign(api, make_assignment(seen.roster_id, Random(2)))


async def test_import_into_the_old_table_is_refused_after_the_switch(tmp_path: Path) -> None:
    file = tmp_path / "crew.csv"
    file.write_text(
        "roster_id,crew_id,flight_id,position_id,duty_start,duty_end\n"
        "R-NEW,123,1,5,2026-01-30T04:00:00Z,2026-01-30T12:00:00Z\n"
    )
    async with _open_stores("memory") as stores:
        await migrate(CREW_ROSTER_V2, stores, pace=PACE)

        with pytest.raises(Conflict, match="moved to CrewRoster_v2"):
            await import_csv(stores, IMPORTS["CrewRoster"], file)
        assert await stores.run(CrewAssignment.of(RosterId("R-NEW")).get()) is None
        report = await import_csv(stores, IMPORTS["CrewRoster_v2"], file)
    assert (report.written, report.rejected) == (1, 0)
