"""`holdfast sample`: write a system's sample data into the configured stores."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.core.errors import NotFound

if TYPE_CHECKING:
    from rich.console import Console

    from holdfast.model.system import System


def sample(
    system: Annotated[str, typer.Argument(metavar="SYSTEM", help="The system.")],
    scale: Annotated[
        float, typer.Option("--scale", min=0.01, help="Multiply the number of rows by this factor.")
    ] = 1.0,
) -> None:
    """Write a system's sample data into the configured stores. Every run writes the same data."""
    from holdfast.cli.extras import describe_missing_demo
    from holdfast.cli.output.console import SafeConsole
    from holdfast.model.demo import find_demo
    from holdfast.model.system import load_system

    found = load_system(system)
    if find_demo(found).sample is None:
        raise NotFound(f"{found.name} has no sample data: {describe_missing_demo(found)}")
    asyncio.run(_write_sample(found, scale, SafeConsole(highlight=False)))


async def _write_sample(system: System, scale: float, console: Console) -> None:
    from holdfast.cli.stories.system_stories import write_sample
    from holdfast.runtime import open_stores

    async with open_stores(system) as stores:
        rows = await write_sample(system, stores, console, scale)
        console.print(f"{rows:,} rows written." if rows else "Sample data written.")
