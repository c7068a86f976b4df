"""A console over a folder of its own with the sample data of systems, served in a thread of this process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from holdfast import Stores
from holdfast.config.settings import Settings
from holdfast.console.accounts import open_accounts
from holdfast.console.app import build_console_app
from holdfast.console.context import Console
from holdfast.console.model import CONSOLE
from holdfast.model.demo import find_demo
from holdfast.model.system import load_system
from holdfast.runtime import open_stores, start_system
from holdfast.web import serve_in_thread
from tests.postgres import create_database

R = TypeVar("R")

SYSTEMS: Final = ("agenticpm", "pagw", "richpanel", "skymarshal", "tripcortex")
# The smallest sample that has all of the examples.
SCALE: Final = 0.01


@dataclass(frozen=True)
class ConsoleSite:
    """A running console: its address, its settings, and what its pages work with."""

    url: str
    settings: Settings
    console: Console

    def act(self, system: str, function: Callable[[Stores], Awaitable[R]]) -> R:
        """Run a function over stores of the system's own, as another process would, and return its result."""
        return run_in_thread(_act(self.settings, system, function))


def run_in_thread(work: Awaitable[R]) -> R:
    """Run a coroutine to its end in a thread: this one belongs to the browser's event loop."""

    async def await_it() -> R:
        return await work

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, await_it()).result()


@contextmanager
def serve_site(folder: Path, systems: Sequence[str] = SYSTEMS, **settings: Any) -> Iterator[ConsoleSite]:
    """Serve a console over sample data of these systems in a folder; `settings` are further ones."""
    loaded = [load_system(each) for each in systems]
    schemas = [schema for each in loaded for schema in each.schemas]
    used = replace(
        Settings().in_folder(folder),
        environment="dev",
        sql=create_database(*schemas) if schemas else f"postgres:{folder / 'postgres'}",
        **settings,
    )
    for each in loaded:
        run_in_thread(_act(used, each.name, _write_sample))
    stores = open_stores(settings=used)
    try:
        app = build_console_app(
            used,
            stores.for_system(CONSOLE),
            [stores.for_system(each) for each in loaded],
            open_accounts(used),
        )
        console: Console = app.state.console
        with serve_in_thread(app, on_stopping=console.live.close) as url:
            yield ConsoleSite(url, used, console)
    finally:
        run_in_thread(stores.close())


async def _act(settings: Settings, system: str, function: Callable[[Stores], Awaitable[R]]) -> R:
    async with open_stores(load_system(system), settings) as stores:
        return await function(stores)


async def _write_sample(stores: Stores) -> None:
    assert stores.system is not None
    await start_system(stores.system, stores)
    sample = find_demo(stores.system).sample
    if sample is not None:
        await sample(stores, scale=SCALE, progress=lambda *_: None)
