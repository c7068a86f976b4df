"""The health of the SQL store, for `holdfast doctor`: asked, and nothing changed. A server at rest is not woken."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from holdfast.cli.extras import require
from holdfast.cli.store_health import Health
from holdfast.errors import AccessRefused, HoldfastError, SchemaMismatch, StoreUnreachable
from holdfast.settings import TEMPORARY_SQL, Settings

if TYPE_CHECKING:
    from holdfast.model.system import System
    from holdfast.stores.sql.postgres import PostgresSql


def sql_health(settings: Settings, systems: Sequence[System]) -> Health:
    """Whether the server answers, and its reader; how far each schema is, which is no illness unless it is too far."""
    if settings.sql == TEMPORARY_SQL:
        return Health("sql", "embedded", True, "temporary: each process has its own")
    engine = "embedded" if settings.sql_embedded else "postgresql"
    try:
        require("doctor", "sql")
        server = _running(settings) if settings.sql_embedded else settings
        detail = _at_rest(settings) if server is None else asyncio.run(_asked(server, settings, systems))
    except HoldfastError as error:
        return Health("sql", engine, False, f"{_where(settings)}: {error.message}")
    return Health("sql", engine, True, detail)


def _running(settings: Settings) -> Settings | None:
    """The embedded server by its socket, where it runs: one who counts as its user might be the last, and stop it."""
    from holdfast.stores.sql.postgres import EmbeddedServer

    found = EmbeddedServer(_folder(settings)).running()
    if found is None:
        return None
    place = f"host={quote(found.socket_folder, safe='')}&port={found.port}"
    return replace(settings, sql=f"postgresql://postgres@/{settings.sql_database}?{place}", sql_secret="")


def _at_rest(settings: Settings) -> str:
    folder = _folder(settings)
    if not folder.exists():
        return f"{folder} is not there yet: it is made when first needed"
    return f"{folder} is at rest: nobody uses it, and the server is started when first needed; how far its schemas are was not asked"


async def _asked(server: Settings, settings: Settings, systems: Sequence[System]) -> str:
    from holdfast.runtime.opening import open_sql_engine
    from holdfast.stores.sql.postgres.describing import server_version

    engine = open_sql_engine(server)
    try:
        version = server_version(engine.connect)
        told = f"{_where(settings)}, PostgreSQL {version}, {settings.sql_pool_min} to {settings.sql_pool_max} connections"
        return told + _reader(settings) + "".join([await _schemas(engine, system) for system in systems])
    finally:
        engine.close()


def _reader(settings: Settings) -> str:
    """Statements fall back on the writer where the reader does not answer, and so it is asked by itself."""
    if not settings.sql_reader:
        return ""
    from holdfast.runtime.opening import open_sql_engine
    from holdfast.stores.sql.postgres.describing import server_version

    reader = open_sql_engine(replace(settings, sql=settings.sql_reader, sql_reader=""))
    try:
        return f", reader PostgreSQL {server_version(reader.connect)}"
    except HoldfastError as error:
        raise StoreUnreachable(f"the writer answers, and the reader does not: {error.message}") from error
    finally:
        reader.close()


async def _schemas(engine: PostgresSql, system: System) -> str:
    return "".join([await _schema(engine, system, each.name, each.migrations) for each in system.schemas])


async def _schema(engine: PostgresSql, system: System, name: str, migrations: str) -> str:
    try:
        state = await engine.state(name, migrations)
    except AccessRefused:
        return f"; how far {name} is may not be read here"
    except SchemaMismatch as error:
        raise SchemaMismatch(name, error.current, f"the server answers; {error.message}") from error
    if not state.pending:
        return f"; {name} is at {state.current}, the newest"
    way = f"{state.current or 'nothing'} → {state.target}"
    return f"; {name} has yet to be migrated, {way} (`holdfast migrate {system.name}`)"


def _where(settings: Settings) -> str:
    if settings.sql_embedded:
        return str(_folder(settings))
    found = urlsplit(settings.sql)
    # Without the user, and without what might follow: a file of a key is nobody's business.
    return f"{found.hostname or 'localhost'}:{found.port or 5432}{found.path}"


def _folder(settings: Settings) -> Path:
    folder = settings.sql_directory
    assert folder is not None, "a temporary server has no folder to look at"
    return folder
