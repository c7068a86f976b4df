"""Migrations of SQL: an empty schema and one that is behind brought to the newest, once, whole revisions only."""

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
from holdfast.stores.sql.postgres.migrating import migrate, state
from tests.contract.sql_migrations.packages import BOOKS, LOANS, written
from tests.postgres import connected, fresh_database

ROOT = Path(__file__).parents[3]

Rows = list[tuple[Any, ...]]
Look = Callable[[str], Rows]


@pytest.fixture
def url() -> str:
    return fresh_database()


@pytest.fixture
def look(url: str) -> Iterator[Look]:
    """Asks the database from outside."""
    with connected(url) as connection:

        def asked(text: str) -> Rows:
            cursor = connection.execute(text)
            return [] if cursor.description is None else cursor.fetchall()

        yield asked


@pytest.fixture
def connect(url: str) -> Callable[[], psycopg.Connection[Any]]:
    return lambda: connected(url)


def tables(look: Look) -> set[str]:
    return {name for (name,) in look("SELECT tablename FROM pg_tables WHERE schemaname = 'library'")}


def test_an_empty_database_gets_the_schema_and_every_revision_in_order(
    url: str, look: Look, tmp_path: Path
) -> None:
    package = written(tmp_path, {"0001": BOOKS, "0002": LOANS})
    told: list[tuple[str, int, int]] = []

    async def twice() -> tuple[list[str], list[str]]:
        engine = open_postgres(url)
        try:
            first = await engine.migrate("library", package, progress=lambda *each: told.append(each))
            return first, await engine.migrate("library", package)
        finally:
            engine.close()

    assert asyncio.run(twice()) == (["0001 0001 of the library", "0002 0002 of the library"], [])
    assert told == [("0001 0001 of the library", 1, 2), ("0002 0002 of the library", 2, 2)]
    assert tables(look) == {"books", "loans", "alembic_version"}
    assert look("SELECT version_num FROM library.alembic_version") == [("0002",)]


def test_one_that_is_behind_gets_what_it_lacks_and_keeps_its_rows(
    connect: Any, look: Look, tmp_path: Path
) -> None:
    revisions = {"0001": f"{BOOKS}; INSERT INTO library.books (title) VALUES ('Emma')"}
    migrate(connect, "library", written(tmp_path, revisions))
    newer = written(tmp_path, {**revisions, "0002": "ALTER TABLE library.books ADD COLUMN pages INT"})
    behind = state(connect, "library", newer)
    assert (behind.current, behind.target, behind.pending) == ("0001", "0002", ("0002 0002 of the library",))
    assert migrate(connect, "library", newer) == ["0002 0002 of the library"]
    assert look("SELECT title, pages FROM library.books") == [("Emma", None)]
    assert state(connect, "library", newer).pending == ()


def test_a_dry_run_changes_nothing_and_its_sql_brings_a_database_just_there(
    connect: Any, look: Look, tmp_path: Path
) -> None:
    first = {"0001": BOOKS}
    package = written(tmp_path, {**first, "0002": LOANS})
    whole = migrate(connect, "library", package, dry_run=True)
    assert look("SELECT to_regnamespace('library')") == [(None,)]
    migrate(connect, "library", written(tmp_path, first))
    rest = migrate(connect, "library", package, dry_run=True)
    assert state(connect, "library", package).current == "0001"
    assert any("library.books" in each for each in whole)
    assert not any("CREATE TABLE library.books" in each for each in rest)
    with connect() as by_hand:
        by_hand.execute("\n".join(rest))
    assert state(connect, "library", package).pending == ()
    look("DROP SCHEMA library CASCADE")
    with connect() as by_hand:
        by_hand.execute("\n".join(whole))
    assert (state(connect, "library", package).pending, "loans" in tables(look)) == ((), True)


def test_processes_that_start_at_once_migrate_once(url: str, look: Look, tmp_path: Path) -> None:
    counted = f"{BOOKS}; INSERT INTO library.books (title) VALUES ('Emma')"
    package = written(tmp_path, {"0001": counted, "0002": LOANS})
    processes = [begun(url, tmp_path, package) for _ in range(3)]
    told = [process.communicate(timeout=60) for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], told
    assert sorted(len(out.splitlines()) for out, _ in told) == [0, 0, 2]
    assert look("SELECT count(*) FROM library.books") == [(1,)]


