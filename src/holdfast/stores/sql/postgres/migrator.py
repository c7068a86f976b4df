"""The migrator: runs the missing revisions of a schema with Alembic, on one connection of its own.

One process migrates while others wait for an advisory lock, which ends with its connection, however that
ends. Each revision and the record that it is done are one transaction: after a kill it is done or not begun.
A schema at its newest revision is only read, so that any number of processes may start, and a role that may
only read as well.
"""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, Final, TypeAlias

import psycopg
import sqlalchemy
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext, MigrationStep
from alembic.script import Script
from psycopg.errors import InsufficientPrivilege, LockNotAvailable
from psycopg.rows import tuple_row
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from holdfast.core.errors import AccessRefused, HoldfastError, SchemaMismatch, StoreBusy, StoreUnreachable
from holdfast.operations.sql.descriptions import SchemaState
from holdfast.stores.sql.postgres.errors import format_reason, is_lost, map_error
from holdfast.stores.sql.postgres.revisions import (
    VERSION_TABLE,
    Revisions,
    format_title,
    load_revisions,
    read_state,
)

# How long to wait for another process's migration, and for tables that another transaction locks.
MIGRATION_WAIT_S: Final = 120.0
TABLE_LOCK_S: Final = 10.0
LOCK_POLL_S: Final = 0.1
CLIENT_CHECK_MS: Final = 1000


# Alembic's `op` is global to the process: two threads would write into each other's schema.
_ALEMBIC_LOCK: Final = threading.Lock()

Connect: TypeAlias = Callable[[], "psycopg.Connection[Any]"]
Progress: TypeAlias = Callable[[str, int, int], None]


def migrate(
    connect: Connect,
    schema: str,
    migrations: str,
    *,
    dry_run: bool = False,
    progress: Progress | None = None,
    wait_s: float = MIGRATION_WAIT_S,
    lock_s: float = TABLE_LOCK_S,
) -> list[str]:
    """Run the missing revisions and return their titles, or with `dry_run` the SQL statements that would run.

    `wait_s` limits the wait for another process's migration, `lock_s` the wait for a locked table.
    """
    revisions = load_revisions(migrations)
    with _map_errors(schema), _open_connection(connect) as connection:
        state = read_state(connection, schema, revisions)
        if not state.pending:
            return []
        if dry_run:
            return _generate_sql(schema, state, revisions)
        _acquire_lock(connection, schema, wait_s)
        # The process before this one may have run all of them.
        pending = revisions.after(read_state(connection, schema, revisions).current)
        return (
            _run(connection, schema, pending, revisions, progress or _ignore_progress, lock_s)
            if pending
            else []
        )


def get_schema_state(connect: Connect, schema: str, migrations: str) -> SchemaState:
    """Return how far a schema is migrated; change nothing."""
    revisions = load_revisions(migrations)
    with _map_errors(schema), _open_connection(connect) as connection:
        return read_state(connection, schema, revisions)


# --- one connection and its lock ----------------------------------------------------------------------------


@contextmanager
def _open_connection(connect: Connect) -> Iterator[psycopg.Connection[Any]]:
    """Open a connection in autocommit mode that returns rows as tuples; close it with the context."""
    with closing(connect()) as connection:
        connection.autocommit, connection.row_factory = True, tuple_row
        yield connection


def _acquire_lock(connection: psycopg.Connection[Any], schema: str, wait_s: float) -> None:
    """Take the schema's advisory lock by polling. Raise `StoreBusy` after `wait_s`.

    A statement that waits for it would hold a snapshot, and block an index that the other process builds
    `CONCURRENTLY`.
    """
    deadline = time.monotonic() + wait_s
    query = "SELECT pg_try_advisory_lock(hashtextextended(%s, 0))"
    while connection.execute(query, [f"holdfast.migrate.{schema}"]).fetchone() != (True,):
        if time.monotonic() >= deadline:
            raise StoreBusy(
                f"Another process has been migrating the schema {schema} for more than {wait_s:g} s: wait "
                "until it has ended, then retry.",
            )
        time.sleep(LOCK_POLL_S)


# --- the revisions ------------------------------------------------------------------------------------------


def _run(
    connection: psycopg.Connection[Any],
    schema: str,
    pending: Sequence[Script],
    revisions: Revisions,
    progress: Progress,
    lock_s: float,
) -> list[str]:
    """Run the pending revisions, each in its own transaction, and return their titles."""
    done: list[str] = []

    def record(**_: Any) -> None:
        done.append(format_title(pending[len(done)]))
        progress(done[-1], len(done), len(pending))

    _prepare_session(connection, schema, lock_s)
    with _wrap_for_alembic(connection) as bound, _ALEMBIC_LOCK:
        options = _build_options(schema, pending, revisions) | {"on_version_apply": [record]}
        context = MigrationContext.configure(connection=bound, opts=options)
        try:
            with Operations.context(context):
                context.run_migrations()
        except Exception as error:
            # A commit may also fail, after the revision was recorded.
            current = pending[min(len(done), len(pending) - 1)]
            raise _map_revision_error(schema, format_title(current), error) from None
    return done


