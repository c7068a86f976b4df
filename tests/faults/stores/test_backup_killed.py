"""Backups of a folder in use: each restores to a moment that was, and one that is killed leaves none."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random, SystemRandom
from typing import Any

from tests.postgres import new_folder
from tests.processes import Process, preload

from .backup_process import NEVER
from .parcels import Depot, check_consistency

SOAK = os.environ.get("HOLDFAST_SOAK") == "1"
ROUNDS = 10 if SOAK else 2
FIRST_PARCELS = 2000 if SOAK else 20
PROCESS = "tests.faults.stores.backup_process"

preload(PROCESS)


async def test_backups_under_load_and_kills_restore_to_a_consistent_moment() -> None:
    """Without kills, a backup restores to a moment; killed, it leaves nothing that looks like one."""
    seed = SystemRandom().randrange(2**32)
    print(f"seed {seed}")  # noqa: T201
    random = Random(seed)
    with new_folder() as folder:
        await create_depot(folder / "data")
        with run_load(folder / "data"):
            steps = run("backup", folder / "data", folder / "first", NEVER)
            await check_backup(folder / "first", folder / "restored-first")
            for number in range(ROUNDS):
                target = folder / f"backup-{number}"
                kill("backup", folder / "data", target, random.randrange(1, steps))
                assert not target.exists()
                run("backup", folder / "data", target, NEVER)
                await check_restores(target, folder / f"restored-{number}", random)
        await compare_at_rest(folder)


async def create_depot(data: Path) -> None:
    depot = Depot(data, with_sql=SOAK)
    await depot.create()
    for number in range(FIRST_PARCELS):
        await depot.send(f"first-{number}")
    await depot.close()


@contextmanager
def run_load(data: Path) -> Iterator[None]:
    """Run two senders and a receiver for the time of the context; they end by being killed."""
    with ExitStack() as stack:
        senders = [stack.enter_context(Process(PROCESS, "send", data, name, SOAK)) for name in ("a", "b")]
        stack.enter_context(Process(PROCESS, "receive", data, SOAK))
        for sender in senders:
            assert sender.read_first_line() == "ready\n", sender.read_log()
        yield


def run(role: str, data: Path, other: Path, kill_at: int) -> int:
    """Run a backup or a restore to its end, and return the number of its steps."""
    with Process(PROCESS, role, data, other, kill_at) as process:
        output, log = process.communicate()
        assert output, log
        return int(output)


def kill(role: str, data: Path, other: Path, kill_at: int) -> None:
    """Run a backup or a restore until it kills itself at this step, if it has so many."""
    with Process(PROCESS, role, data, other, kill_at) as process:
        process.wait(600)
        assert process.is_killed, process.read_log()


async def check_restores(backup: Path, target: Path, random: Random) -> None:
    """Check that a killed restore leaves no folder, and that the next one restores to a moment."""
    kill("restore", target, backup, random.randrange(1, 20))
    assert not target.exists()
    await check_backup(backup, target)


async def check_backup(backup: Path, target: Path) -> None:
    run("restore", target, backup, NEVER)
    check_consistency(await read_all(target))


async def compare_at_rest(folder: Path) -> None:
    """Check that a backup of a folder at rest has everything, and nothing else."""
    run("backup", folder / "data", folder / "last", NEVER)
    run("restore", folder / "restored-last", folder / "last", NEVER)

    restored = await read_all(folder / "restored-last")
    assert restored == await read_all(folder / "data")
    check_consistency(restored)


async def read_all(data: Path) -> dict[str, Any]:
    depot = Depot(data, with_sql=SOAK)
    try:
        return await depot.read_all()
    finally:
        await depot.close()
