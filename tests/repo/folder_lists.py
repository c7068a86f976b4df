"""Lists of what only a data folder shows: command answers, SQL schemas, data files, files derived for AWS."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from tests.postgres import connect
from tests.repo.code import load_systems
from tests.repo.command_runs import Shell, derive_files, open_shell, run_commands

# Sections of a CloudFormation template, and the named entries in them.
SECTION: Final = re.compile(r"^([A-Z]\w+):$", re.M)
ENTRY: Final = re.compile(r"^  (\w+):\n    Type: (.+)$", re.M)
# Blocks of Terraform: `resource "aws_sqs_queue" "events"`.
BLOCK: Final = re.compile(r'^(resource|variable|output|data) "([^"]+)"(?: "([^"]+)")?', re.M)
GRANT: Final = re.compile(r"^GRANT .+;$", re.M)

COLUMNS: Final = """
SELECT table_schema, table_name, column_name, data_type, is_nullable
FROM information_schema.columns WHERE table_schema = ANY(%s)"""
INDEXES: Final = "SELECT indexdef FROM pg_indexes WHERE schemaname = ANY(%s)"
CONSTRAINTS: Final = """
SELECT c.conrelid::regclass, c.conname, pg_get_constraintdef(c.oid)
FROM pg_constraint c JOIN pg_namespace n ON n.oid = c.connamespace
WHERE n.nspname = ANY(%s) AND c.contype <> 'n'"""
ROUTINES: Final = """
SELECT routine_schema, routine_name FROM information_schema.routines WHERE routine_schema = ANY(%s)"""


@dataclass(frozen=True)
class Facts:
    """The lines collected from one data folder, and the commands that were run on it."""

    answers: list[str]
    ran: list[str]
    sql: list[str]
    files: list[str]
    derived: list[str]
    retention: list[str]


@cache
def collect_facts() -> Facts:
    """Fill a data folder, run every command on it and describe the result.

    This takes seconds and is done once per process.
    """
    with open_shell() as shell:
        sql = list(_describe_sql(shell))
        derived = list(_describe_derived_files(shell))
        files = list(_describe_files(shell.folder))
        run_commands(shell)
        retention = [
            f"{row['system']}: {row['store']} {row['name']}, {row['what']}" for row in shell.run("retention")
        ]
        return Facts(shell.lines, shell.ran, sql, files, derived, retention)


def list_command_answers() -> list[str]:
    """List the key paths of what each command answers with --json."""
    return collect_facts().answers


def list_sql_schemas() -> list[str]:
    """List tables, columns, indexes, constraints and routines after all migrations."""
    return collect_facts().sql


def list_data_files() -> list[str]:
    """List the files of a data folder, and the tables inside the files of the embedded engines."""
    return collect_facts().files


def list_derived_files() -> list[str]:
    """List the files derived from each system, and the names of the resources in them."""
    return collect_facts().derived


def list_retention() -> list[str]:
    """List what `holdfast retention` says is kept."""
    return collect_facts().retention


# --- SQL ----------------------------------------------------------------------------------------------------


def _describe_sql(shell: Shell) -> Iterator[str]:
    """Yield the columns, indexes, constraints, routines and revisions of every SQL schema."""
    schemas = [schema.name for system in load_systems().values() for schema in system.schemas]
    with connect(shell.settings.sql) as connection:

        def fetch(query: Any) -> list[tuple[Any, ...]]:
            return connection.execute(query, [schemas]).fetchall()

        for schema, table, column, kind, nullable in fetch(COLUMNS):
            yield f"{schema}.{table}.{column}: {kind}{'' if nullable == 'YES' else ', not null'}"
        yield from (definition for (definition,) in fetch(INDEXES))
        yield from (f"{table} {name}: {definition}" for table, name, definition in fetch(CONSTRAINTS))
        yield from (f"routine {schema}.{name}" for schema, name in fetch(ROUTINES))
    for state in shell.run("migrate pagw --status") + shell.run("migrate tripcortex --status"):
        yield f"{state['schema']}: at revision {state['current']}"


# --- files --------------------------------------------------------------------------------------------------


def _describe_files(folder: Path) -> Iterator[str]:
    data = folder / "data"
    for file in data.iterdir():
        # SQLite's own files exist only while a database is open.
        if not file.name.endswith(("-wal", "-shm")):
            yield f"data/{file.name}"
        if file.suffix == ".db":
            yield from (f"data/{file.name}: {line}" for line in _describe_sqlite(file))
    yield from (f"data/objects/BUCKET/{file.name}" for file in (data / "objects").glob("*/*"))


def _describe_sqlite(file: Path) -> Iterator[str]:
    """Yield the identity and the table definitions of a SQLite file, with numbers replaced by N."""
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
        for pragma in ("application_id", "user_version"):
            ((value,),) = connection.execute(f"PRAGMA {pragma}").fetchall()
            yield f"{pragma} {value}"
        for (definition,) in connection.execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL"):
            # The engine numbers the tables of each user.
            yield re.sub(r"\d+", "N", " ".join(definition.split()))


# --- derived files ------------------------------------------------------------------------------------------


def _describe_derived_files(shell: Shell) -> Iterator[str]:
    for name, files in derive_files(shell).items():
        for file in files:
            yield f"{name}: {file.name}"
            yield from (f"{name}: {file.name} has {line}" for line in _describe_derived_file(file))


def _describe_derived_file(file: Path) -> Iterator[str]:
    """Yield the names of the resources, blocks, statements or grants in a generated file."""
    text = file.read_text(encoding="utf-8")
    match file.suffix:
        case ".yaml":
            yield from (f"section {name}" for name in SECTION.findall(text))
            yield from (f"{name} of type {kind}" for name, kind in ENTRY.findall(text))
        case ".tf":
            yield from (" ".join(filter(None, block)) for block in BLOCK.findall(text))
        case ".json":
            yield from (f"statement {each['Sid']}" for each in json.loads(text)["Statement"])
        case ".sql":
            yield from GRANT.findall(text)
