"""Health checks of the queues, objects and cache, for `holdfast doctor`. Nothing is changed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.cli.extras import require_extras
from holdfast.config.settings import (
    FILE_SCHEME,
    IN_MEMORY,
    MEMORY_CACHE,
    MEMORY_OBJECTS,
    SQLITE_SCHEME,
    Settings,
)
from holdfast.core.errors import HoldfastError, NotFound, StoreFileError

if TYPE_CHECKING:
    from holdfast.model.queues import Queue
    from holdfast.runtime.system_provisioner import QueueReport


@dataclass(frozen=True, slots=True)
class StoreHealth:
    """One line of the result. The field names are the keys of `--json`."""

    store: str
    engine: str
    ok: bool
    detail: str


# --- queues -------------------------------------------------------------------------------------------------


def check_queues(settings: Settings, queues: Sequence[Queue[Any]]) -> StoreHealth:
    """Check the queues. Dead letters are reported but do not make the store unhealthy."""
    if settings.queues == IN_MEMORY:
        return StoreHealth("queues", "memory", True, "in memory: each process has its own data")
    is_file = settings.queues.startswith(SQLITE_SCHEME)
    engine = "sqlite" if is_file else "sqs"
    try:
        detail = (
            _inspect_queues_file(settings, queues) if is_file else asyncio.run(_inspect_sqs(settings, queues))
        )
    except HoldfastError as error:
        return StoreHealth(
            "queues", engine, False, error.message if is_file else f"{settings.queues}: {error.message}"
        )
    return StoreHealth("queues", engine, True, detail)


def _inspect_queues_file(settings: Settings, queues: Sequence[Queue[Any]]) -> str:
    """Describe the queues file; a missing or empty file is healthy. Raise `HoldfastError` if it is
    damaged.
    """
    from holdfast.stores.sqlite.log_damage import refuse_lost_database

    file = settings.queues_file
    refuse_lost_database(str(file))
    if not file.exists():
        return f"{file} does not exist yet: it is created on first use"
    if file.is_dir():
        raise StoreFileError(f"{file} is a folder, but must be a file: move it")
    if file.stat().st_size == 0:
        return f"{file} is empty: it has no queues yet"
    reports = _read_queue_reports(str(file), settings, queues)
    return (
        f"{file}, {file.stat().st_size:,} bytes{_format_queue_reports(reports, queues, settings.environment)}"
    )


def _read_queue_reports(path: str, settings: Settings, queues: Sequence[Queue[Any]]) -> list[QueueReport]:
    """Check a queues file and read its queues through a read-only connection.

    Raise `HoldfastError` if the file is damaged or not a queues file.

    The file is not created, migrated or repaired.
    """
    from holdfast.runtime.system_provisioner import read_queue_reports
    from holdfast.stores.queues.embedded.handlers.queues import describe_queue
    from holdfast.stores.queues.embedded.storage.schema import SCHEMA
    from holdfast.stores.sqlite.connections import Tuning, open_reader
    from holdfast.stores.sqlite.errors import map_error
    from holdfast.stores.sqlite.log_damage import refuse_damaged_log
    from holdfast.stores.sqlite.schema import check_identity

    try:
        connection = open_reader(path, Tuning())
        try:
            check_identity(connection, SCHEMA, path)
            refuse_damaged_log(connection, path)
            found = [str(line) for (line,) in connection.execute("PRAGMA quick_check")]
            if found != ["ok"]:
                raise StoreFileError(f"{path} is damaged: {'; '.join(found)}")
            if connection.execute("SELECT count(*) FROM sqlite_schema").get == 0:
                return []

            async def run(operation: Any) -> Any:
                return describe_queue(operation, connection, settings.clock.now())

            return asyncio.run(read_queue_reports(run, settings.environment, queues))
        finally:
            connection.close()
    except Exception as error:
        raise map_error(error, path) from error


async def _inspect_sqs(settings: Settings, queues: Sequence[Queue[Any]]) -> str:
    """Describe the queues in SQS. Raise `HoldfastError` if it does not answer."""
    require_extras("doctor", "aws")
    from holdfast.runtime.factory import open_queues_engine
    from holdfast.runtime.system_provisioner import read_queue_reports

    engine = open_queues_engine(settings, settings.clock)
    try:
        reports = await read_queue_reports(engine.run, settings.environment, queues)
    finally:
        engine.close()
    return f"{settings.queues}, reachable{_format_queue_reports(reports, queues, settings.environment)}"


def _format_queue_reports(
    reports: Sequence[QueueReport], queues: Sequence[Queue[Any]], environment: str
) -> str:
    """Describe backlogs, dead letters and queues that are not created yet, each after a semicolon."""
    existing = {each.physical for each in reports}
    missing = [name for each in queues if (name := each.physical_name(environment)) not in existing]
    waiting = [each for each in reports if each.waiting.backlog]
    text = "".join(f"; {each.physical} has {each.waiting.backlog:,} waiting" for each in waiting)
    if empty := len(reports) - len(waiting):
        text += f"; {empty} {'other ' if waiting else ''}queue{'s are' if empty > 1 else ' is'} empty"
    text += "".join(
        f"; {each.physical} has {each.dead:,} dead letter{'s' if each.dead > 1 else ''} "
        "(`holdfast queues list`)"
        for each in reports
        if each.dead
    )
    return text + (f"; not created yet: {', '.join(missing)}" if missing else "")


# --- objects ------------------------------------------------------------------------------------------------


def check_objects(settings: Settings, buckets: Sequence[Any]) -> StoreHealth:
    """Check the objects store: memory, a local folder, or S3. Missing buckets are healthy."""
    if settings.objects == MEMORY_OBJECTS:
        return StoreHealth("objects", "memory", True, "in memory: each process has its own data")
    if settings.objects.startswith(FILE_SCHEME):
        return _check_objects_folder(settings)
    try:
        return StoreHealth("objects", "s3", True, asyncio.run(_inspect_s3(settings, buckets)))
    except HoldfastError as error:
        return StoreHealth("objects", "s3", False, f"{settings.objects}: {error.message}")


def _check_objects_folder(settings: Settings) -> StoreHealth:
    """Check that the folder is readable and writable, and that the keys of its objects exist."""
    folder = settings.objects_directory
    if not folder.exists():
        return StoreHealth(
            "objects", "local", True, f"{folder} does not exist yet: it is created on first use"
        )
    if not folder.is_dir():
        return StoreHealth("objects", "local", False, f"{folder} is a file, but must be a folder: move it")
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        return StoreHealth(
            "objects", "local", False, f"{folder} is not readable and writable: change its owner or mode"
        )
    has_keys = not settings.keys.startswith(FILE_SCHEME) or settings.keys_file.exists()
    if any(folder.iterdir()) and not has_keys:
        return StoreHealth(
            "objects",
            "local",
            False,
            f"{folder} has encrypted objects, but the key file {settings.keys_file} does not exist",
        )
    return StoreHealth("objects", "local", True, f"{folder} is readable and writable")


async def _inspect_s3(settings: Settings, buckets: Sequence[Any]) -> str:
    """Describe S3 and the buckets that are not created yet. Raise `HoldfastError` if it does not answer."""
    require_extras("doctor", "aws")
    from holdfast.operations.objects import DescribeBucket
    from holdfast.runtime.factory import open_objects_engine

    engine = open_objects_engine(settings, settings.clock)
    missing = []
    try:
        for bucket in buckets:
            name = bucket.physical_name(settings.environment)
            try:
                await engine.run(DescribeBucket(name))
            except NotFound:
                missing.append(name)
    finally:
        engine.close()
    return f"{settings.objects}, reachable" + (f"; not created yet: {', '.join(missing)}" if missing else "")


# --- the cache ----------------------------------------------------------------------------------------------


def check_cache(settings: Settings) -> StoreHealth:
    """Check that Redis answers; a cache in memory is always healthy."""
    if settings.cache == MEMORY_CACHE:
        return StoreHealth("cache", "memory", True, "in memory: each process has its own data")
    try:
        asyncio.run(_ping_cache(settings))
    except HoldfastError as error:
        return StoreHealth("cache", "redis", False, error.message)
    return StoreHealth("cache", "redis", True, f"{settings.cache}, reachable")


async def _ping_cache(settings: Settings) -> None:
    from holdfast.operations.cache import Ping
    from holdfast.runtime.factory import open_cache_engine

    engine = open_cache_engine(settings, settings.clock)
    try:
        await engine.run(Ping())
    finally:
        engine.close()