def test_a_kill_in_the_middle_of_a_revision_leaves_nothing_of_it(
    url: str, look: Look, tmp_path: Path
) -> None:
    in_the_middle = f"{LOANS}; SELECT pg_advisory_xact_lock(4711)"
    package = written(tmp_path, {"0001": BOOKS, "0002": in_the_middle})
    with connected(url) as holder:
        holder.execute("SELECT pg_advisory_lock(4711)")
        process = begun(url, tmp_path, package)
        assert process.stdout is not None
        assert process.stdout.readline().startswith("0001")
        until(lambda: look("SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted") != [])
        process.kill()
        assert process.wait() == -signal.SIGKILL
        process.communicate()
        assert (tables(look), look("SELECT version_num FROM library.alembic_version")) == (
            {"books", "alembic_version"},
            [("0001",)],
        )
    again = begun(url, tmp_path, package)
    out, err = again.communicate(timeout=60)
    assert (again.returncode, out.split()[0]) == (0, "0002"), err
    assert tables(look) == {"books", "loans", "alembic_version"}


def test_behind_a_long_transaction_it_gives_up_and_says_so(connect: Any, look: Look, tmp_path: Path) -> None:
    migrate(connect, "library", written(tmp_path, {"0001": BOOKS}))
    package = written(tmp_path, {"0001": BOOKS, "0002": "ALTER TABLE library.books ADD COLUMN pages INT"})
    with connect() as reader, reader.transaction():
        reader.execute("SELECT * FROM library.books")
        with pytest.raises(RetryLater, match="0002 .* another transaction holds, gave up and was undone"):
            migrate(connect, "library", package, lock_s=0.1)
    assert migrate(connect, "library", package, lock_s=0.1) == ["0002 0002 of the library"]


def test_behind_another_that_migrates_it_gives_up_and_says_so(connect: Any, tmp_path: Path) -> None:
    package = written(tmp_path, {"0001": BOOKS})
    with connect() as other:
        other.execute("SELECT pg_advisory_lock(hashtextextended('holdfast.migrate.library', 0))")
        with pytest.raises(RetryLater, match="Another process has been migrating the schema library"):
            migrate(connect, "library", package, turn_s=0.2)
    assert migrate(connect, "library", package, turn_s=0.2) == ["0001 0001 of the library"]


def test_an_index_is_built_concurrently_although_another_process_waits_for_its_turn(
    connect: Any, look: Look, tmp_path: Path
) -> None:
    building = "    with op.get_context().autocommit_block():\n"
    building += "        op.execute('CREATE INDEX CONCURRENTLY by_title ON library.books (title)')"
    package = written(tmp_path, {"0001": BOOKS, "0002": building})
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


def test_a_database_that_newer_code_has_migrated_is_refused(connect: Any, look: Look, tmp_path: Path) -> None:
    older = written(tmp_path, {"0001": BOOKS})
    migrate(connect, "library", written(tmp_path, {"0001": BOOKS, "0002": LOANS}))
    for ask in (migrate, partial(migrate, dry_run=True), state):
        with pytest.raises(
            SchemaMismatch, match="at revision 0002, and the newest .* is 0001: newer code"
        ) as told:
            ask(connect, "library", older)
        assert told.value.current == "0002"
    assert look("SELECT version_num FROM library.alembic_version") == [("0002",)]


def test_a_role_that_may_only_read_passes_where_nothing_is_to_be_done(
    url: str, connect: Any, look: Look, tmp_path: Path
) -> None:
    first = written(tmp_path, {"0001": BOOKS})
    migrate(connect, "library", first)
    newer = written(tmp_path, {"0001": BOOKS, "0002": LOANS})
    look("CREATE ROLE library_reader LOGIN")
    as_reader = url.replace("postgres@", "library_reader@")

    def prepared(package: str) -> dict[str, AccessRefused]:
        system = System("library", "Books", [], [], schemas=[Schema("library", migrations=package)])
        return asyncio.run(_prepared(system, replace(MEMORY_SETTINGS, sql=as_reader)))

    try:
        assert list(prepared(first)) == ["schema library"], (
            "what may not be looked at is believed to be right"
        )
        look("GRANT USAGE ON SCHEMA library TO library_reader")
        look("GRANT SELECT ON library.alembic_version TO library_reader")
        assert prepared(first) == {}
        with pytest.raises(AccessRefused, match="0002 .* may not be run by the user"):
            prepared(newer)
        assert "loans" not in tables(look)
    finally:
        look("DROP OWNED BY library_reader; DROP ROLE library_reader")


