"""A PostgreSQL server by its URL: passwords, certificates, addresses, the reader, and pool sizes."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
from collections.abc import Iterator
from contextlib import AsyncExitStack, closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import psycopg
import pytest

from holdfast import open_stores
from holdfast.config.settings import Settings
from holdfast.core.errors import AccessRefused, SettingsError, StatementTimedOut, StoreBusy, StoreUnreachable
from holdfast.operations.sql import Statement, StatementResult
from holdfast.runtime.factory import open_sql_engine
from holdfast.stores.sql.postgres import PoolSizes, PostgresSql, open_postgres
from tests import postgres
from tests.cases import all_cases

from .conftest import PASSWORD, OpenEngine
from .secured_server import USER, SecuredServer
from .test_statements import read, write

WHO = read("SELECT current_user::text AS user, current_database()::text AS database")
_numbers = itertools.count(1)


@pytest.fixture
def database(secured_server: SecuredServer) -> Iterator[str]:
    """Create a database on the secured server; restore the password at the end."""
    name = f"endpoint_{next(_numbers)}"
    secured_server.set_password(PASSWORD)
    secured_server.create_database(name)
    yield name
    secured_server.set_password(PASSWORD)


def answer(engine: PostgresSql, statement: Statement) -> StatementResult:
    """Run one statement and return its result."""
    return asyncio.run(engine.run(statement))


@pytest.mark.proves("PG-56")
async def test_reads_the_password_from_its_secret_and_follows_rotation(
    secured_server: SecuredServer, database: str, tmp_path: Path
) -> None:
    file = tmp_path / "secrets.toml"

    def keep(secret: str) -> None:
        file.touch(mode=0o600)
        file.write_text(f"database = {json.dumps(secret)}\n")

    keep(PASSWORD)
    settings = Settings(
        sql=secured_server.url(database),
        sql_secret="database",
        secrets=f"file:{file}",
        sql_pool_min=0,
        sql_pool_max=1,
    )
    with closing(open_stores(settings=settings).engines.get("sql")) as engine:
        assert (await engine.run(WHO)).rows == ({"user": USER, "database": database},)
        # As Secrets Manager stores it, with the user.
        secured_server.set_password("second-password")
        keep(json.dumps({"username": USER, "password": "second-password"}))
        with secured_server.connect_as_owner() as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s", [USER]
            )
        assert (await engine.run(WHO)).rows == ({"user": USER, "database": database},)


def test_wrong_password_is_refused_without_being_shown(
    secured_server: SecuredServer, database: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    for secret in ("not-the-word", json.dumps({"username": USER, "password": "not-the-word"})):
        with closing(open_postgres(secured_server.url(database), credentials=partial(str, secret))) as engine:
            with pytest.raises(AccessRefused) as refused:
                answer(engine, WHO)
            assert "not-the-word" not in str(refused.value) + str(refused.value.__cause__)
    with closing(
        open_postgres(secured_server.url(database), credentials=lambda: '{"not-the-word": 1}')
    ) as engine:
        with pytest.raises(SettingsError) as ill_formed:
            answer(engine, WHO)
        assert "not-the-word" not in str(ill_formed.value)
    assert "not-the-word" not in caplog.text


def test_rejects_a_server_whose_certificate_has_another_name(
    secured_server: SecuredServer, database: str
) -> None:
    url = secured_server.url(database).replace("127.0.0.1", "localhost")
    with (
        closing(open_postgres(url, credentials=lambda: PASSWORD)) as engine,
        pytest.raises(SettingsError, match="certificate"),
    ):
        answer(engine, WHO)


def test_distinguishes_a_missing_database_from_a_missing_server(secured_server: SecuredServer) -> None:
    with (
        closing(open_postgres(secured_server.url("nowhere"), credentials=lambda: PASSWORD)) as engine,
        pytest.raises(SettingsError, match="does not exist"),
    ):
        answer(engine, WHO)
    with closing(open_postgres("postgresql://nobody@127.0.0.1:1/x")) as engine:
        engine._max_retry_s = 1.0
        with pytest.raises(StoreUnreachable, match="PostgreSQL is unreachable"):
            answer(engine, WHO)


@all_cases(
    "url",
    [
        "postgresql://user:word@db.example.com/x",
        "postgresql://user@db.example.com/x?sslmode=disable",
        "postgresql://user@db.example.com/x?sslmode=prefer",
        "postgresql://user@127.0.0.1,db.example.com/x?sslmode=allow",
        "postgresql://user@localhost/x?hostaddr=203.0.113.7&sslmode=disable",
        "postgresql://user@/x",
        "postgresql://user@localhost/x?service=word",
        "postgresql://user@localhost/x?sslmode=word",
        "postgresql://user@host:port:port/x?word",
    ],
)
def test_refuses_an_insecure_or_ambiguous_address(url: str) -> None:
    """Opening such a URL raises `SettingsError`, whose text does not repeat the password."""
    with pytest.raises(SettingsError) as refused:
        open_postgres(url)
    assert "word" not in str(refused.value).replace("password", "")


def test_remote_address_is_encrypted_by_default() -> None:
    from holdfast.stores.sql.postgres.endpoints import ServerEndpoint

    def mode(url: str) -> str | None:
        found = psycopg.conninfo.conninfo_to_dict(ServerEndpoint(url, None, 1000).conninfo()).get("sslmode")
        return None if found is None else str(found)

    assert mode("postgresql://user@db.example.com/x") == "require"
    assert mode("postgresql://user@db.example.com/x?sslmode=verify-full") == "verify-full"
    # libpq's default, written out so that PGSSLMODE has no effect.
    assert mode("postgresql://user@127.0.0.1/x") == "prefer"


ELSEWHERE = {
    "PGHOST": "203.0.113.7",
    "PGHOSTADDR": "203.0.113.7",
    "PGPORT": "1",
    "PGDATABASE": "elsewhere",
    "PGUSER": "nobody",
    "PGPASSWORD": "word",
    "PGSSLMODE": "disable",
    "PGSSLROOTCERT": "/nowhere.pem",
    "PGOPTIONS": "-c search_path=elsewhere",
    "PGCLIENTENCODING": "SQL_ASCII",
    "PGTARGETSESSIONATTRS": "read-only",
}


def test_ignores_libpq_environment_variables(
    open_engine: OpenEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    statement = read("SELECT current_user::text AS who, current_schema()::text AS schema, 'é' AS letter")
    expected = answer(open_engine(), statement).rows
    for name, value in ELSEWHERE.items():
        monkeypatch.setenv(name, value)
    engine = open_engine()
    assert answer(engine, statement).rows == expected
    monkeypatch.setenv("PGSERVICE", "elsewhere")
    with pytest.raises(SettingsError, match="PGSERVICE"):
        answer(open_engine(), statement)


def test_names_the_reason_once_for_an_unreachable_or_invalid_address() -> None:
    with closing(open_postgres("postgresql://nobody@127.0.0.1:1/x")) as engine:
        engine._max_retry_s = 1.0
        with pytest.raises(StoreUnreachable) as unreachable:
            answer(engine, WHO)
    assert unreachable.value.message.count("PostgreSQL is unreachable") == 1
    assert ".." not in unreachable.value.message
    with (
        closing(open_postgres("postgresql://nobody@127.0.0.1:1/x?channel_binding=banana")) as engine,
        pytest.raises(SettingsError, match="channel_binding"),
    ):
        answer(engine, WHO)
    with (
        closing(open_postgres("postgresql://127.0.0.1:1/x")) as engine,
        pytest.raises(SettingsError, match="has no user"),
    ):
        answer(engine, WHO)


def test_reader_timeout_is_not_retried_on_the_writer() -> None:
    writer, reader = postgres.create_database(), postgres.create_database()
    with closing(open_postgres(writer, reader=reader, statement_timeout_ms=100)) as engine:
        with pytest.raises(StatementTimedOut):
            answer(engine, Statement(text="SELECT pg_sleep(60)", on_reader=True))
        assert _database_name(engine, Statement(text=WHO.text, on_reader=True)) in reader
        with postgres.connect(writer) as connection:
            (count,) = connection.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE "
                "'%pg_sleep%' AND pid <> pg_backend_pid()"
            ).fetchone() or (None,)
        assert count == 0


@pytest.mark.proves("PG-22")
def test_stale_reads_use_the_reader_and_all_else_the_writer() -> None:
    writer, reader = postgres.create_database(), postgres.create_database()
    behind = Statement(text=WHO.text, on_reader=True)
    with closing(open_postgres(writer, reader=reader)) as engine:
        assert _database_name(engine, behind) in reader
        assert _database_name(engine, WHO) in writer
        assert _database_name(engine, write(WHO.text)) in writer


@pytest.mark.proves("PG-22")
def test_the_writer_answers_for_a_reader_that_is_down() -> None:
    writer, reader = postgres.create_database(), postgres.create_database()
    behind = Statement(text=WHO.text, on_reader=True)
    with closing(open_postgres(writer, reader="postgresql://nobody@127.0.0.1:1/x")) as engine:
        assert _database_name(engine, behind) in writer
    with closing(open_postgres(writer, reader=reader)) as engine:
        assert _database_name(engine, behind) in reader
        gone = reader.rpartition("/")[2].partition("?")[0]
        with postgres.connect(writer) as connection:
            connection.execute(f"DROP DATABASE {gone} WITH (FORCE)".encode())
        assert _database_name(engine, behind) in writer


def _database_name(engine: PostgresSql, statement: Statement) -> str:
    """Return the database that answers the statement, in the form in which a URL contains it."""
    name: str = answer(engine, statement).rows[0]["database"]
    return f"/{name}?"


@pytest.mark.proves("PG-22")
def test_pool_has_two_to_ten_connections_by_default() -> None:
    assert (Settings().sql_pool_min, Settings().sql_pool_max) == (2, 10)
    for settings, most in ((Settings(), 10), (Settings(sql_pool_min=1, sql_pool_max=3), 3)):
        url = postgres.create_database()
        with closing(open_sql_engine(replace(settings, sql=url))) as engine:
            assert asyncio.run(_count_sessions(engine, most)) == most


async def _count_sessions(engine: PostgresSql, number: int) -> int:
    """Return the number of sessions while `number` transactions are open and another finds no connection."""
    sessions = read(
        "SELECT count(*) AS n FROM pg_stat_activity "
        "WHERE datname = current_database() AND state IN ('active', 'idle in transaction')"
    )
    async with AsyncExitStack() as open_ones:
        lent = [await open_ones.enter_async_context(engine.transaction()) for _ in range(number)]
        with pytest.raises(StoreBusy, match=f"All {number}"):
            await asyncio.to_thread(engine._writer.acquire, 0.05)
        found: int = (await lent[0].run(sessions)).rows[0]["n"]
    return found


def test_retries_reads_and_repeatable_writes_after_a_lost_connection() -> None:
    url = postgres.create_database()
    with (
        closing(open_postgres(url, sizes=PoolSizes(min=1, max=1))) as engine,
        postgres.connect(url) as other,
    ):
        answer(engine, write("CREATE TABLE t (id integer PRIMARY KEY)"))
        for statement in (WHO, write("INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING", repeatable=True)):
            other.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            assert answer(engine, statement).count == 1