def _prepare_session(connection: psycopg.Connection[Any], schema: str, lock_s: float) -> None:
    """Create the schema if it is missing, and set the session's timeouts.

    A revision's own work has no limit, waiting for locks has one. A server whose client was killed notices
    while it waits, and releases the lock.
    """
    settings = {
        "lock_timeout": round(lock_s * 1000),
        "statement_timeout": 0,
        "idle_in_transaction_session_timeout": 0,
        "client_connection_check_interval": CLIENT_CHECK_MS,
    }
    for name, milliseconds in settings.items():
        query = "SELECT set_config(name, %s, false) FROM pg_catalog.pg_settings WHERE name = %s"
        connection.execute(query, [str(milliseconds), name])
    # Look first: creating a schema needs a privilege on the database, even if the schema exists.
    if connection.execute("SELECT to_regnamespace(%s)", [f'"{schema}"']).fetchone() == (None,):
        connection.execute(psycopg.sql.SQL("CREATE SCHEMA {}").format(psycopg.sql.Identifier(schema)))


@contextmanager
def _wrap_for_alembic(connection: psycopg.Connection[Any]) -> Iterator[sqlalchemy.Connection]:
    """Wrap this very connection for SQLAlchemy, so that migrations connect the same way as the engine."""
    connection.autocommit = False
    engine = sqlalchemy.create_engine(
        "postgresql+psycopg://", creator=lambda: connection, poolclass=NullPool, use_native_hstore=False
    )
    with engine.connect() as bound:
        yield bound


def _build_options(schema: str, pending: Sequence[Script], revisions: Revisions) -> dict[str, Any]:
    """Return Alembic's options: the pending revisions as steps, and the version table in the schema
    itself.
    """

    def steps(_heads: Any, _context: Any) -> list[MigrationStep]:
        upgrade = MigrationStep.upgrade_from_script
        return [upgrade(revisions.scripts.revision_map, script) for script in pending]

    return {
        "fn": steps,
        "script": revisions.scripts,
        "version_table": VERSION_TABLE,
        "version_table_schema": schema,
        "transaction_per_migration": True,
    }


# --- dry run ------------------------------------------------------------------------------------------------


class _StatementSink(io.StringIO):
    """A sink for Alembic's SQL. Alembic writes one statement at a time, with empty lines around it."""

    def __init__(self) -> None:
        super().__init__()
        self.statements: list[str] = []

    def write(self, text: str, /) -> int:
        """Keep the text as one statement, unless it is blank."""
        if stripped := text.strip():
            self.statements.append(stripped)
        return len(text)


def _generate_sql(schema: str, state: SchemaState, revisions: Revisions) -> list[str]:
    """Return the statements of the pending revisions without running them.

    Raise `SchemaMismatch` if one reads from the database.
    """
    sink = _StatementSink()
    options = _build_options(schema, revisions.after(state.current), revisions)
    options |= {"as_sql": True, "output_buffer": sink, "starting_rev": state.current}
    with _ALEMBIC_LOCK:
        # Another parameter style than the driver's, which would double each percent sign.
        context = MigrationContext.configure(
            dialect_name="postgresql", dialect_opts={"paramstyle": "named"}, opts=options
        )
        try:
            with Operations.context(context):
                context.run_migrations()
        except Exception as error:
            raise SchemaMismatch(
                schema,
                state.current,
                f"A dry run of {schema} from {state.current or 'nothing'} to {state.target} is impossible: a "
                f"revision reads from the database: {type(error).__name__}: {error}",
            ) from error
    first = [] if state.current is not None else [f'CREATE SCHEMA IF NOT EXISTS "{schema}";']
    return [*first, *sink.statements]


# --- errors -------------------------------------------------------------------------------------------------


@contextmanager
def _map_errors(schema: str) -> Iterator[None]:
    """Map errors of the driver before the first revision: of the connection, and of missing privileges."""
    try:
        yield
    except InsufficientPrivilege as error:
        raise AccessRefused(
            str(error.sqlstate),
            f"The user of the setting `sql` may not read the revision of the schema {schema}, or may not "
            f"create the schema: {format_reason(error)}. Grant it USAGE on the schema and SELECT on "
            f"{VERSION_TABLE}, or let the schema's owner run `holdfast migrate`.",
        ) from None
    except psycopg.Error as error:
        raise map_error(error) from None


def _map_revision_error(schema: str, revision: str, error: BaseException) -> HoldfastError:
    """Return the error for a revision that failed: it was rolled back, those before it stay."""
    error = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    subject = f"The revision {revision} of the schema {schema}"
    match error:
        case LockNotAvailable():
            return StoreBusy(
                f"{subject} waited too long for a table that another transaction locks, and was rolled back: "
                f"{format_reason(error)}. End the long transaction, or retry when it has ended.",
            ).with_code(str(error.sqlstate))
        case InsufficientPrivilege():
            return AccessRefused(
                str(error.sqlstate),
                f"The user of the setting `sql` may not run the revision {revision} of the schema {schema}: "
                f"{format_reason(error)}. Let the schema's owner run `holdfast migrate`.",
            )
        case psycopg.Error() if is_lost(error):
            return StoreUnreachable(
                f"{subject} was rolled back because the connection was lost ({format_reason(error)}): run it "
                "again."
            ).with_code(error.sqlstate or "")
    code = (error.sqlstate or "") if isinstance(error, psycopg.Error) else ""
    return SchemaMismatch(
        schema, None, f"{subject} failed and was rolled back: {_format_error(error)}. Correct its file."
    ).with_code(code)


def _format_error(error: BaseException) -> str:
    """Return a text that names the mistake, without the values of a row."""
    return format_reason(error) if isinstance(error, psycopg.Error) else f"{type(error).__name__}: {error}"


def _ignore_progress(_what: str, _done: int, _total: int) -> None:
    return None
