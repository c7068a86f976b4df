"""Health checks of the queues, objects and cache, for `holdfast doctor`. Nothing is changed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.cli.extras import require_extras
from holdfast.cli.health.environments import (
    EnvironmentsBySystem,
    find_environments,
    format_environments,
    list_bucket_names,
    list_queue_names,
    select_environments,
)
from holdfast.cli.health.file_rights import describe_exposed
from holdfast.cli.health.sqlite_files import describe_absent_file, open_checked_file
from holdfast.config.settings import (
    FILE_SCHEME,
    IN_MEMORY,
    MEMORY_CACHE,
    MEMORY_OBJECTS,
    SQLITE_SCHEME,
    Settings,
)
from holdfast.core.errors import HoldfastError, NotFound, StoreFileError
from holdfast.core.store_marker import refuse_lost_store

if TYPE_CHECKING:
    from holdfast.model.system import System
    from holdfast.runtime.system_provisioner import QueueReport


@dataclass(frozen=True, slots=True)
class StoreHealth:
    """One line of the result. The field names are the keys of `--json`."""

    store: str
    engine: str
    ok: bool
    detail: str


# --- queues -------------------------------------------------------------------------------------------------


def check_queues(settings: Settings, systems: Sequence[System]) -> StoreHealth:
    """Check the queues. Dead letters are reported but do not make the store unhealthy."""
    if settings.queues == IN_MEMORY:
        return StoreHealth("queues", "memory", True, "in memory: each process has its own data")
    is_file = settings.queues.startswith(SQLITE_SCHEME)
    engine = "sqlite" if is_file else "sqs"
    try:
        detail = (
            _inspect_queues_file(settings, systems)
            if is_file
            else asyncio.run(_inspect_sqs(settings, systems))
        )
    except HoldfastError as error:
        return StoreHealth(
            "queues", engine, False, error.message if is_file else f"{settings.queues}: {error.message}"
        )
    return StoreHealth("queues", engine, True, detail)


def _inspect_queues_file(settings: Settings, systems: Sequence[System]) -> str:
    """Describe the queues file and its queues in every environment; a missing or empty file is healthy.

    Raise `HoldfastError` if it is damaged or not a queues file.
    """
    from holdfast.stores.queues.embedded.handlers.queues import describe_queue
    from holdfast.stores.queues.embedded.storage.catalog import inspect_queues
    from holdfast.stores.queues.embedded.storage.schema import SCHEMA

    file = settings.queues_file
    absent = describe_absent_file(file, "queues")
    if absent is not None:
        return absent
    with open_checked_file(file, SCHEMA) as checked:
        names = () if checked.is_blank else inspect_queues(checked.connection, str(file))

        async def run(operation: Any) -> Any:
            if checked.is_blank:
                raise NotFound("The file has no queues.")
            return describe_queue(operation, checked.connection, settings.clock.now())

        environments = find_environments(names, systems, list_queue_names)
        reports = asyncio.run(_describe_queues(run, environments, settings.environment, systems))
    content = f"{file}, {file.stat().st_size:,} bytes{format_environments(environments)}"
    return f"{content}{reports}{checked.remarks}"


async def _inspect_sqs(settings: Settings, systems: Sequence[System]) -> str:
    """Describe the queues in SQS, in the configured environment. Raise `HoldfastError` if it does not
    answer.
    """
    require_extras("doctor", "aws")
    from holdfast.runtime.factory import open_queues_engine

    engine = open_queues_engine(settings, settings.clock)
    try:
        reports = await _describe_queues(engine.run, {}, settings.environment, systems)
    finally:
        engine.close()
    return f"{settings.queues}, reachable{reports}"


async def _describe_queues(
    run: Any, environments: EnvironmentsBySystem, configured: str, systems: Sequence[System]
) -> str:
    """Describe the queues in each environment with data, and in the configured one.

    `run` sends a request to the queue engine.
    """
    from holdfast.runtime.system_provisioner import read_queue_reports

    reports: list[QueueReport] = []
    missing: list[str] = []
    for system in systems:
        for environment in select_environments(environments, system, configured):
            existing = await read_queue_reports(run, environment, system.queues)
            names = {each.physical for each in existing}
            expected = [queue.physical_name(environment) for queue in system.queues]
            reports += existing
            missing += [name for name in expected if name not in names]
    return _format_queue_reports(reports, missing)


def _format_queue_reports(reports: Sequence[QueueReport], missing: Sequence[str]) -> str:
    """Describe backlogs, dead letters and queues that are not created yet, each after a semicolon."""
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


def check_objects(settings: Settings, systems: Sequence[System]) -> StoreHealth:
    """Check the objects store: memory, a local folder, or S3. Missing buckets are healthy."""
    if settings.objects == MEMORY_OBJECTS:
        return StoreHealth("objects", "memory", True, "in memory: each process has its own data")
    if settings.objects.startswith(FILE_SCHEME):
        return _check_objects_folder(settings, systems)
    buckets = [bucket for system in systems for bucket in system.buckets]
    try:
        return StoreHealth("objects", "s3", True, asyncio.run(_inspect_s3(settings, buckets)))
    except HoldfastError as error:
        return StoreHealth("objects", "s3", False, f"{settings.objects}: {error.message}")


def _check_objects_folder(settings: Settings, systems: Sequence[System]) -> StoreHealth:
    """Check that the folder is readable and writable, that the keys of its objects exist, and that each
    bucket has a definition.
    """
    folder = settings.objects_directory
    try:
        refuse_lost_store(folder, lambda: has_buckets(folder))
        if settings.keys.startswith(FILE_SCHEME):
            refuse_lost_store(settings.keys_file, settings.keys_file.exists)
    except StoreFileError as error:
        return StoreHealth("objects", "local", False, error.message)
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
    try:
        environments = _inspect_buckets(folder, systems)
    except HoldfastError as error:
        return StoreHealth("objects", "local", False, error.message)
    exposed = describe_exposed((folder, *folder.glob("*"), settings.keys_file))
    return StoreHealth("objects", "local", True, f"{folder} is readable and writable{environments}{exposed}")


def has_buckets(folder: Path) -> bool:
    """Return whether an objects folder has a bucket."""
    return any(folder.glob("*/bucket.json"))


def _inspect_buckets(folder: Path, systems: Sequence[System]) -> str:
    """Return the environments that have buckets in the folder. Raise `HoldfastError` if one is damaged."""
    require_extras("doctor", "objects")
    from holdfast.stores.objects.local.inspection import inspect_buckets

    return format_environments(find_environments(inspect_buckets(folder), systems, list_bucket_names))


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
