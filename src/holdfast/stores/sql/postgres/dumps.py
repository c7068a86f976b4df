"""Dumps of an embedded server: every database as it is at one moment, and the restore into a new server.

A dump is logical, made by `pg_dump` from a snapshot that this process exports: statements continue, and the
moment is chosen by the caller. Indexes are built again by the restore, so a dump does not depend on the
processor or the operating system. Decision 0021 has the reasons.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, Final

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.rows import tuple_row

from holdfast.core.disk import open_private
from holdfast.core.errors import DataDamaged, StoreFailed
from holdfast.stores.sql.postgres.embedded import USER, EmbeddedServer
from holdfast.stores.sql.postgres.errors import map_error
from holdfast.stores.sql.postgres.programs import find_client_programs

ROLES_FILE: Final = "roles.sql"
# Exists in every server: a restore connects to it while it creates the others.
MAINTENANCE_DATABASE: Final = "template1"
RESTORE_JOBS: Final = 2
MAX_ERROR_CHARACTERS: Final = 1000
# The server's words for a page that does not match its checksum, or is not a page.
DAMAGE_WORDS: Final = (
    "invalid page",
    "page verification failed",
    "missing chunk number",
    "compressed data is corrupt",
)
_LIST_DATABASES: Final = "SELECT datname FROM pg_database WHERE datallowconn AND NOT datistemplate ORDER BY 1"
_LIST_TABLES: Final = """
    SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind = 'r' AND n.nspname NOT IN ('pg_catalog', 'information_schema')
      AND n.nspname NOT LIKE 'pg\\_toast%' AND n.nspname NOT LIKE 'pg\\_temp%'
    ORDER BY 1, 2
"""

DumpProgress = Callable[[int, int], None]
"""Called with the number of finished databases and of all databases."""


class ServerSnapshot:
    """The databases of a running server as they are when `freeze` is called. Close it at the end."""

    def __init__(self, server: EmbeddedServer) -> None:
        self._server = server
        self._connections: dict[str, psycopg.Connection[Any]] = {}
        with ExitStack() as undo:
            undo.callback(self.close)
            for name in _list_databases(server):
                self._connections[name] = _connect(server, name)
            undo.pop_all()
        self._snapshots: dict[str, str] = {}

    @property
    def version(self) -> str:
        """Return the version of the server, such as 18.4."""
        connection = next(iter(self._connections.values()))
        return str(connection.info.parameter_status("server_version"))

    def freeze(self) -> None:
        """Fix the moment of the dump: the transactions that have committed are in it."""
        with _mapped_errors():
            for name, connection in self._connections.items():
                connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                self._snapshots[name] = _fetch_value(connection, "SELECT pg_export_snapshot()")

    def dump(self, folder: Path, progress: DumpProgress = lambda done, total: None) -> dict[str, str]:
        """Write the roles and a dump of each database into the folder; return the file of each database.

        Raise `DataDamaged` if a table cannot be read.
        """
        roles = ("--roles-only", "--no-role-passwords", *_address(self._server, "postgres"))
        _run("pg_dumpall", *roles, output=folder / ROLES_FILE)
        files: dict[str, str] = {}
        for number, name in enumerate(self._connections):
            progress(number, len(self._connections))
            files[name] = f"{number}.dump"
            moment = f"--snapshot={self._snapshots[name]}"
            _run(
                "pg_dump",
                "--format=custom",
                moment,
                *_address(self._server, name),
                output=folder / files[name],
            )
        progress(len(self._connections), len(self._connections))
        return files

    def count_rows(self) -> dict[str, int]:
        """Return the number of rows of each table, as `database.schema.table`."""
        with _mapped_errors():
            return {
                name: count
                for database, connection in self._connections.items()
                for name, count in _count_rows(connection, database)
            }

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()


def restore_dumps(
    server: EmbeddedServer,
    folder: Path,
    files: Mapping[str, str],
    progress: DumpProgress = lambda done, total: None,
) -> None:
    """Restore dumped databases into a new server that is in use by this process."""
    roles = (folder / ROLES_FILE).read_bytes().replace(f"CREATE ROLE {USER};\n".encode(), b"")
    quietly = ("--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1")
    _run("psql", *quietly, *_address(server, MAINTENANCE_DATABASE), given=roles)
    recreate = ("--create", "--clean", "--if-exists", "--exit-on-error", f"--jobs={RESTORE_JOBS}")
    for number, (name, file) in enumerate(files.items()):
        progress(number, len(files))
        _run("pg_restore", *recreate, *_address(server, MAINTENANCE_DATABASE), str(folder / file))
        # The planner knows nothing about the rows yet.
        with _mapped_errors(), _connect(server, name) as connection:
            connection.execute("ANALYZE")
    progress(len(files), len(files))


def count_rows(server: EmbeddedServer) -> dict[str, int]:
    """Return the number of rows of each table of a running server, as `database.schema.table`."""
    counts: dict[str, int] = {}
    for database in _list_databases(server):
        with _mapped_errors(), _connect(server, database) as connection:
            counts |= dict(_count_rows(connection, database))
    return counts


def _list_databases(server: EmbeddedServer) -> list[str]:
    with _mapped_errors(), _connect(server, "postgres") as connection:
        return [name for (name,) in connection.execute(_LIST_DATABASES)]


def _count_rows(connection: psycopg.Connection[Any], database: str) -> Iterator[tuple[str, int]]:
    for schema, table in connection.execute(_LIST_TABLES).fetchall():
        query = psycopg.sql.SQL("SELECT count(*) FROM {}").format(psycopg.sql.Identifier(schema, table))
        yield f"{database}.{schema}.{table}", _fetch_value(connection, query)


def _fetch_value(connection: psycopg.Connection[Any], query: Any) -> Any:
    row = connection.execute(query).fetchone()
    assert row is not None
    return row[0]


def _connect(server: EmbeddedServer, database: str) -> psycopg.Connection[Any]:
    """Connect without the timeouts of an engine: a count of a large table takes its time."""
    with _mapped_errors():
        return psycopg.connect(_build_conninfo(server, database), autocommit=True, row_factory=tuple_row)


def _address(server: EmbeddedServer, database: str) -> tuple[str, ...]:
    """Return the options that make one of PostgreSQL's programs connect to a database."""
    return ("--no-password", f"--dbname={_build_conninfo(server, database)}")


