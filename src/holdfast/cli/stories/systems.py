"""The stories of the systems: each on stores of its own, with its sample data, so that nothing of yours is touched.

All stores are in folders that are gone afterwards, and names of a system that needs an environment say `demo`. A story
that takes an argument `clock` gets the run clock of its stores: it moves the long waits forward. One that takes `folder`
is told where everything is, to look into the files; one that takes `variables`, what another process must find in its
environment to open the same stores, but for a PostgreSQL of its own.
"""

from __future__ import annotations

import asyncio
import inspect
import tempfile
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from holdfast.clock import SYSTEM_CLOCK, RunClock
from holdfast.errors import NotFound
from holdfast.model import System
from holdfast.runtime import Stores, metered, open_stores, prepare
from holdfast.settings import (
    FILE_SCHEME,
    QUEUES_FILE_NAME,
    SQLITE_SCHEME,
    TABLES_FILE_NAME,
    TEMPORARY_SQL,
    Settings,
)

ENVIRONMENT: Final = "demo"
CLOCK_FILE_NAME: Final = "clock"
OPENED_BY: Final = ("tables", "queues", "objects", "sql", "keys", "run_clock", "environment")


def tell(system: System, console: Console) -> None:
    """Runs one system's story, in a folder that is gone afterwards."""
    if system.story is None:
        raise NotFound(f"{system.name} has no story to tell.")
    with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as folder:
        asyncio.run(_tell(system, Path(folder), console))


def story_settings(system: System, folder: Path) -> Settings:
    """Every store in one folder."""
    clock = ""
    if _takes(system, "clock"):
        clock = str(folder / CLOCK_FILE_NAME)
        RunClock(Path(clock), start=SYSTEM_CLOCK.now())
    return Settings(
        tables=f"{SQLITE_SCHEME}{folder / TABLES_FILE_NAME}",
        queues=f"{SQLITE_SCHEME}{folder / QUEUES_FILE_NAME}",
        objects=f"{FILE_SCHEME}{folder / 'objects'}",
        # One that is gone with this process, and waits for no disk.
        sql=TEMPORARY_SQL,
        keys=f"{FILE_SCHEME}{folder / 'keys.json'}",
        run_clock=clock,
        # A system that names its data by environment has one here too; others keep the names of their documents.
        environment=ENVIRONMENT if system.needs_environment else "",
    )


def _takes(system: System, name: str) -> bool:
    return system.story is not None and name in inspect.signature(system.story).parameters


async def _tell(system: System, folder: Path, console: Console) -> None:
    settings = story_settings(system, folder)
    async with open_stores(system, settings) as stores:
        await prepare(stores, system)
        await fill(system, stores, console)
        offered: dict[str, Any] = {
            "clock": stores.clock,
            "folder": folder,
            "variables": {f"HOLDFAST_{name.upper()}": str(getattr(settings, name)) for name in OPENED_BY},
        }
        more = {name: value for name, value in offered.items() if _takes(system, name)}
        with metered() as meter:
            assert system.story is not None
            await system.story(stores, console, **more)
        console.print(
            f"[dim]The story took {len(meter.usages):,} requests, {meter.units.read:,.1f} read units and "
            f"{meter.units.write:,.1f} write units.[/]"
        )


async def fill(system: System, stores: Stores, console: Console, scale: float = 1) -> int:
    """Writes the sample data, with a progress bar, and says how many rows that were."""
    if system.sample is None:
        return 0
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(f"Sample data of {system.title or system.name}", total=None)

        def told(what: str, done: int, total: int) -> None:
            progress.update(task, description=what, completed=done, total=total)

        rows = await system.sample(stores, scale=scale, progress=told)
    return int(rows)
