"""Migrations of a SQL schema on a real PostgreSQL: order, dry run, concurrency, kills, locks and errors."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from holdfast import Schema, System, open_stores, provision
from holdfast.config.settings import Settings
from holdfast.core.errors import AccessRefused, DeclarationError, RetryLater, SchemaMismatch
from holdfast.runtime.factory import MEMORY_SETTINGS
from holdfast.stores.sql.postgres import open_postgres
from holdfast.stores.sql.postgres.migrator import get_schema_state, migrate
from tests.contract.sql.migrations.packages import BOOKS, LOANS, write_package
from tests.postgres import connect as open_connection
from tests.postgres import create_database

ROOT = Path(__file__).parents[4]

Rows = list[tuple[Any, ...]]
Look = Callable[[str], Rows]


@pytest.fixture
def url() -> str:
    return create_database()


@pytest.fixture
def look(url: str) -> Iterator[Look]:
    """Return a function that queries the database directly."""
    with open_connection(url) as connection:

        def execute(text: str) -> Rows:
            cursor = connection.execute(text)
            return [] if cursor.description is None else cursor.fetchall()

        yield execute


@pytest.fixture
def connect(url: str) -> Callable[[], psycopg.Connection[Any]]:
    return lambda: open_connection(url)


def tables(look: Look) -> set[str]:
    """Return the names of the tables in the schema `library`."""
    return {name for (name,) in look("SELECT tablename FROM pg_tables WHERE schemaname = 'library'")}


def test_an_empty_database_gets_the_schema_and_every_revision_in_order(
    url: str, look: Look, tmp_path: Path
) -> None:
    package = write_package(tmp_path, {"0001": BOOKS, "0002": LOANS})
    progress: list[tuple[str, int, int]] = []

    async def twice() -> tuple[list[str], list[str]]:
        engine = open_postgres(url)
        try:
            first = await engine.migrate("library", package, progress=lambda *each: progress.append(each))
            return first, await engine.migrate("library", package)
        finally:
            engine.close()

    assert asyncio.run(twice()) == (["0001 0001 of the library", "0002 0002 of the library"], [])
    assert progress == [("0001 0001 of the library", 1, 2), ("0002 0002 of the library", 2, 2)]
    assert tables(look) == {"books", "loans", "alembic_version"}
    assert look("SELECT version_num FROM library.alembic_version") == [("0002",)]


def test_outdated_database_is_migrated_and_keeps_its_rows(connect: Any, look: Look, tmp_path: Path) -> None:
    revisions = {"0001": f"{BOOKS}; INSERT INTO library.books (title) VALUES ('Emma')"}
    migrate(connect, "library", write_package(tmp_path, revisions))
    newer = write_package(tmp_path, {**revisions, "0002": "ALTER TABLE library.books ADD COLUMN pages INT"})
    behind = get_schema_state(connect, "library", newer)
    assert (behind.current, behind.target, behind.pending) == ("0001", "0002", ("0002 0002 of the library",))
    assert migrate(connect, "library", newer) == ["0002 0002 of the library"]
    assert look("SELECT title, pages FROM library.books") == [("Emma", None)]
    assert get_schema_state(connect, "library", newer).pending == ()


def test_dry_run_changes_nothing_and_its_sql_migrates_fully(connect: Any, look: Look, tmp_path: Path) -> None:
    first = {"0001": BOOKS}
    package = write_package(tmp_path, {**first, "0002": LOANS})
    whole = migrate(connect, "library", package, dry_run=True)
    assert look("SELECT to_regnamespace('library')") == [(None,)]
    migrate(connect, "library", write_package(tmp_path, first))
    rest = migrate(connect, "library", package, dry_run=True)
    assert get_schema_state(connect, "library", package).current == "0001"
    assert any("library.books" in each for each in whole)
    assert not any("CREATE TABLE library.books" in each for each in rest)
    with connect() as by_hand:
        by_hand.execute("\n".join(rest))
    assert get_schema_state(connect, "library", package).pending == ()
    look("DROP SCHEMA library CASCADE")
    with connect() as by_hand:
        by_hand.execute("\n".join(whole))
    assert (get_schema_state(connect, "library", package).pending, "loans" in tables(look)) == ((), True)


def test_concurrent_processes_migrate_once(url: str, look: Look, tmp_path: Path) -> None:
    counted = f"{BOOKS}; INSERT INTO library.books (title) VALUES ('Emma')"
    package = write_package(tmp_path, {"0001": counted, "0002": LOANS})
    processes = [start_migration(url, tmp_path, package) for _ in range(3)]
    outputs = [process.communicate(timeout=60) for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], outputs
    assert sorted(len(out.splitlines()) for out, _ in outputs) == [0, 0, 2]
    assert look("SELECT count(*) FROM library.books") == [(1,)]


def test_killed_migration_leaves_no_partial_revision(url: str, look: Look, tmp_path: Path) -> None:
    in_the_middle = f"{LOANS}; SELECT pg_advisory_xact_lock(4711)"
    package = write_package(tmp_path, {"0001": BOOKS, "0002": in_the_middle})
    with open_connection(url) as holder:
        holder.execute("SELECT pg_advisory_lock(4711)")
        process = start_migration(url, tmp_path, package)
        assert process.stdout is not None
        assert process.stdout.readline().startswith("0001")
        wait_until(lambda: look("SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted") != [])
        process.kill()
        assert process.wait() == -signal.SIGKILL
        process.communicate()
        assert (tables(look), look("SELECT version_num FROM library.alembic_version")) == (
            {"books", "alembic_version"},
            [("0001",)],
        )
    again = start_migration(url, tmp_path, package)
    out, err = again.communicate(timeout=60)
    assert (again.returncode, out.split()[0]) == (0, "0002"), err
    assert tables(look) == {"books", "loans", "alembic_version"}


def test_times_out_behind_a_long_transaction(connect: Any, look: Look, tmp_path: Path) -> None:
    migrate(connect, "library", write_package(tmp_path, {"0001": BOOKS}))
    package = write_package(
        tmp_path, {"0001": BOOKS, "0002": "ALTER TABLE library.books ADD COLUMN pages INT"}
    )
    with connect() as reader, reader.transaction():
        reader.execute("SELECT * FROM library.books")
        with pytest.raises(RetryLater, match="0002 .* another transaction locks, and was rolled back"):
            migrate(connect, "library", package, lock_s=0.1)
    assert migrate(connect, "library", package, lock_s=0.1) == ["0002 0002 of the library"]


def test_times_out_behind_another_migration(connect: Any, tmp_path: Path) -> None:
    package = write_package(tmp_path, {"0001": BOOKS})
    with connect() as other:
        other.execute("SELECT pg_advisory_lock(hashtextextended('holdfast.migrate.library', 0))")
        with pytest.raises(RetryLater, match="Another process has been migrating the schema library"):
            migrate(connect, "library", package, wait_s=0.2)
    assert migrate(connect, "library", package, wait_s=0.2) == ["0001 0001 of the library"]


def test_builds_an_index_concurrently_while_another_process_waits(
    connect: Any, look: Look, tmp_path: Path
) -> None:
    building = "    with op.get_context().autocommit_block():\n"
    building += "        op.execute('CREATE INDEX CONCURRENTLY by_title ON library.books (title)')"
    package = write_package(tmp_path, {"0001": BOOKS, "0002": building})
    start = threading.Barrier(3)

    def one() -> list[str]:
        start.wait()
        return migrate(connect, "library", package)

    with ThreadPoolExecutor(3) as threads:
        done = [each.result() for each in [threads.submit(one) for _ in range(3)]]
    assert sorted(map(len, done)) == [0, 0, 2]
    assert look("SELECT indisvalid FROM pg_index WHERE indexrelid = 'library.by_title'::regclass") == [
        (True,)
    ]


def test_rejects_a_database_migrated_by_newer_code(connect: Any, look: Look, tmp_path: Path) -> None:
    older = write_package(tmp_path, {"0001": BOOKS})
    migrate(connect, "library", write_package(tmp_path, {"0001": BOOKS, "0002": LOANS}))
    for ask in (migrate, partial(migrate, dry_run=True), get_schema_state):
        with pytest.raises(
            SchemaMismatch, match="at revision 0002, and the newest .* is 0001: newer code"
        ) as refused:
            ask(connect, "library", older)
        assert refused.value.current == "0002"
    assert look("SELECT version_num FROM library.alembic_version") == [("0002",)]


def test_read_only_role_provisions_only_if_nothing_is_pending(
    url: str, connect: Any, look: Look, tmp_path: Path
) -> None:
    """Without the privilege to read the revision, provisioning reports the schema and continues."""
    first = write_package(tmp_path, {"0001": BOOKS})
    migrate(connect, "library", first)
    newer = write_package(tmp_path, {"0001": BOOKS, "0002": LOANS})
    look("CREATE ROLE library_reader LOGIN")
    as_reader = url.replace("postgres@", "library_reader@")

    def provision_as_reader(package: str) -> dict[str, AccessRefused]:
        system = System("library", "Books", schemas=[Schema("library", migrations=package)])
        return asyncio.run(_provision(system, replace(MEMORY_SETTINGS, sql=as_reader)))

    try:
        assert list(provision_as_reader(first)) == ["schema library"], (
            "a schema that may not be inspected is taken as current"
        )
        look("GRANT USAGE ON SCHEMA library TO library_reader")
        look("GRANT SELECT ON library.alembic_version TO library_reader")
        assert provision_as_reader(first) == {}
        with pytest.raises(AccessRefused, match="may not run the revision 0002"):
            provision_as_reader(newer)
        assert "loans" not in tables(look)
    finally:
        look("DROP OWNED BY library_reader; DROP ROLE library_reader")


def test_a_system_is_migrated_before_it_runs(url: str, look: Look, tmp_path: Path) -> None:
    package = write_package(tmp_path, {"0001": BOOKS})
    system = System("library", "Books", schemas=[Schema("library", migrations=package)])
    for _ in range(2):
        assert asyncio.run(_provision(system, replace(MEMORY_SETTINGS, sql=url))) == {}
        assert tables(look) == {"books", "alembic_version"}


def test_failed_revision_is_rolled_back_and_named_without_row_values(
    connect: Any, look: Look, tmp_path: Path
) -> None:
    """So are SQL syntax errors and Python errors in a revision."""
    doubled = f"{LOANS}; INSERT INTO library.books VALUES (1, 'Persuasion'); INSERT INTO library.books VALUES (1, 'Emma')"  # noqa: E501
    package = write_package(tmp_path, {"0001": BOOKS, "0002": doubled})
    with pytest.raises(
        SchemaMismatch, match="0002 .* failed and was rolled back: duplicate key .*SQLSTATE 23505"
    ) as refused:
        migrate(connect, "library", package)
    assert "Emma" not in refused.value.message
    assert "Persuasion" not in f"{refused.value.__cause__}{refused.value.message}"
    assert tables(look) == {"books", "alembic_version"}
    assert get_schema_state(connect, "library", package).current == "0001"
    misspelt = write_package(tmp_path, {"0001": BOOKS, "0002": "CREATE TABEL library.loans ()"})
    with pytest.raises(SchemaMismatch, match='syntax error at or near "TABEL"'):
        migrate(connect, "library", misspelt)
    broken = write_package(tmp_path, {"0001": BOOKS, "0002": "    raise ValueError('no such shelf')"})
    with pytest.raises(SchemaMismatch, match="0002 .* ValueError: no such shelf"):
        migrate(connect, "library", broken)
    with pytest.raises(SchemaMismatch, match="dry run .* is impossible.* ValueError: no such shelf"):
        migrate(connect, "library", broken, dry_run=True)


def test_schemas_migrate_independently(connect: Any, look: Look, tmp_path: Path) -> None:
    migrate(connect, "library", write_package(tmp_path, {"0001": BOOKS, "0002": LOANS}))
    museum = write_package(tmp_path, {"0001": "CREATE TABLE museum.works (id INT)"})
    assert get_schema_state(connect, "museum", museum).current is None
    migrate(connect, "museum", museum)
    assert look("SELECT version_num FROM museum.alembic_version") == [("0001",)]
    assert look("SELECT version_num FROM library.alembic_version") == [("0002",)]


def test_rejects_an_invalid_package_before_changing_anything(
    connect: Any, look: Look, tmp_path: Path
) -> None:
    """Also refused: a missing predecessor, an empty package and a package that does not exist."""
    wrong = {
        "one chain of revisions": write_package(
            tmp_path, {"0001": BOOKS, "0002": LOANS, "0003": LOANS}, {"0003": "0001"}
        ),
        "Give each the one before it": write_package(
            tmp_path, {"0001": BOOKS, "0002": LOANS}, {"0002": "0000"}
        ),
        "has no revision": write_package(tmp_path, {}),
        "does not exist": "migrations_of_nobody",
        "correct the name": "migrations_of_nobody.versions",
    }
    for message, package in wrong.items():
        with pytest.raises(DeclarationError, match=message):
            migrate(connect, "library", package)
    assert look("SELECT to_regnamespace('library')") == [(None,)]


def start_migration(url: str, folder: Path, package: str) -> subprocess.Popen[str]:
    """Start a process that migrates the database with the package."""
    command = [sys.executable, "-m", "tests.contract.sql.migrations.migration_process"]
    return subprocess.Popen(
        [*command, url, str(folder), package],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_until(is_so: Callable[[], bool], seconds: float = 30) -> None:
    """Poll until the condition holds."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


