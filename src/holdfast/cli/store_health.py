"""The health of the stores beside tables, for `holdfast doctor`: read, and nothing changed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.cli.extras import require
from holdfast.errors import HoldfastError, NotFound, StoreFileError
from holdfast.settings import FILE_SCHEME, IN_MEMORY, MEMORY_CACHE, MEMORY_OBJECTS, SQLITE_SCHEME, Settings

if TYPE_CHECKING:
    from holdfast.model.queues import Queue
    from holdfast.runtime.preparation import QueueReport


@dataclass(frozen=True, slots=True)
class Health:
    """One line of the answer; other programs read these names with `--json`."""

    store: str
    engine: str
    ok: bool
    detail: str


# --- queues -------------------------------------------------------------------------------------------------


def queues_health(settings: Settings, queues: Sequence[Queue[Any]]) -> Health:
    """Dead letters that wait are told: somebody should look at them, but the store is well."""
    if settings.queues == IN_MEMORY:
        return Health("queues", "memory", True, "in memory: each process has its own")
    is_file = settings.queues.startswith(SQLITE_SCHEME)
    engine = "sqlite" if is_file else "sqs"
    try:
        detail = _of_file(settings, queues) if is_file else asyncio.run(_of_sqs(settings, queues))
    except HoldfastError as error:
        return Health(
            "queues", engine, False, error.message if is_file else f"{settings.queues}: {error.message}"
        )
    return Health("queues", engine, True, detail)


def _of_file(settings: Settings, queues: Sequence[Queue[Any]]) -> str:
    from holdfast.stores.sqlite.log_damage import refuse_lost_database

    file = settings.queues_file
    refuse_lost_database(str(file))
    if not file.exists():
        return f"{file} is not there yet: it is made when first needed"
    if file.is_dir():
        raise StoreFileError(f"{file} is a folder, where a file has its place: move it away")
    if file.stat().st_size == 0:
        return f"{file} is empty: it holds no queues, and is as good as new"
    reports = _read_reports(str(file), settings, queues)
    return f"{file}, {file.stat().st_size:,} bytes{_told(reports, queues, settings.environment)}"


def _read_reports(path: str, settings: Settings, queues: Sequence[Queue[Any]]) -> list[QueueReport]:
    """By a connection that only reads: the file is neither made, migrated nor repaired."""
    from holdfast.runtime.preparation import reports_by
    from holdfast.stores.queues.embedded.act.queues import describe_queue
    from holdfast.stores.queues.embedded.storage.schema import SCHEMA
    from holdfast.stores.sqlite.connections import Tuning, open_reader
    from holdfast.stores.sqlite.failures import mapped
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

            async def run(asked: Any) -> Any:
                return describe_queue(asked, connection, settings.clock.now())

            return asyncio.run(reports_by(run, settings.environment, queues))
        finally:
            connection.close()
    except Exception as error:
        raise mapped(error, path) from error


async def _of_sqs(settings: Settings, queues: Sequence[Queue[Any]]) -> str:
    require("doctor", "aws")
    from holdfast.runtime.opening import open_queues_engine
    from holdfast.runtime.preparation import reports_by

    engine = open_queues_engine(settings, settings.clock)
    try:
        reports = await reports_by(engine.run, settings.environment, queues)
    finally:
        engine.close()
    return f"{settings.queues}, reachable{_told(reports, queues, settings.environment)}"


def _told(reports: Sequence[QueueReport], queues: Sequence[Queue[Any]], environment: str) -> str:
    there = {each.physical for each in reports}
    missing = [name for each in queues if (name := each.physical_name(environment)) not in there]
    waiting = [each for each in reports if each.waiting.backlog]
    told = "".join(f"; {each.physical} has {each.waiting.backlog:,} waiting" for each in waiting)
    if empty := len(reports) - len(waiting):
        told += f"; nothing waits in {'the other ' if waiting else ''}{empty} queue{'s' if empty > 1 else ''}"
    told += "".join(
        f"; {each.dead:,} of {each.physical} died and wait to be looked at (`holdfast queues list`)"
        for each in reports
        if each.dead
    )
    return told + (f"; yet to be made: {', '.join(missing)}" if missing else "")


# --- objects ------------------------------------------------------------------------------------------------


def objects_health(settings: Settings, buckets: Sequence[Any]) -> Health:
    if settings.objects == MEMORY_OBJECTS:
        return Health("objects", "memory", True, "in memory: each process has its own")
    if settings.objects.startswith(FILE_SCHEME):
        return _of_folder(settings)
    try:
        return Health("objects", "s3", True, asyncio.run(_of_s3(settings, buckets)))
    except HoldfastError as error:
        return Health("objects", "s3", False, f"{settings.objects}: {error.message}")


def _of_folder(settings: Settings) -> Health:
    folder = settings.objects_directory
    if not folder.exists():
        return Health("objects", "local", True, f"{folder} is not there yet: it is made when first needed")
    if not folder.is_dir():
        return Health(
            "objects", "local", False, f"{folder} is a file, where a folder has its place: move it away"
        )
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        return Health(
            "objects", "local", False, f"{folder} may not be read or written here: change its owner or mode"
        )
    has_keys = not settings.keys.startswith(FILE_SCHEME) or settings.keys_file.exists()
    if any(folder.iterdir()) and not has_keys:
        return Health(
            "objects",
            "local",
            False,
            f"{folder} has objects, and the keys they are encrypted by are gone: {settings.keys_file} is not there",
        )
    return Health("objects", "local", True, f"{folder} can be read and written")


async def _of_s3(settings: Settings, buckets: Sequence[Any]) -> str:
    require("doctor", "aws")
    from holdfast.operations.objects import DescribeBucket
    from holdfast.runtime.opening import open_objects_engine

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
    return f"{settings.objects}, reachable" + (f"; yet to be made: {', '.join(missing)}" if missing else "")


# --- the cache ----------------------------------------------------------------------------------------------


def cache_health(settings: Settings) -> Health:
    if settings.cache == MEMORY_CACHE:
        return Health("cache", "memory", True, "in memory: each process has its own")
    try:
        asyncio.run(_pinged(settings))
    except HoldfastError as error:
        return Health("cache", "redis", False, error.message)
    return Health("cache", "redis", True, f"{settings.cache}, reachable")


async def _pinged(settings: Settings) -> None:
    from holdfast.operations.cache import Ping
    from holdfast.runtime.opening import open_cache_engine

    engine = open_cache_engine(settings, settings.clock)
    try:
        await engine.run(Ping())
    finally:
        engine.close()