def _build_conninfo(server: EmbeddedServer, database: str) -> str:
    running = server.ensure_running()
    return make_conninfo(host=running.socket_folder, port=running.port, user=USER, dbname=database)


@contextmanager
def _mapped_errors() -> Iterator[None]:
    """Map the driver's errors; damaged rows are `DataDamaged`."""
    try:
        yield
    except psycopg.Error as error:
        raise _find_damage(str(error)) or map_error(error) from error


def _run(program: str, *arguments: str, output: Path | None = None, given: bytes = b"") -> None:
    """Run one of PostgreSQL's client programs; raise `DataDamaged` or `StoreFailed` if it fails.

    Its output goes through this process, so that it ends with this process.
    """
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PG")}
    with tempfile.TemporaryFile() as errors, tempfile.TemporaryFile() as source:
        source.write(given)
        source.seek(0)
        process = subprocess.Popen(
            [str(find_client_programs() / program), *arguments],
            stdin=source,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment | {"LC_ALL": "C"},
        )
        assert process.stdout is not None
        try:
            _write_output(process.stdout, output)
        finally:
            process.stdout.close()
            # Without a reader of its output, it ends soon.
            code = process.wait()
        errors.seek(0)
        text = errors.read().decode("utf-8", "replace").strip()
    if code != 0:
        raise _find_damage(text) or StoreFailed(
            f"PostgreSQL's {program} failed ({code}): {text[:MAX_ERROR_CHARACTERS]}"
        )


def _write_output(content: IO[bytes], output: Path | None) -> None:
    """Write what a program prints into a new file; without one, discard it."""
    if output is None:
        content.read()
        return
    with open(output, "xb", opener=open_private) as file:
        shutil.copyfileobj(content, file)


def _find_damage(text: str) -> DataDamaged | None:
    """Return the error for a table that cannot be read, if the server's words say so."""
    if not any(words in text for words in DAMAGE_WORDS):
        return None
    return DataDamaged(f"The embedded PostgreSQL is damaged: {text[:MAX_ERROR_CHARACTERS]}")
