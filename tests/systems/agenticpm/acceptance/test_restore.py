"""Acceptance tests of restores of the embedded table: by time or backup, to a new table or in place."""

from __future__ import annotations

import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agenticpm.model.entities import table
from agenticpm.system import SYSTEM
from holdfast import Stores, open_stores
from holdfast.config.settings import Settings
from holdfast.core.clock import RunClock
from holdfast.core.errors import InvalidRestoreTime
from holdfast.operations import tables as requests
from holdfast.operations.tables import BackupName
from holdfast.operations.values import Item
from holdfast.runtime import create_backup, get_recovery_window, restore_in_place, restore_table
from holdfast.stores.tables.embedded import EmbeddedTables
from holdfast_demo.agenticpm.sample import load_sample
from tests.processes import Process, preload

START = 1_770_166_815.0  # 2026-02-04T01:00:15Z
DAY = 86400
LIVE = "AgenticPM-dev"
RESTORED = "AgenticPM-dev-2"
KILLED_RESTORE = "tests.systems.agenticpm.acceptance.killed_restore"
Items = dict[tuple[str, str], Item]

preload(KILLED_RESTORE, "holdfast.cli.commands.restore", "holdfast.cli.commands.backup", "agenticpm.system")


@pytest.fixture
def clock(tmp_path: Path) -> RunClock:
    return RunClock(tmp_path / "clock", start=START)


@asynccontextmanager
async def open_table_stores(folder: Path) -> AsyncIterator[Stores]:
    """Open the stores in the folder, with the clock file as their clock."""
    settings = Settings(environment="dev", run_clock="clock", base=folder)
    async with open_stores(SYSTEM, settings) as stores:
        yield stores


async def scan_table(stores: Stores, name: str = LIVE) -> Items:
    """Return every item of a table by key."""
    found: Items = {}
    start: Item | None = None
    while True:
        page = await stores.tables.run(requests.Scan(name, start_key=start, consistent=True))
        found |= {(str(item["PK"]), str(item["SK"])): item for item in page.items or ()}
        start = page.last_key
        if start is None:
            return found


async def damage(stores: Stores, items: Items) -> Items:
    """Delete every second item, change every fifth of the others, and add a hundred. Return all items."""
    for number, ((pk, sk), item) in enumerate(sorted(items.items())):
        if number % 2:
            await stores.tables.run(requests.DeleteItem(LIVE, {"PK": pk, "SK": sk}))
        elif number % 10 == 0:
            await stores.tables.run(requests.PutItem(LIVE, item | {"damaged": True}))
    for number in range(100):
        stray: Item = {
            "PK": f"STRAY#{number % 7}",
            "SK": f"{number:03}",
            "GSI1PK": "STRAY",
            "GSI1SK": str(number),
        }
        await stores.tables.run(requests.PutItem(LIVE, stray))
    return await scan_table(stores)


async def fill_and_damage(stores: Stores, clock: RunClock) -> tuple[Items, float]:
    """Fill and damage the table. Return its earlier items and a second between both."""
    await load_sample(stores, scale=0.3)
    before = await scan_table(stores)
    assert len(before) > 500
    second = clock.advance(5)
    clock.advance(1)
    after = await damage(stores, before)
    assert after != before
    clock.advance(5)
    return before, second


async def list_tables(stores: Stores) -> tuple[str, ...]:
    return tuple((await stores.tables.run(requests.ListTables())).names)


def make_sweeping_progress(stores: Stores) -> Any:
    """Return a progress callback that runs the tables' background work at once instead of within a second."""
    tables = stores.tables
    assert isinstance(tables, EmbeddedTables)
    return lambda what, done, total: tables.sweep()


@pytest.mark.proves("AP-58")
async def test_restores_every_item_to_the_second_into_a_new_table(tmp_path: Path, clock: RunClock) -> None:
    async with open_table_stores(tmp_path) as stores:
        before, second = await fill_and_damage(stores, clock)
        damaged = await scan_table(stores)
        made = await restore_table(stores, LIVE, RESTORED, second, progress=make_sweeping_progress(stores))
        assert await scan_table(stores, RESTORED) == before
        assert await scan_table(stores) == damaged
        assert [each.name for each in made.definition.global_indexes] == ["GSI1"]
        through = requests.Scan(RESTORED, index="GSI1", select="COUNT")
        indexed = sum("GSI1PK" in item for item in before.values())
        assert (await stores.tables.run(through)).count == indexed > 0


@pytest.mark.proves("AP-58")
async def test_restores_every_item_to_the_second_in_place(tmp_path: Path, clock: RunClock) -> None:
    async with open_table_stores(tmp_path) as stores:
        before, second = await fill_and_damage(stores, clock)
        done = await restore_in_place(stores, LIVE, second, progress=make_sweeping_progress(stores))
        assert done.missing == len(before) // 2
        assert done.different == sum(number % 10 == 0 for number in range(len(before)))
        assert done.deleted == 100
        assert done.unchanged == len(before) - done.restored
        assert await list_tables(stores) == (LIVE,)
    # The restore is on disk and not only in the process that made it.
    async with open_table_stores(tmp_path) as stores:
        assert await scan_table(stores) == before


