"""Factory of stores: opens the engine that the settings name for each store, the cipher and the secrets.

Every host opens its stores here: `open_stores` for one system, `open_systems` for several over the same
engines. A host that runs a system then calls `start_system` (`system_startup.py`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from holdfast.config.settings import (
    FILE_SCHEME,
    IN_MEMORY,
    MEMORY_CACHE,
    MEMORY_OBJECTS,
    SQLITE_SCHEME,
    TEMPORARY_SQL,
    Settings,
)
from holdfast.core.clock import Clock, SystemClock
from holdfast.core.disk import make_private_folder
from holdfast.core.errors import RetryLater, SettingsError, StoreFileError
from holdfast.model.system import System
from holdfast.runtime.engines import Engine, Engines
from holdfast.runtime.stores import Stores

if TYPE_CHECKING:
    from holdfast.security.ciphers import Cipher
    from holdfast.security.secrets import Secrets
    from holdfast.stores.sql.postgres import PostgresSql

MEMORY_SETTINGS: Final = Settings(
    tables=IN_MEMORY, queues=IN_MEMORY, objects=MEMORY_OBJECTS, sql=TEMPORARY_SQL, cache=MEMORY_CACHE
)


def open_stores(
    system: System | None = None, settings: Settings | None = None, *, clock: Clock | None = None
) -> Stores:
    """Open the stores that the settings name (`holdfast.toml`, `HOLDFAST_…`), for a system.

    Close them when done. Each engine is opened on first use, so that only those of the declared stores are.
    Raises `SettingsError` if the system needs an environment and none is set.
    """
    settings = settings or Settings.load()
    if system is not None:
        _check_environment(system, settings)
    clock = clock or settings.clock
    engines = Engines(
        {
            "tables": lambda: open_tables_engine(settings, clock),
            "queues": lambda: open_queues_engine(settings, clock),
            "objects": lambda: open_objects_engine(settings, clock),
            "sql": lambda: open_sql_engine(settings),
            "cache": lambda: open_cache_engine(settings, clock),
        }
    )
    return Stores(system=system, environment=settings.environment, clock=clock, engines=engines)


@asynccontextmanager
async def open_systems(systems: Sequence[System], settings: Settings) -> AsyncIterator[list[Stores]]:
    """Open the stores of several systems, over the same engines, for the length of the context."""
    for system in systems:
        _check_environment(system, settings)
    async with open_stores(settings=settings) as stores:
        yield [stores.for_system(system) for system in systems]


def open_memory_stores(system: System | None = None, *, clock: Clock | None = None) -> Stores:
    """Open stores that end with the process, for tests and experiments."""
    return open_stores(system, MEMORY_SETTINGS, clock=clock or SystemClock())


def open_tables_engine(settings: Settings, clock: Clock) -> Engine:
    """Open the tables engine that the settings name: in memory, an SQLite file, or DynamoDB."""
    if not settings.has_embedded_tables:
        from holdfast.stores.tables.dynamodb import open_dynamodb

        return open_dynamodb(region=settings.tables_region, endpoint=settings.tables_endpoint)
    from holdfast.stores.sqlite import Tuning
    from holdfast.stores.tables.embedded import open_tables

    if settings.has_memory_tables:
        return open_tables(None, clock=clock)
    _make_folder(settings.tables_directory, "tables")
    # Deleted data is overwritten: an erasure must leave nothing in the file's free pages.
    return open_tables(settings.tables_file, clock=clock, tuning=Tuning(secure_delete=True))


def open_queues_engine(settings: Settings, clock: Clock) -> Engine:
    """Open the queues engine that the settings name: in memory, an SQLite file, or SQS."""
    if not settings.queues.startswith(SQLITE_SCHEME):
        from holdfast.stores.queues.sqs import open_sqs

        return open_sqs(settings.queues)
    from holdfast.stores.queues.embedded import open_queues

    if settings.queues == IN_MEMORY:
        return open_queues(None, clock=clock)
    _make_folder(settings.queues_file.parent, "queues")
    return open_queues(settings.queues_file, clock=clock)


def open_objects_engine(settings: Settings, clock: Clock) -> Engine:
    """Open the objects engine that the settings name: memory, a directory, or S3."""
    if settings.objects == MEMORY_OBJECTS:
        from holdfast.stores.objects.local import open_memory_objects

        return open_memory_objects(clock=clock)
    if settings.objects.startswith(FILE_SCHEME):
        from holdfast.stores.objects.local import open_local_objects

        _refuse_lost_keys(settings)
        return open_local_objects(settings.objects_directory, open_cipher(settings), clock=clock)
    from holdfast.stores.objects.s3 import open_s3

    return open_s3(settings.objects)


def _refuse_lost_keys(settings: Settings) -> None:
    """Raise `StoreFileError` if objects exist and the file with their keys does not: a new file would hide
    that they are unreadable.
    """
    folder = settings.objects_directory
    if not settings.keys.startswith(FILE_SCHEME) or settings.keys_file.exists():
        return
    if any(folder.glob("*/objects")):
        raise StoreFileError(
            f"The key file {settings.keys_file} is missing, but {folder} has objects that are encrypted with "
            f"its keys. Nothing was changed: restore the key file from a backup, or move {folder} away to "
            "start without them."
        )


def open_sql_engine(settings: Settings) -> PostgresSql:
    """Open the SQL engine: an embedded or a given PostgreSQL.

    It connects, or starts the server, at the first statement.
    """
    from holdfast.stores.sql.postgres import PoolSizes, open_embedded_postgres, open_postgres

    sizes = PoolSizes(min=settings.sql_pool_min, max=settings.sql_pool_max)
    if settings.has_embedded_sql:
        return open_embedded_postgres(
            settings.sql_directory,
            database=settings.sql_database,
            sizes=sizes,
            statement_timeout_ms=settings.sql_statement_timeout_ms,
        )
    return open_postgres(
        settings.sql,
        reader=settings.sql_reader,
        credentials=_build_sql_credentials(settings),
        sizes=sizes,
        statement_timeout_ms=settings.sql_statement_timeout_ms,
    )


def _build_sql_credentials(settings: Settings) -> Callable[[], str] | None:
    """Return a function that looks up the password for each connection, so that a rotated password takes
    effect.

    Return None if the settings name no secret. If the source of secrets is unavailable, the last known
    password is used.
    """
    if not settings.sql_secret:
        return None
    secrets = open_secrets(settings)

    def current() -> str:
        try:
            return secrets.refresh(settings.sql_secret).current
        except RetryLater:
            return secrets.get(settings.sql_secret).current

    return current


def open_cache_engine(settings: Settings, clock: Clock) -> Engine:
    """Open the cache engine that the settings name: memory, or Redis."""
    if settings.cache == MEMORY_CACHE:
        from holdfast.stores.cache.memory import open_memory_cache

        return open_memory_cache(clock=clock)
    from holdfast.stores.cache.redis import open_redis

    secrets = open_secrets(settings) if settings.cache_secret else None
    return open_redis(settings.cache, clock=clock, secrets=secrets, secret=settings.cache_secret)


def open_cipher(settings: Settings | None = None) -> Cipher:
    """Open the cipher that the settings name: keys in a file, created if missing, or a KMS key."""
    settings = settings or Settings.load()
    if settings.keys.startswith(FILE_SCHEME):
        from holdfast.security.ciphers import open_file_cipher

        _make_folder(settings.keys_file.parent, "keys")
        return open_file_cipher(settings.keys_file)
    from holdfast.security.kms import open_kms_cipher

    return open_kms_cipher(settings.keys)


def open_secrets(settings: Settings | None = None) -> Secrets:
    """Open the source of secrets that the settings name: environment variables, a file, or Secrets
    Manager.
    """
    from holdfast.security.secrets import open_secret_source

    settings = settings or Settings.load()
    return open_secret_source(settings.secrets, settings.secrets_file, clock=settings.clock)


def _check_environment(system: System, settings: Settings) -> None:
    """Raise `SettingsError` if the system needs an environment, none is set, and the tables are not in
    memory.
    """
    has_place = bool(settings.environment) or settings.has_memory_tables
    if system.deployment.needs_environment and not has_place:
        raise SettingsError(
            f"Missing environment: {system.name} requires one in its table names. Set environment (or "
            "HOLDFAST_ENVIRONMENT) to dev, staging or prod."
        )


def _make_folder(folder: Path, setting: str) -> None:
    """Create the folder with its parents; raise `SettingsError`, which names the setting, if that fails."""
    try:
        make_private_folder(folder)
    except OSError as error:
        raise SettingsError(
            f"Creating the data folder {folder} failed ({error.strerror}): choose another in the setting "
            f"`{setting}`."
        ) from error
