"""Open the stores that patterns are measured on: a copy of the data, the sample, or the DynamoDB service.

The embedded engine's file is copied and never written to. If it holds no data of the system, the scratch file
is filled with the system's sample. A service cannot be copied: it is used as it is.

Queues, objects and the cache are always in memory and SQL is a temporary PostgreSQL. They hold only what the
sample writes: a measured receive would take a message away from its consumers, so nothing is ever measured on
a real queue. The objects of a configured folder are only counted.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from holdfast.config.settings import (
    FILE_SCHEME,
    IN_MEMORY,
    MEMORY_CACHE,
    MEMORY_OBJECTS,
    SQLITE_SCHEME,
    TABLES_FILE_NAME,
    TEMPORARY_SQL,
    Settings,
)
from holdfast.core.progress import Progress, ignore_progress
from holdfast.model.demo import find_working_demo
from holdfast.model.system import System
from holdfast.runtime import Stores, describe_table, open_stores, provision
from holdfast.runtime.engines import Engine
from holdfast.runtime.factory import open_objects_engine
from holdfast.runtime.system_provisioner import provision_other_stores

SCRATCH_ENVIRONMENT: Final = "scratch"
SCRATCH_SETTINGS: Final[Mapping[str, Any]] = {
    "queues": IN_MEMORY,
    "objects": MEMORY_OBJECTS,
    "sql": TEMPORARY_SQL,
    "sql_reader": "",
    "sql_secret": "",
    "cache": MEMORY_CACHE,
    "cache_secret": "",
}


@dataclass(frozen=True)
class DataSource:
    """Stores that patterns are measured on. If `is_scratch`, everything may be written."""

    stores: Stores
    description: str
    is_scratch: bool
    # False on empty tables: an example that finds nothing there is not a finding.
    has_data: bool = True
    # True if this is the data that the examples are chosen for.
    is_sample: bool = False
    # The configured objects, which are only counted, never written.
    objects: Engine | None = None


@asynccontextmanager
async def open_data_source(
    system: System, settings: Settings, *, progress: Progress = ignore_progress
) -> AsyncIterator[DataSource]:
    """Open the data to measure on: the DynamoDB service, a copy of the embedded tables, or the sample.

    A service is used even if it is empty; the copy only if it has items of this system.
    """
    if not settings.has_embedded_tables:
        async with open_stores(system, replace(settings, **SCRATCH_SETTINGS)) as stores:
            await provision_other_stores(stores, system)
            with _open_configured_objects(settings) as objects:
                yield DataSource(stores, settings.tables, is_scratch=False, objects=objects)
        return
    from holdfast.stores.tables.embedded.storage.file_copy import copy_tables

    with TemporaryDirectory(prefix="holdfast-") as folder:
        file = Path(folder) / TABLES_FILE_NAME
        is_copy = not settings.has_memory_tables and copy_tables(settings.tables_file, file)
        async with _open_scratch_stores(system, file, settings.environment) as stores:
            if is_copy and await _has_items(stores, system):
                await provision(stores, system)
                description = f"a copy of {settings.tables_file}"
                with _open_configured_objects(settings) as objects:
                    yield DataSource(stores, description, is_scratch=True, objects=objects)
            else:
                yield await _fill_with_sample(stores, system, progress)


@asynccontextmanager
async def open_sample_data(
    system: System, *, progress: Progress = ignore_progress
) -> AsyncIterator[DataSource]:
    """Open temporary stores filled with the system's sample, or empty ones if it has none. No setting is
    read.
    """
    with TemporaryDirectory(prefix="holdfast-") as folder:
        async with _open_scratch_stores(system, Path(folder) / TABLES_FILE_NAME, "") as stores:
            yield await _fill_with_sample(stores, system, progress)


@contextmanager
def _open_configured_objects(settings: Settings) -> Iterator[Engine | None]:
    """Open the objects of a configured folder; yield None for a service, which bills each page of a list."""
    if not settings.objects.startswith(FILE_SCHEME) or not settings.objects_directory.is_dir():
        yield None
        return
    with closing(open_objects_engine(settings, settings.clock)) as engine:
        yield engine


def _open_scratch_stores(system: System, file: Path, environment: str) -> Stores:
    """Open the stores on a scratch file, with a placeholder environment if the system requires one."""
    environment = environment or (SCRATCH_ENVIRONMENT if system.deployment.needs_environment else "")
    return open_stores(
        system,
        Settings(
            tables=f"{SQLITE_SCHEME}{file}",
            environment=environment,
            **SCRATCH_SETTINGS,
        ),
    )


async def _has_items(stores: Stores, system: System) -> bool:
    """Return True if any table of the system has items."""
    found = [await describe_table(stores, table) for table in system.tables]
    return any(description is not None and description.item_count for description in found)


async def _fill_with_sample(stores: Stores, system: System, progress: Progress) -> DataSource:
    """Create everything, write the sample if the system has one, and return the data source."""
    await provision(stores, system)
    sample = find_working_demo(system).sample
    if sample is None:
        return DataSource(stores, "empty tables", is_scratch=True, has_data=False)
    await sample(stores, scale=1, progress=progress)
    return DataSource(stores, "sample data", is_scratch=True, is_sample=True)
