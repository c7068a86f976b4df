"""Dump a PostgreSQL schema as CSV files, and load it into a database of the tests.

A dump holds the rows of every table, the values of the sequences and the Alembic revision. Loading
migrates an empty database to that revision, copies the rows in, and upgrades to the newest revision.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, Final

import psycopg
import sqlalchemy
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext, MigrationStep
from psycopg import sql
from sqlalchemy.pool import NullPool

from holdfast import Schema
from holdfast.stores.sql.postgres import open_postgres
from holdfast.stores.sql.postgres.revisions import VERSION_TABLE, load_revisions
from tests.postgres import connect, create_database

STATE: Final = "state.json"
CSV: Final = "(FORMAT csv, HEADER)"
# The columns of each table to copy: the database computes generated columns again.
COLUMNS: Final = """
    SELECT table_name, json_agg(column_name ORDER BY ordinal_position) FROM information_schema.columns
    JOIN information_schema.tables USING (table_schema, table_name)
    WHERE table_schema = %s AND table_type = 'BASE TABLE' AND is_generated = 'NEVER' AND table_name <> %s
    GROUP BY table_name ORDER BY table_name
"""
SEQUENCES: Final = (
    "SELECT sequencename, last_value FROM pg_sequences WHERE schemaname = %s ORDER BY sequencename"
)


def dump(url: str, schema: str, folder: Path) -> None:
    """Write the rows of every table of `schema`, its sequences and its revision into `folder`."""
    folder.mkdir(parents=True)
    with connect(url) as connection:
        for table, columns in connection.execute(COLUMNS, [schema, VERSION_TABLE]).fetchall():
            statement = sql.SQL("COPY {} ({}) TO STDOUT WITH " + CSV)
            with connection.cursor().copy(_format_statement(statement, schema, table, columns)) as rows:
                (folder / f"{table}.csv").write_bytes(b"".join(rows))
        version = sql.SQL("SELECT version_num FROM {}").format(sql.Identifier(schema, VERSION_TABLE))
        [(revision,)] = connection.execute(version).fetchall()
        sequences = dict(connection.execute(SEQUENCES, [schema]).fetchall())
    state = {"revision": revision, "sequences": sequences}
    (folder / STATE).write_text(json.dumps(state, sort_keys=True) + "\n")


def load(folder: Path, schema: Schema) -> str:
    """Return the URL of a new database with the rows of `folder`, at the newest revision of `schema`."""
    url = create_database()
    state = json.loads((folder / STATE).read_text())
    _migrate_to(url, schema, state["revision"])
    with connect(url) as connection:
        # Without triggers and foreign keys, so that tables can be filled in any order.
        connection.execute("SET session_replication_role = replica")
        for file in sorted(folder.glob("*.csv")):
            _fill(connection, schema.name, file)
        for name, value in state["sequences"].items():
            if value is not None:
                connection.execute("SELECT setval(%s, %s)", [f'"{schema.name}"."{name}"', value])
    asyncio.run(_upgrade(url, schema))
    return url


def _fill(connection: psycopg.Connection[Any], schema: str, file: Path) -> None:
    """Copy the rows of a CSV file into the table of its name."""
    rows = file.read_bytes()
    columns = rows.partition(b"\n")[0].decode().split(",")
    statement = sql.SQL("COPY {} ({}) FROM STDIN WITH " + CSV)
    with connection.cursor().copy(_format_statement(statement, schema, file.stem, columns)) as into:
        into.write(rows)


def _format_statement(statement: sql.SQL, schema: str, table: str, columns: list[str]) -> sql.Composed:
    """Put the table and its columns into a COPY statement."""
    return statement.format(sql.Identifier(schema, table), sql.SQL(", ").join(map(sql.Identifier, columns)))


def _migrate_to(url: str, schema: Schema, revision: str) -> None:
    """Run the migrations of `schema` up to `revision`, and none after it."""
    revisions = load_revisions(schema.migrations)
    newer = revisions.after(revision)
    older = [script for script in revisions.after(None) if script not in newer]

    def steps(_heads: Any, _context: Any) -> list[MigrationStep]:
        return [MigrationStep.upgrade_from_script(revisions.scripts.revision_map, each) for each in older]

    engine = sqlalchemy.create_engine(
        "postgresql+psycopg://", creator=lambda: psycopg.connect(url), poolclass=NullPool
    )
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text(f'CREATE SCHEMA "{schema.name}"'))
        options = {"fn": steps, "script": revisions.scripts, "version_table": VERSION_TABLE}
        context = MigrationContext.configure(
            connection, opts={**options, "version_table_schema": schema.name}
        )
        with Operations.context(context):
            context.run_migrations()


async def _upgrade(url: str, schema: Schema) -> None:
    """Run the migrations of `schema` up to the newest revision."""
    engine = open_postgres(url)
    try:
        await engine.migrate(schema.name, schema.migrations)
    finally:
        engine.close()
