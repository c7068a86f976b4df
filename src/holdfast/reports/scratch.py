"""Where patterns are measured: a scratch copy of the configured file, sample data, or the service itself.

The embedded engine's own file is copied and never written to. Where it holds nothing of the system yet, the
scratch file is filled with the system's sample. A service cannot be copied: it is asked as it is.

Queues, objects and the cache are always in memory, SQL in a PostgreSQL that is gone afterwards, and all of them empty
but for what the sample puts there: receiving a message takes it from those who wait for it, so that nothing is ever
measured on a real queue. What a configured folder of objects holds is only counted.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeAlias

from holdfast.model.system import System
from holdfast.runtime import (
    Stores,
    create_buckets,
    create_queues,
    create_tables,
    describe,
    open_stores,
)
from holdfast.runtime.engines import Engine
from holdfast.runtime.opening import open_objects_engine
from holdfast.runtime.preparation import migrate_schemas
from holdfast.settings import (
    FILE_SCHEME,
    IN_MEMORY,
    MEMORY_CACHE,
    MEMORY_OBJECTS,
    SQLITE_SCHEME,
    TABLES_FILE_NAME,
    TEMPORARY_SQL,
    Settings,
)
from holdfast.stores.tables.embedded.storage.copying import copy_tables

SCRATCH: Final = "scratch"
SCRATCH_STORES: Final[Mapping[str, Any]] = {
    "queues": IN_MEMORY,
    "objects": MEMORY_OBJECTS,
    "sql": TEMPORARY_SQL,
    "sql_reader": "",
    "sql_secret": "",
    "cache": MEMORY_CACHE,
    "cache_secret": "",
}

# Called with what is being done, how much of it is done, and how much there is.
Progress: TypeAlias = Callable[[str, int, int], None]


def silent(what: str, done: int, total: int) -> None:
    """No progress is shown."""


@dataclass(frozen=True)
class Ground:
    """Stores to measure on. On a scratch one everything may be written."""

    stores: Stores
    told: str
    is_scratch: bool
    # Whether there is something to read: without data, an example that finds nothing says nothing.
    has_data: bool = True
    # Whether it is the data that the examples are chosen for: elsewhere one may not fit.
    is_sample: bool = False
    # The configured objects, to be counted: none are written there.
    objects: Engine | None = None


@asynccontextmanager
async def measuring_ground(
    system: System, settings: Settings, *, progress: Progress = silent
) -> AsyncIterator[Ground]:
    """The configured store's data where it has some of this system, its sample otherwise."""
    if not settings.tables_embedded:
        async with open_stores(system, replace(settings, **SCRATCH_STORES)) as stores:
            await _make_beside_tables(stores, system)
            with _configured_objects(settings) as objects:
                yield Ground(stores, settings.tables, is_scratch=False, objects=objects)
        return
    with TemporaryDirectory(prefix="holdfast-") as folder:
        file = Path(folder) / TABLES_FILE_NAME
        is_copy = not settings.tables_in_memory and copy_tables(settings.tables_file, file)
        async with _opened(system, file, settings.environment) as stores:
            if is_copy and await _holds_data(stores, system):
                await _make_all(stores, system)
                told = f"a copy of {settings.tables_file}"
                with _configured_objects(settings) as objects:
                    yield Ground(stores, told, is_scratch=True, objects=objects)
            else:
                yield await _sampled(stores, system, progress)


@asynccontextmanager
async def sample_ground(system: System, *, progress: Progress = silent) -> AsyncIterator[Ground]:
    """A scratch file with the system's sample, whatever the settings say."""
    with TemporaryDirectory(prefix="holdfast-") as folder:
        async with _opened(system, Path(folder) / TABLES_FILE_NAME, "") as stores:
            yield await _sampled(stores, system, progress)


@contextmanager
def _configured_objects(settings: Settings) -> Iterator[Engine | None]:
    """Those of a folder. A service bills each page of a list, and a large bucket has thousands."""
    if not settings.objects.startswith(FILE_SCHEME) or not settings.objects_directory.is_dir():
        yield None
        return
    with closing(open_objects_engine(settings, settings.clock)) as engine:
        yield engine


def _opened(system: System, file: Path, environment: str) -> Stores:
    """Under a name of its own where the system keeps nothing without one: what is measured is not told by it."""
    environment = environment or (SCRATCH if system.needs_environment else "")
    return open_stores(
        system,
        Settings(
            tables=f"{SQLITE_SCHEME}{file}",
            environment=environment,
            **SCRATCH_STORES,
        ),
    )


async def _holds_data(stores: Stores, system: System) -> bool:
    found = [await describe(stores, table) for table in system.tables]
    return any(description is not None and description.item_count for description in found)


async def _sampled(stores: Stores, system: System, progress: Progress) -> Ground:
    await _make_all(stores, system)
    if system.sample is None:
        return Ground(stores, "empty tables", is_scratch=True, has_data=False)
    await system.sample(stores, scale=1, progress=progress)
    return Ground(stores, "sample data", is_scratch=True, is_sample=True)


async def _make_all(stores: Stores, system: System) -> None:
    await create_tables(stores, system.tables)
    await _make_beside_tables(stores, system)


async def _make_beside_tables(stores: Stores, system: System) -> None:
    if system.queues:
        await create_queues(stores, system.queues)
    if system.buckets:
        await create_buckets(stores, system.buckets)
    if system.schemas:
        await migrate_schemas(stores, system.schemas)
