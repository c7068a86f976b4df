"""`holdfast sample`: a system's sample data, written into the store that the settings name."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.errors import NotFound

if TYPE_CHECKING:
    from rich.console import Console

    from holdfast.model import System


def sample(
    system: Annotated[str, typer.Argument(help="Whose sample data.")],
    scale: Annotated[
        float, typer.Option("--scale", min=0.01, help="How many times the size that its document gives.")
    ] = 1.0,
) -> None:
    """Fill the configured store with a system's sample data. Run again, it writes the same."""
    from holdfast.cli.showing import Screen
    from holdfast.model import installed_system

    found = installed_system(system)
    if found.sample is None:
        raise NotFound(f"{found.name} has no sample data.")
    asyncio.run(_sample(found, scale, Screen(highlight=False)))


async def _sample(system: System, scale: float, console: Console) -> None:
    from holdfast.cli.stories.systems import fill
    from holdfast.runtime import open_stores

    async with open_stores(system) as stores:
        rows = await fill(system, stores, console, scale)
        console.print(f"{rows:,} rows are written." if rows else "The sample data is written.")