@pytest.mark.proves("AP-58")
async def test_restores_every_item_from_an_on_demand_backup(tmp_path: Path, clock: RunClock) -> None:
    async with open_table_stores(tmp_path) as stores:
        await load_sample(stores, scale=0.3)
        before = await scan_table(stores)
        made = await create_backup(stores, LIVE, "before", progress=make_sweeping_progress(stores))
        # A backup outlives the recovery window.
        clock.advance(40 * DAY)
        await damage(stores, await scan_table(stores))
        backup = BackupName(LIVE, made.id)
        await restore_table(stores, LIVE, RESTORED, backup, progress=make_sweeping_progress(stores))
        assert await scan_table(stores, RESTORED) == before


@pytest.mark.proves("AP-58")
async def test_recovery_window_is_35_days_to_the_second(tmp_path: Path, clock: RunClock) -> None:
    async with open_table_stores(tmp_path) as stores:
        await load_sample(stores, scale=0.1)
        before = await scan_table(stores)
        second = clock.advance(10)
        clock.advance(1)
        after = await damage(stores, before)
        clock.advance(35 * DAY - 1)
        assert (await get_recovery_window(stores, LIVE)).earliest == second
        await restore_table(stores, LIVE, RESTORED, second, progress=make_sweeping_progress(stores))
        assert await scan_table(stores, RESTORED) == before

        clock.advance(1)
        with pytest.raises(
            InvalidRestoreTime, match=r"expected a time from 2026-02-04T01:00:26Z to 2026-03-11T01:00:26Z"
        ):
            await restore_table(stores, LIVE, f"{RESTORED}b", second)
        await restore_table(stores, LIVE, f"{RESTORED}c", second + 1, progress=make_sweeping_progress(stores))
        assert await scan_table(stores, f"{RESTORED}c") == after


VARIABLES = {"HOLDFAST_ENVIRONMENT": "dev", "HOLDFAST_RUN_CLOCK": "clock"}


def run_command(folder: Path, *arguments: str) -> str:
    """Run `holdfast` with these arguments in its own process and return its output."""
    process = Process("tests.processes", *arguments, folder=folder, variables=VARIABLES)
    said, log = process.communicate()
    assert process.returncode == 0, log
    return said


async def prepare_folder(folder: Path, clock: RunClock) -> Items:
    """Fill and damage a table in the folder. Return its items before the damage, at START + 5 seconds."""

    async with open_table_stores(folder) as stores:
        before, second = await fill_and_damage(stores, clock)
        assert second == START + 5
        return before


async def scan_folder(folder: Path, name: str = LIVE) -> Items:
    """Open the stores in the folder and return every item of a table."""

    async with open_table_stores(folder) as stores:
        return await scan_table(stores, name)


@pytest.mark.proves("AP-58")
async def test_command_restores_into_a_new_table_and_in_place(tmp_path: Path, clock: RunClock) -> None:
    before = await prepare_folder(tmp_path, clock)

    restored = run_command(
        tmp_path, "restore", table.name, "--at", "2026-02-04T01:00:20Z", "--into", RESTORED, "--json"
    )
    assert json.loads(restored)["items"] == len(before)
    assert await scan_folder(tmp_path, RESTORED) == before

    in_place = run_command(tmp_path, "restore", "agenticpm", "--at", "-6s", "--in-place", "--yes", "--json")
    done = json.loads(in_place)
    assert (done["at"], done["deleted"], done["contended"]) == ("2026-02-04T01:00:20Z", 100, 0)
    assert done["restored"] + done["unchanged"] == len(before)
    assert await scan_folder(tmp_path) == before


@pytest.mark.proves("AP-58")
async def test_the_command_backs_up_and_restores_from_the_backup(tmp_path: Path, clock: RunClock) -> None:
    await prepare_folder(tmp_path, clock)
    damaged = await scan_folder(tmp_path)

    (backup,) = json.loads(run_command(tmp_path, "backup", "agenticpm", "--name", "as-it-is", "--json"))
    clock.advance(5)
    run_command(tmp_path, "restore", table.name, "--at", "2026-02-04T01:00:20Z", "--in-place", "--yes")
    assert await scan_folder(tmp_path) != damaged
    run_command(tmp_path, "restore", table.name, "--from-backup", backup["backup"], "--in-place", "--yes")
    assert await scan_folder(tmp_path) == damaged


@pytest.mark.proves("AP-58")
async def test_killed_in_place_restore_can_be_resumed(tmp_path: Path, clock: RunClock) -> None:
    """Kill the process after some writes: the second run finds the restored items unchanged."""
    before = await prepare_folder(tmp_path, clock)
    arguments = ("restore", table.name, "--at", "2026-02-04T01:00:20Z", "--in-place", "--yes", "--json")

    with Process(KILLED_RESTORE, *arguments, folder=tmp_path, variables=VARIABLES) as killed:
        assert killed.wait() == -signal.SIGKILL, killed.read_log()
    halfway = await scan_folder(tmp_path)
    assert halfway != before
    clock.advance(5)
    again = run_command(tmp_path, *arguments)

    kept = sum(before.get(key) == item for key, item in halfway.items())
    assert json.loads(again)["unchanged"] == kept > 0
    assert await scan_folder(tmp_path) == before
