"""A live table migration is killed in every step, under writes and reads, and resumed without loss."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random, SystemRandom

import pytest

from holdfast import Stores, create_tables
from holdfast.guarantees.table_migration import MIGRATIONS, MigrationStep, Phase, migrate, remove_source
from holdfast.stores.tables.embedded import open_tables
from skymarshal.model.entities import CrewAssignment, crew_roster
from skymarshal.model.roster import CREW_ROSTER_V2
from skymarshal.system import SYSTEM
from tests.systems.skymarshal.acceptance.roster_traffic import assert_arrived, fill_roster

from .migration_process import PACE

ROOT = Path(__file__).parents[3]
SOAK = os.environ.get("HOLDFAST_SOAK") == "1"
TIMES = 10 if SOAK else 1
ROWS = 500 if SOAK else 50
KILLS = 3 if SOAK else 2
MIN_CHANGES = 20

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
def test_migration_killed_in_any_step_resumes_without_loss(tmp_path: Path, step: MigrationStep | str) -> None:
    seed = SystemRandom().randrange(2**32)
    print(f"seed {seed}")  # noqa: T201
    random = Random(seed)
    for time in range(TIMES):
        path = tmp_path / f"{time}" / "tables.db"
        path.parent.mkdir()
        asyncio.run(create_rows(path, random))
        with run_traffic(path, random) as traffic:
            asyncio.run(run_earlier_steps(path, step))
            kills = [run_until_killed(path, step, random) for _ in range(KILLS)]
            acknowledged = asyncio.run(finish(path, step, traffic))
        asyncio.run(check_rows(path, acknowledged))
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
    command = [
        sys.executable,
        "-m",
        "tests.faults.guarantees.migration_process",
        str(path),
        "migrate",
        step,
        str(count),
        moment,
    ]
    ended = subprocess.run(command, cwd=ROOT, timeout=60, check=False, capture_output=True, text=True)
    assert ended.returncode in (0, -signal.SIGKILL), ended.stderr
    return ended.returncode != 0


async def finish(path: Path, step: MigrationStep | str, traffic: subprocess.Popen[str]) -> dict[str, object]:
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
def run_traffic(path: Path, random: Random) -> Iterator[subprocess.Popen[str]]:
    """Start a process that writes and reads the roster, yield it once it is ready, and kill it after the
    block.

    `path` is the tables file that it shares with the migration.
    """
    seed = str(random.randrange(2**32))
    command = [
        sys.executable,
        "-m",
        "tests.faults.guarantees.migration_process",
        str(path),
        "traffic",
        "day",
        seed,
    ]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        with process:
            pass


def stop_traffic(process: subprocess.Popen[str]) -> dict[str, object]:
    """Stop the traffic process and return the writes acknowledged to it.

    Fail if it has ended before, which it does at the first error that it sees.
    """
    assert process.poll() is None, "the writer or the reader has seen an error"
    said, _ = process.communicate("stop\n", timeout=60)
    assert process.returncode == 0
    acknowledged: dict[str, object] = json.loads(said)
    assert isinstance(acknowledged["changes"], int)
    assert acknowledged["changes"] >= MIN_CHANGES
    return acknowledged
