"""Run the story of a system on temporary stores with sample data, without touching data of the user.

All stores are in temporary folders. A system that needs an environment runs in `demo`. A story receives what
its parameters ask for: `clock`, the run clock of its stores, to move long waits forward; `folder`, the folder
with all files; `variables`, the environment variables with which another process opens the same stores,
except a PostgreSQL server of its own.
"""

from __future__ import annotations

import asyncio
import inspect
import tempfile
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from holdfast.cli.extras import describe_missing_demo
from holdfast.config.settings import (
    FILE_SCHEME,
    QUEUES_FILE_NAME,
    SQLITE_SCHEME,
    TABLES_FILE_NAME,
    TEMPORARY_SQL,
    Settings,
)
from holdfast.core.clock import SYSTEM_CLOCK, RunClock
from holdfast.core.errors import NotFound
from holdfast.model.demo import find_demo
from holdfast.model.system import System
from holdfast.runtime import Stores, meter_usage, open_stores, provision

ENVIRONMENT: Final = "demo"
CLOCK_FILE_NAME: Final = "clock"
STORE_SETTINGS: Final = ("tables", "queues", "objects", "sql", "keys", "run_clock", "environment")


def run_story(system: System, console: Console) -> None:
    """Run one system's story in a temporary folder and print the units it used. Raise `NotFound` if it has
    none.
    """
    if find_demo(system).story is None:
        raise NotFound(f"{system.name} has no story: {describe_missing_demo(system)}")
    with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as folder:
        asyncio.run(_run_story(system, Path(folder), console))


def build_story_settings(system: System, folder: Path) -> Settings:
    """Return settings that keep the stores in one folder, and SQL in a temporary server.

    Start a run clock there if the story has a parameter `clock`.
    """
    clock = ""
    if _has_parameter(system, "clock"):
        clock = str(folder / CLOCK_FILE_NAME)
        RunClock(Path(clock), start=SYSTEM_CLOCK.now())
    return Settings(
        tables=f"{SQLITE_SCHEME}{folder / TABLES_FILE_NAME}",
        queues=f"{SQLITE_SCHEME}{folder / QUEUES_FILE_NAME}",
        objects=f"{FILE_SCHEME}{folder / 'objects'}",
        # It ends with this process and does not wait for the disk.
        sql=TEMPORARY_SQL,
        keys=f"{FILE_SCHEME}{folder / 'keys.json'}",
        run_clock=clock,
        # Other systems keep the table names of their documents.
        environment=ENVIRONMENT if system.deployment.needs_environment else "",
    )


def _has_parameter(system: System, name: str) -> bool:
    """Return True if the system's story function has a parameter of this name."""
    story = find_demo(system).story
    return story is not None and name in inspect.signature(story).parameters


async def _run_story(system: System, folder: Path, console: Console) -> None:
    """Provision temporary stores, write the sample, run the story, and print the units it used."""
    settings = build_story_settings(system, folder)
    async with open_stores(system, settings) as stores:
        await provision(stores, system)
        await write_sample(system, stores, console)
        offered: dict[str, Any] = {
            "clock": stores.clock,
            "folder": folder,
            "variables": {
                f"HOLDFAST_{name.upper()}": str(getattr(settings, name)) for name in STORE_SETTINGS
            },
        }
        more = {name: value for name, value in offered.items() if _has_parameter(system, name)}
        with meter_usage() as meter:
            story = find_demo(system).story
            assert story is not None
            await story(stores, console, **more)
        console.print(
            f"[dim]The story used {len(meter.usages):,} requests, {meter.units.read:,.1f} read units and "
            f"{meter.units.write:,.1f} write units.[/]"
        )


async def write_sample(system: System, stores: Stores, console: Console, scale: float = 1) -> int:
    """Write the sample data with a progress bar. Return the number of rows; 0 if the system has no sample."""
    sample = find_demo(system).sample
    if sample is None:
        return 0
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(f"Sample data of {system.title or system.name}", total=None)

        def update(what: str, done: int, total: int) -> None:
            progress.update(task, description=what, completed=done, total=total)

        rows = await sample(stores, scale=scale, progress=update)
    return int(rows)
