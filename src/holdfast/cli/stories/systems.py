"""The stories of the systems: each on a store of its own, with its sample data, so that nothing of yours is touched."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from holdfast.errors import NotFound
from holdfast.model import System
from holdfast.runtime import Stores, metered, open_stores
from holdfast.settings import TABLES_FILE_NAME, Settings


def tell(system: System, console: Console) -> None:
    """Runs one system's story, on a file that is gone afterwards."""
    if system.story is None:
        raise NotFound(f"{system.name} has no story to tell.")
    with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as folder:
        settings = Settings(tables=f"sqlite:{Path(folder) / TABLES_FILE_NAME}")
        asyncio.run(_tell(system, settings, console))


async def _tell(system: System, settings: Settings, console: Console) -> None:
    async with open_stores(system, settings) as stores:
        await fill(system, stores, console)
        with metered() as meter:
            assert system.story is not None
            await system.story(stores, console)
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