def test_a_system_is_migrated_before_it_runs(url: str, look: Look, tmp_path: Path) -> None:
    package = written(tmp_path, {"0001": BOOKS})
    system = System("library", "Books", [], [], schemas=[Schema("library", migrations=package)])
    for _ in range(2):
        assert asyncio.run(_prepared(system, replace(MEMORY_SETTINGS, sql=url))) == {}
        assert tables(look) == {"books", "alembic_version"}


def test_a_revision_that_fails_is_undone_and_named_without_the_values_of_rows(
    connect: Any, look: Look, tmp_path: Path
) -> None:
    doubled = f"{LOANS}; INSERT INTO library.books VALUES (1, 'Persuasion'); INSERT INTO library.books VALUES (1, 'Emma')"
    package = written(tmp_path, {"0001": BOOKS, "0002": doubled})
    with pytest.raises(
        SchemaMismatch, match="0002 .* failed and was undone: unique violation .23505."
    ) as told:
        migrate(connect, "library", package)
    assert "Emma" not in told.value.message
    assert "Persuasion" not in f"{told.value.__cause__}{told.value.message}"
    assert tables(look) == {"books", "alembic_version"}
    assert state(connect, "library", package).current == "0001"
    misspelt = written(tmp_path, {"0001": BOOKS, "0002": "CREATE TABEL library.loans ()"})
    with pytest.raises(SchemaMismatch, match='syntax error at or near "TABEL"'):
        migrate(connect, "library", misspelt)
    broken = written(tmp_path, {"0001": BOOKS, "0002": "    raise ValueError('no such shelf')"})
    with pytest.raises(SchemaMismatch, match="0002 .* ValueError: no such shelf"):
        migrate(connect, "library", broken)
    with pytest.raises(SchemaMismatch, match="cannot be told.* ValueError: no such shelf"):
        migrate(connect, "library", broken, dry_run=True)


def test_two_schemas_of_a_database_go_their_own_ways(connect: Any, look: Look, tmp_path: Path) -> None:
    migrate(connect, "library", written(tmp_path, {"0001": BOOKS, "0002": LOANS}))
    museum = written(tmp_path, {"0001": "CREATE TABLE museum.works (id INT)"})
    assert state(connect, "museum", museum).current is None
    migrate(connect, "museum", museum)
    assert look("SELECT version_num FROM museum.alembic_version") == [("0001",)]
    assert look("SELECT version_num FROM library.alembic_version") == [("0002",)]


def test_migrations_that_are_no_single_line_are_refused_before_anything_is_done(
    connect: Any, look: Look, tmp_path: Path
) -> None:
    wrong = {
        "no single line": written(tmp_path, {"0001": BOOKS, "0002": LOANS, "0003": LOANS}, {"0003": "0001"}),
        "that can be read": written(tmp_path, {"0001": BOOKS, "0002": LOANS}, {"0002": "0000"}),
        "has no revision": written(tmp_path, {}),
        "There is no package": "migrations_of_nobody",
        "no package": "migrations_of_nobody.versions",
    }
    for told, package in wrong.items():
        with pytest.raises(DeclarationError, match=told):
            migrate(connect, "library", package)
    assert look("SELECT to_regnamespace('library')") == [(None,)]


def begun(url: str, folder: Path, package: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.contract.sql_migrations.migrating_process"]
    return subprocess.Popen(
        [*command, url, str(folder), package],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def until(is_so: Callable[[], bool], seconds: float = 30) -> None:
    """Asks a server that tells nobody."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


async def _prepared(system: System, settings: Settings) -> dict[str, AccessRefused]:
    async with open_stores(system, settings) as stores:
        return await provision(stores, system)


PERCENTS = {
    "0001": "CREATE TABLE library.books (id text CHECK (id LIKE 'a%'), share text DEFAULT 'it''s; 50%')",
    "0002": "CREATE FUNCTION library.rest() RETURNS int LANGUAGE sql RETURN 7 % 4",
}
MADE_OF = (
    "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'library.books'::regclass UNION ALL "
    "SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 'library.books'::regclass UNION ALL "
    "SELECT pg_get_functiondef('library.rest'::regproc) UNION ALL SELECT version_num FROM library.alembic_version"
)


def test_the_sql_of_a_dry_run_makes_the_same_schema_percent_signs_and_all(
    connect: Callable[[], psycopg.Connection[Any]], look: Look, tmp_path: Path
) -> None:
    package = written(tmp_path, PERCENTS)
    told = migrate(connect, "library", package, dry_run=True)
    migrate(connect, "library", package)
    with connected(fresh_database()) as other:
        other.execute("\n".join(told).encode())
        made = other.execute(MADE_OF).fetchall()
    assert made == look(MADE_OF)
    assert "50%" in str(made)
