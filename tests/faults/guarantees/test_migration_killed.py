"""A live table migration is killed in every step, under writes and reads, and resumed without loss."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random, SystemRandom

import pytest

from holdfast import Stores
from holdfast.guarantees.table_migration import MIGRATIONS, MigrationStep, Phase, migrate, remove_source
from holdfast.runtime import create_tables
from holdfast.stores.tables.embedded import open_tables
from skymarshal.model.entities import CrewAssignment, crew_roster
from skymarshal.model.roster import CREW_ROSTER_V2
from skymarshal.system import SYSTEM
from tests.processes import Process, preload
from tests.systems.skymarshal.acceptance.roster_traffic import assert_arrived, fill_roster

from .migration_process import PACE

SOAK = os.environ.get("HOLDFAST_SOAK") == "1"
TIMES = 10 if SOAK else 1
ROWS = 500 if SOAK else 50
KILLS = 3 if SOAK else 2
MIN_CHANGES = 20
PROCESS = "tests.faults.guarantees.migration_process"

preload(PROCESS)

STEPS = (*MigrationStep, "remove")
# About as many requests as each step makes with these rows: with more, it ends before it is killed.
REQUESTS = {
    MigrationStep.PREPARE: 25,
    MigrationStep.BACKFILL: ROWS,
    MigrationStep.VERIFY: 40,
    MigrationStep.SWITCH: 30,
    "remove": 12,
}


@pytest.mark.proves("SM-44")
@pytest.mark.proves("SM-X20")
@pytest.mark.parametrize("step", STEPS)
async def test_migration_killed_in_any_step_resumes_without_loss(
    tmp_path: Path, step: MigrationStep | str
) -> None:
    seed = SystemRandom().randrange(2**32)
    print(f"seed {seed}")  # noqa: T201
    random = Random(seed)
    for time in range(TIMES):
        path = tmp_path / f"{time}" / "tables.db"
        path.parent.mkdir()
        await create_rows(path, random)
        with run_traffic(path, random) as traffic:
            await run_earlier_steps(path, step)
            kills = [run_until_killed(path, step, random) for _ in range(KILLS)]
            acknowledged = await finish(path, step, traffic)
        await check_rows(path, acknowledged)
        print(f"killed {kills.count(True)} of {len(kills)} times")  # noqa: T201


async def create_rows(path: Path, random: Random) -> None:
    """Create the tables and fill the roster."""
    with open_tables(path) as tables:
        stores = Stores(tables, system=SYSTEM)
        await create_tables(stores, [crew_roster, MIGRATIONS])
        await fill_roster(stores, ROWS, random)


async def run_earlier_steps(path: Path, step: MigrationStep | str) -> None:
    """Run the steps before the one to be killed in."""
    before = STEPS.index(step) - 1
    if before >= 0:
        with open_tables(path) as tables:
            await migrate(
                CREW_ROSTER_V2, Stores(tables, system=SYSTEM), until=MigrationStep(STEPS[before]), pace=PACE
            )


def run_until_killed(path: Path, step: MigrationStep | str, random: Random) -> bool:
    """Run the step in a process that kills itself at a random request.

    Return True if it was killed; False if it had less to do and ended by itself.
    """
    count, moment = random.randrange(1, REQUESTS[step]), random.choice(["before", "after"])
    with Process(PROCESS, path, "migrate", step, count, moment) as process:
        assert process.wait() == 0 or process.is_killed, process.read_log()
        return process.is_killed


async def finish(path: Path, step: MigrationStep | str, traffic: Process) -> dict[str, object]:
    """Complete the migration, stop the traffic, remove the source, and return the acknowledged writes."""
    with open_tables(path) as tables:
        stores = Stores(tables, system=SYSTEM)
        assert (await migrate(CREW_ROSTER_V2, stores, pace=PACE)).phase in (Phase.SWITCHED, Phase.REMOVED)
        acknowledged = await asyncio.to_thread(stop_traffic, traffic)
        assert (await remove_source(CREW_ROSTER_V2, stores, pace=PACE)).phase is Phase.REMOVED
    return acknowledged


async def check_rows(path: Path, acknowledged: dict[str, object]) -> None:
    """Check that the new table has every acknowledged row."""
    there = acknowledged["there"]
    assert isinstance(there, list)
    with open_tables(path) as tables:
        await assert_arrived(
            Stores(tables, system=SYSTEM), [CrewAssignment.model_validate(each) for each in there]
        )


@contextmanager
def run_traffic(path: Path, random: Random) -> Iterator[Process]:
    """Start a process that writes and reads the roster, yield it once it is ready, and kill it after the
    block.

    `path` is the tables file that it shares with the migration.
    """
    with Process(PROCESS, path, "traffic", "day", random.randrange(2**32)) as process:
        assert process.read_first_line() == "ready\n", process.read_log()
        yield process


def stop_traffic(process: Process) -> dict[str, object]:
    """Stop the traffic process and return the writes acknowledged to it.

    Fail if it has ended before, which it does at the first error that it sees.
    """
    assert process.is_alive, f"the writer or the reader has seen an error: {process.read_log()}"
    said, log = process.communicate("stop\n")
    assert process.returncode == 0, log
    acknowledged: dict[str, object] = json.loads(said)
    assert isinstance(acknowledged["changes"], int)
    assert acknowledged["changes"] >= MIN_CHANGES
    return acknowledged
