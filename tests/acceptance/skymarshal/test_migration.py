"""CrewRoster moves to CrewRoster_v2 while crew control goes on writing and readers go on reading."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random, SystemRandom
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from holdfast import Stores, create_tables, describe_table, import_csv
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
from holdfast.operations.tables import Operation
from holdfast.stores.tables.dynamodb import open_dynamodb
from holdfast.stores.tables.embedded import open_tables
from holdfast.stores.tables.embedded.faults import Faults
from holdfast.stores.tables.port import Tables
from holdfast.wire.server import running_server
from skymarshal.api.csv_imports import IMPORTS
from skymarshal.demo.sample.crew import build_crew_assignments
from skymarshal.demo.sample.schedule import Block
from skymarshal.model import patterns, queries, roster
from skymarshal.model.entities import CrewAssignment, CrewDuty, RosterId, crew_roster, crew_roster_v2
from skymarshal.model.roster import CREW_ROSTER_V2
from skymarshal.system import SYSTEM
from tests.acceptance.skymarshal.roster_traffic import (
    Traffic,
    assert_arrived,
    filled,
    read_on,
    some_assignment,
)

REGION = "us-east-1"
PACE = Pace(lease_seconds=5, segments=2, page_rows=20)
TABLES = (crew_roster, *(table for table in SYSTEM.tables if table.name in ("Flights", "Migrations")))


# --- the engines --------------------------------------------------------------------------------------------


@contextmanager
def _served() -> Iterator[Tables]:
    with open_tables() as behind, running_server(tables=behind) as url:
        yield open_dynamodb(endpoint=url, region=REGION)


@contextmanager
def _moto() -> Iterator[Tables]:
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield open_dynamodb(endpoint=f"http://{host}:{port}", region=REGION)
    finally:
        server.stop()


@contextmanager
def _file() -> Iterator[Tables]:
    with TemporaryDirectory() as folder, open_tables(Path(folder) / "tables.db") as tables:
        yield tables


ENGINES: dict[str, Callable[[], Any]] = {
    "memory": open_tables,
    "file": _file,
    "serve": _served,
    "moto": _moto,
}


@asynccontextmanager
async def _stores(engine: str) -> AsyncIterator[Stores]:
    with ENGINES[engine]() as tables:
        stores = Stores(tables, system=SYSTEM)
        await create_tables(stores, TABLES)
        try:
            yield stores
        finally:
            if engine in ("serve", "moto"):
                tables.close()


def _on(engine: str, story: Callable[[Stores], Awaitable[None]]) -> None:
    async def told() -> None:
        async with _stores(engine) as stores:
            await story(stores)

    asyncio.run(told())


def _random() -> Random:
    seed = SystemRandom().randrange(2**32)
    print(f"seed {seed}")  # noqa: T201
    return Random(seed)


# --- the migration ------------------------------------------------------------------------------------------


@pytest.mark.proves("SM-44")
@pytest.mark.proves("SM-X20")
@pytest.mark.parametrize("engine", ["memory", "file", "serve"])
def test_writers_and_readers_go_on_through_the_whole_migration_and_nothing_is_lost(engine: str) -> None:
    rows = 300 if engine in ("memory", "file") else 60
    random = _random()

    async def story(stores: Stores) -> None:
        before = await filled(stores, rows, random)
        resting, api = before[0], stores.for_component("api")
        writers = [
            Traffic(stores, name, Random(random.random()), before[start::2])
            for start, name in ((1, "day"), (2, "night"))
        ]
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for writer in writers:
                group.create_task(writer.go_on(stop))
            reading = group.create_task(read_on(api, stop, resting))
            await _some_traffic(writers)
            report = await migrate(CREW_ROSTER_V2, stores, pace=PACE)
            await _some_traffic(writers)
            stop.set()

        assert report.phase is Phase.SWITCHED
        assert reading.result() > 0
        await assert_arrived(stores, [resting, *(row for writer in writers for row in writer.there.values())])
        assert (await remove_source(CREW_ROSTER_V2, stores)).phase is Phase.REMOVED
        assert await describe_table(stores, crew_roster) is None

    _on(engine, story)


def test_transactions_that_get_in_each_others_way_are_repeated_and_nobody_sees_an_error() -> None:
    """As on DynamoDB, where the fence and the lease are items that many transactions meet on."""
    random = _random()

    async def story(stores: Stores) -> None:
        before = await filled(stores, 60, random)
        crowded = Stores(_Crowded(stores.tables, random), system=SYSTEM)
        writer = Traffic(crowded, "day", Random(random.random()), before)
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(writer.go_on(stop))
            report = await migrate(CREW_ROSTER_V2, crowded, pace=PACE)
            await _some_traffic([writer])
            stop.set()
        assert report.phase is Phase.SWITCHED
        await assert_arrived(stores, writer.there.values())

    _on("file", story)


class _Crowded:
    """A store where a fifth of all transactions and writes meet another transaction."""

    def __init__(self, tables: Tables, random: Random) -> None:
        self._tables, self._faults = tables, Faults(conflicts=0.2, seed=random.randrange(2**32))

    async def run(self, operation: Operation[Any]) -> Any:
        self._faults.raise_for(operation)
        return await self._tables.run(operation)


@pytest.mark.proves("SM-44")
@pytest.mark.parametrize("engine", ENGINES)
def test_what_is_written_between_the_steps_arrives_on_every_engine(engine: str) -> None:
    """One request at a time: the transactions of moto fail when there are two."""
    random = _random()

    async def story(stores: Stores) -> None:
        pace = Pace(segments=1, page_rows=10, parallel_writes=1)
        writer = Traffic(stores, "day", random, await filled(stores, 20, random))
        for step in MigrationStep:
            await migrate(CREW_ROSTER_V2, stores, until=step, pace=pace)
            for _ in range(10):
                await writer.step()
        await assert_arrived(stores, writer.there.values())
        assert (await get_status(CREW_ROSTER_V2, stores)).followed > 0
        assert (await remove_source(CREW_ROSTER_V2, stores)).phase is Phase.REMOVED

    _on(engine, story)


async def _some_traffic(writers: list[Traffic]) -> None:
    goals = [writer.changes + 10 for writer in writers]
    while any(writer.changes < goal for writer, goal in zip(writers, goals, strict=True)):
        await asyncio.sleep(0.001)


@pytest.mark.proves("SM-44")
def test_the_steps_are_taken_one_by_one_and_readers_are_switched_last() -> None:
    async def story(stores: Stores) -> None:
        before = await filled(stores, 50, Random(1))
        seen = []
        for step in MigrationStep:
            seen.append((await migrate(CREW_ROSTER_V2, stores, until=step, pace=PACE)).phase)
            assert await roster.is_roster_switched(stores) == (step is MigrationStep.SWITCH)
        report = await get_status(CREW_ROSTER_V2, stores)

        assert seen == [Phase.PREPARED, Phase.BACKFILLED, Phase.VERIFIED, Phase.SWITCHED]
        assert (report.rows, report.copied + report.passed_over, report.repaired) == (50, 50, 0)
        await assert_arrived(stores, before)

    _on("memory", story)


@pytest.mark.proves("SM-43")
def test_all_duties_of_crew_123_in_january_2026_are_one_query_of_the_new_table() -> None:
    async def story(stores: Stores) -> None:
        january = [datetime(2026, 1, day, hour, tzinfo=UTC) for day, hour in ((1, 0), (15, 6), (31, 23))]
        outside = [datetime(2025, 12, 31, 23, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC)]
        for number, start in enumerate([*january, *outside]):
            times = {"crew_id": "123", "duty_start": start, "duty_end": start + timedelta(hours=8)}
            row = some_assignment(RosterId(f"R-{number}"), Random(1)).model_copy(update=times)
            await stores.run(CrewAssignment.put(row))
        await migrate(CREW_ROSTER_V2, stores, pace=PACE)

        with stores.meter_usage() as meter:
            page = await stores.run(
                patterns.duties_of_crew(
                    "123",  # type: ignore[arg-type]
                    datetime(2026, 1, 1, tzinfo=UTC),
                    datetime(2026, 1, 31, 23, 59, 59, tzinfo=UTC),
                )
            )
        assert [duty.duty_start for duty in page] == january
        assert page.cursor is None
        assert [(usage.operation, usage.items_read) for usage in meter.usages] == [("Query", 3)]

    _on("memory", story)


@pytest.mark.proves("SM-X19")
def test_two_sectors_of_one_duty_are_both_kept_and_the_plan_tells_what_the_documents_key_would_lose() -> None:
    async def story(stores: Stores) -> None:
        first = some_assignment(RosterId("R-1"), Random(1))
        second = first.model_copy(update={"roster_id": "R-2", "flight_id": "other"})
        for row in (first, second):
            await stores.run(CrewAssignment.put(row))

        found = await plan_migration(CREW_ROSTER_V2, stores)
        assert (found.rows, found.collision_count, found.is_possible) == (2, 0, True)
        assert (found.plain_key, found.plain_key_lost) == ("crew_id, duty_start", 1)
        assert await describe_table(stores, crew_roster_v2) is None, "a plan writes nothing"
        await migrate(CREW_ROSTER_V2, stores, pace=PACE)
        await assert_arrived(stores, [first, second])

    _on("memory", story)


@pytest.mark.proves("SM-X19")
def test_the_sample_has_such_duties() -> None:
    async def story(stores: Stores) -> None:
        await create_tables(stores, SYSTEM.tables)
        for each in build_crew_assignments(Block(0)):
            await stores.run(CrewAssignment.put(each))
        found = await plan_migration(CREW_ROSTER_V2, stores)

        assert found.is_possible
        assert found.plain_key_lost > 0
        assert (found.rows, found.target_rows) == (455, 0)
        report = await migrate(CREW_ROSTER_V2, stores)
        assert (report.rows, report.repaired) == (455, 0)

    _on("memory", story)


# --- what is refused ----------------------------------------------------------------------------------------


def test_a_row_that_cannot_be_read_stops_the_migration_before_anything_is_written() -> None:
    async def story(stores: Stores) -> None:
        from holdfast.operations.tables import PutItem

        await filled(stores, 3, Random(1))
        await stores.tables.run(PutItem("CrewRoster", {"roster_id": "R-bad", "crew_id": "1"}))

        with pytest.raises(DeclarationError, match="roster_id = R-bad of CrewAssignment cannot be moved"):
            await migrate(CREW_ROSTER_V2, stores, pace=PACE)
        assert await describe_table(stores, crew_roster_v2) is None
        assert (await get_status(CREW_ROSTER_V2, stores)).phase is None

    _on("memory", story)


def test_the_old_table_is_not_removed_before_the_switch() -> None:
    async def story(stores: Stores) -> None:
        await filled(stores, 3, Random(1))
        with pytest.raises(InvalidRequest, match="is still in use"):
            await remove_source(CREW_ROSTER_V2, stores)
        await migrate(CREW_ROSTER_V2, stores, until=MigrationStep.VERIFY, pace=PACE)
        with pytest.raises(InvalidRequest, match="is verified"):
            await remove_source(CREW_ROSTER_V2, stores)
        assert await describe_table(stores, crew_roster) is not None

    _on("memory", story)


def test_a_write_past_the_fence_keeps_the_old_table_from_being_removed() -> None:
    async def story(stores: Stores) -> None:
        await filled(stores, 3, Random(1))
        await migrate(CREW_ROSTER_V2, stores, pace=PACE)
        await stores.run(CrewAssignment.put(some_assignment(RosterId("R-stray"), Random(2))))

        with pytest.raises(Conflict, match="roster_id = R-stray"):
            await remove_source(CREW_ROSTER_V2, stores)
        assert await describe_table(stores, crew_roster) is not None
        assert (await remove_source(CREW_ROSTER_V2, stores, force=True)).phase is Phase.REMOVED

    _on("memory", story)


# --- what the application sees ------------------------------------------------------------------------------


def test_an_agent_may_ask_which_roster_to_read_and_may_not_write() -> None:
    async def story(stores: Stores) -> None:
        [row] = await filled(stores, 1, Random(1))
        agent = stores.for_component("agent")
        assert [each.roster_id for each in await queries.get_crew_rows(agent, row.flight_id)] == [
            row.roster_id
        ]
        await migrate(CREW_ROSTER_V2, stores, pace=PACE)

        assert await roster.is_roster_switched(agent)
        assert [type(each) for each in await queries.get_crew_rows(agent, row.flight_id)] == [CrewDuty]
        with pytest.raises(ComponentRefused):
            await roster.release(agent, row)

    _on("memory", story)


@pytest.mark.parametrize("is_switched", [False, True], ids=["old table", "new table"])
def test_a_change_of_what_somebody_else_changed_is_a_conflict_in_both_tables(is_switched: bool) -> None:
    async def story(stores: Stores) -> None:
        [seen] = await filled(stores, 1, Random(1))
        if is_switched:
            await migrate(CREW_ROSTER_V2, stores, pace=PACE)
        api = stores.for_component("api")
        await roster.change(api, seen, some_assignment(seen.roster_id, Random(2)))

        with pytest.raises(Conflict):
            await roster.change(api, seen, some_assignment(seen.roster_id, Random(3)))
        with pytest.raises(Conflict):
            await roster.release(api, seen)
        with pytest.raises(Conflict):
            await roster.assign(api, some_assignment(seen.roster_id, Random(2)))

    _on("memory", story)


def test_a_file_for_the_old_table_is_refused_after_the_switch(small_stores: Stores, tmp_path: Path) -> None:
    file = tmp_path / "crew.csv"
    file.write_text(
        "roster_id,crew_id,flight_id,position_id,duty_start,duty_end\n"
        "R-NEW,123,1,5,2026-01-30T04:00:00Z,2026-01-30T12:00:00Z\n"
    )
    asyncio.run(migrate(CREW_ROSTER_V2, small_stores, pace=PACE))

    with pytest.raises(Conflict, match="moved to CrewRoster_v2"):
        asyncio.run(import_csv(small_stores, IMPORTS["CrewRoster"], file))
    assert asyncio.run(small_stores.run(CrewAssignment.of(RosterId("R-NEW")).get())) is None

    report = asyncio.run(import_csv(small_stores, IMPORTS["CrewRoster_v2"], file))
    assert (report.written, report.rejected) == (1, 0)