async def _provision(system: System, settings: Settings) -> dict[str, AccessRefused]:
    """Provision the system's stores with these settings. Return the refused parts by name."""
    async with open_stores(system, settings) as stores:
        return await provision(stores, system)


PERCENTS = {
    "0001": "CREATE TABLE library.books (id text CHECK (id LIKE 'a%'), share text DEFAULT 'it''s; 50%')",
    "0002": "CREATE FUNCTION library.rest() RETURNS int LANGUAGE sql RETURN 7 % 4",
}
MADE_OF = (
    "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'library.books'::regclass UNION "
    "ALL SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 'library.books'::regclass "
    "UNION ALL SELECT pg_get_functiondef('library.rest'::regproc) UNION ALL SELECT version_num FROM "
    "library.alembic_version"
)


def test_dry_run_sql_keeps_percent_signs(
    connect: Callable[[], psycopg.Connection[Any]], look: Look, tmp_path: Path
) -> None:
    package = write_package(tmp_path, PERCENTS)
    statements = migrate(connect, "library", package, dry_run=True)
    migrate(connect, "library", package)
    with open_connection(create_database()) as other:
        other.execute("\n".join(statements).encode())
        made = other.execute(MADE_OF).fetchall()
    assert made == look(MADE_OF)
    assert "50%" in str(made)
