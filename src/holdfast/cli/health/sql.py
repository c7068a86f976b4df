"""Health check of the SQL store, for `holdfast doctor`.

Nothing is changed, and a stopped embedded server is not started.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from holdfast.cli.extras import require_extras
from holdfast.cli.health.file_rights import describe_exposed
from holdfast.cli.health.stores import StoreHealth
from holdfast.config.settings import TEMPORARY_SQL, Settings
from holdfast.core.errors import AccessRefused, HoldfastError, SchemaMismatch, StoreUnreachable

if TYPE_CHECKING:
    from holdfast.model.system import System
    from holdfast.stores.sql.postgres import PostgresSql


def check_sql(settings: Settings, systems: Sequence[System]) -> StoreHealth:
    """Check that the server and its reader answer, and report each schema's revision.

    A schema with pending migrations is healthy; one that is newer than the code is not.
    """
    if settings.sql == TEMPORARY_SQL:
        return StoreHealth("sql", "embedded", True, "temporary: each process has its own server")
    engine = "embedded" if settings.has_embedded_sql else "postgresql"
    try:
        require_extras("doctor", "sql")
        server = _find_running_server(settings) if settings.has_embedded_sql else settings
        detail = (
            _describe_stopped_server(settings)
            if server is None
            else asyncio.run(_inspect_server(server, settings, systems))
        )
    except HoldfastError as error:
        return StoreHealth("sql", engine, False, f"{_format_address(settings)}: {error.message}")
    return StoreHealth("sql", engine, True, detail)


def _find_running_server(settings: Settings) -> Settings | None:
    """Return settings that address the embedded server by its socket, or None if it is not running.

    Connecting by the socket does not register a user: the last user to leave would stop the server.
    """
    from holdfast.stores.sql.postgres import EmbeddedServer

    found = EmbeddedServer(_get_folder(settings)).find_running()
    if found is None:
        return None
    address = f"host={quote(found.socket_folder, safe='')}&port={found.port}"
    return replace(settings, sql=f"postgresql://postgres@/{settings.sql_database}?{address}", sql_secret="")


def _describe_stopped_server(settings: Settings) -> str:
    """Describe a server that does not run. Raise `StoreFileError` if its data were lost or replaced."""
    from holdfast.stores.sql.postgres.cluster_marker import refuse_wrong_cluster

    folder = _get_folder(settings)
    refuse_wrong_cluster(folder)
    if not folder.exists():
        return f"{folder} does not exist yet: it is created on first use"
    exposed = describe_exposed((folder, folder / "server"))
    return f"{folder}: the server is stopped and starts on first use; its schemas were not checked{exposed}"


async def _inspect_server(server: Settings, settings: Settings, systems: Sequence[System]) -> str:
    """Describe the server, its reader and each schema. Raise `HoldfastError` if something is unhealthy.

    `server` are the settings to connect with, `settings` the configured ones.
    """
    from holdfast.runtime.factory import open_sql_engine
    from holdfast.stores.sql.postgres.descriptions import get_server_version

    engine = open_sql_engine(server)
    try:
        version = get_server_version(engine.connect)
        pool = f"{settings.sql_pool_min} to {settings.sql_pool_max} connections"
        server_text = f"{_format_address(settings)}, PostgreSQL {version}, {pool}"
        return (
            server_text
            + _inspect_reader(settings)
            + "".join([await _inspect_schemas(engine, each) for each in systems])
        )
    finally:
        engine.close()


def _inspect_reader(settings: Settings) -> str:
    """Return the reader's version; empty without a reader. Raise `StoreUnreachable` if it does not answer.

    It is checked on its own, because statements fall back to the writer if it fails.
    """
    if not settings.sql_reader:
        return ""
    from holdfast.runtime.factory import open_sql_engine
    from holdfast.stores.sql.postgres.descriptions import get_server_version

    reader = open_sql_engine(replace(settings, sql=settings.sql_reader, sql_reader=""))
    try:
        return f", reader PostgreSQL {get_server_version(reader.connect)}"
    except HoldfastError as error:
        raise StoreUnreachable(f"the writer answers, but the reader does not: {error.message}") from error
    finally:
        reader.close()


async def _inspect_schemas(engine: PostgresSql, system: System) -> str:
    return "".join(
        [await _inspect_schema(engine, system, each.name, each.migrations) for each in system.schemas]
    )


async def _inspect_schema(engine: PostgresSql, system: System, name: str, migrations: str) -> str:
    """Describe the schema's revision and pending migration. Raise `SchemaMismatch` if it is newer than the
    code.
    """
    try:
        state = await engine.get_schema_state(name, migrations)
    except AccessRefused:
        return f"; no permission to read the revision of {name}"
    except SchemaMismatch as error:
        raise SchemaMismatch(name, error.current, f"the server answers; {error.message}") from error
    if not state.pending:
        return f"; {name} is up to date at {state.current}"
    change = f"{state.current or 'nothing'} → {state.target}"
    return f"; {name} needs a migration, {change} (`holdfast migrate {system.name}`)"


def _format_address(settings: Settings) -> str:
    """Return the folder of the embedded server, or host, port and database, without the user and
    parameters.
    """
    if settings.has_embedded_sql:
        return str(_get_folder(settings))
    found = urlsplit(settings.sql)
    # Without the user and the parameters, which may name a key file.
    return f"{found.hostname or 'localhost'}:{found.port or 5432}{found.path}"


def _get_folder(settings: Settings) -> Path:
    """Return the folder of the embedded server; a temporary server has none."""
    folder = settings.sql_directory
    assert folder is not None, "a temporary server has no folder"
    return folder
