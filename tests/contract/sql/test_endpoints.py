"""A server by its URL: who may log in, what is encrypted, which of writer and reader is asked."""

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
from holdfast.operations.sql import Answer, Statement
from holdfast.runtime.factory import open_sql_engine
from holdfast.stores.sql.postgres import PoolSizes, PostgresSql, open_postgres
from tests import postgres

from .conftest import PASSWORD, Opened
from .secured_server import USER, SecuredServer
from .test_statements import read, write

WHO = read("SELECT current_user::text AS user, current_database()::text AS database")
_numbers = itertools.count(1)


@pytest.fixture
def database(secured: SecuredServer) -> Iterator[str]:
    name = f"endpoint_{next(_numbers)}"
    secured.set_password(PASSWORD)
    secured.create_database(name)
    yield name
    secured.set_password(PASSWORD)


def answer(engine: PostgresSql, statement: Statement) -> Answer:
    return asyncio.run(engine.run(statement))


@pytest.mark.proves("PG-56")
def test_the_password_is_fetched_by_its_secrets_name_and_a_new_one_is_used_once_it_is_rotated(
    secured: SecuredServer, database: str, tmp_path: Path
) -> None:
    file = tmp_path / "secrets.toml"

    def keep(secret: str) -> None:
        file.touch(mode=0o600)
        file.write_text(f"database = {json.dumps(secret)}\n")

    keep(PASSWORD)
    settings = Settings(
        sql=secured.url(database),
        sql_secret="database",
        secrets=f"file:{file}",
        sql_pool_min=0,
        sql_pool_max=1,
    )
    with closing(open_stores(settings=settings).engines.get("sql")) as engine:
        assert asyncio.run(engine.run(WHO)).rows == ({"user": USER, "database": database},)
        # As Secrets Manager keeps it, with the user.
        secured.set_password("second-password")
        keep(json.dumps({"username": USER, "password": "second-password"}))
        with secured.as_owner() as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s", [USER]
            )
        assert asyncio.run(engine.run(WHO)).rows == ({"user": USER, "database": database},)


def test_a_wrong_password_is_refused_and_shown_nowhere(
    secured: SecuredServer, database: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    for secret in ("not-the-word", json.dumps({"username": USER, "password": "not-the-word"})):
        with closing(open_postgres(secured.url(database), credentials=partial(str, secret))) as engine:
            with pytest.raises(AccessRefused) as refused:
                answer(engine, WHO)
            assert "not-the-word" not in str(refused.value) + str(refused.value.__cause__)
    with closing(open_postgres(secured.url(database), credentials=lambda: '{"not-the-word": 1}')) as engine:
        with pytest.raises(SettingsError) as ill_formed:
            answer(engine, WHO)
        assert "not-the-word" not in str(ill_formed.value)
    assert "not-the-word" not in caplog.text


def test_a_server_whose_certificate_is_anothers_is_not_spoken_to(
    secured: SecuredServer, database: str
) -> None:
    url = secured.url(database).replace("127.0.0.1", "localhost")
    with (
        closing(open_postgres(url, credentials=lambda: PASSWORD)) as engine,
        pytest.raises(SettingsError, match="certificate"),
    ):
        answer(engine, WHO)


def test_a_database_that_is_not_there_and_a_server_that_is_not_are_told_apart(secured: SecuredServer) -> None:
    with (
        closing(open_postgres(secured.url("nowhere"), credentials=lambda: PASSWORD)) as engine,
        pytest.raises(SettingsError, match="is not there"),
    ):
        answer(engine, WHO)
    with closing(open_postgres("postgresql://nobody@127.0.0.1:1/x")) as engine:
        engine._patience_s = 0.1
        with pytest.raises(StoreUnreachable, match="not reached"):
            answer(engine, WHO)


@pytest.mark.parametrize(
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
def test_refuses_an_address_that_would_show_a_password_or_the_rows(url: str) -> None:
    with pytest.raises(SettingsError) as refused:
        open_postgres(url)
    assert "word" not in str(refused.value).replace("password", "")


def test_an_address_elsewhere_is_encrypted_unless_it_says_how() -> None:
    from holdfast.stores.sql.postgres.endpoints import ServerEndpoint

    def mode(url: str) -> str | None:
        found = psycopg.conninfo.conninfo_to_dict(ServerEndpoint(url, None, 1000).conninfo()).get("sslmode")
        return None if found is None else str(found)

    assert mode("postgresql://user@db.example.com/x") == "require"
    assert mode("postgresql://user@db.example.com/x?sslmode=verify-full") == "verify-full"
    # What libpq does where nobody says anything: written out, so that PGSSLMODE has no say.
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


def test_no_variable_of_libpq_decides_where_rows_go_or_how(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = read("SELECT current_user::text AS who, current_schema()::text AS schema, 'é' AS letter")
    expected = answer(opened(), asked).rows
    for name, value in ELSEWHERE.items():
        monkeypatch.setenv(name, value)
    engine = opened()
    assert answer(engine, asked).rows == expected
    monkeypatch.setenv("PGSERVICE", "elsewhere")
    with pytest.raises(SettingsError, match="PGSERVICE"):
        answer(opened(), asked)


def test_an_unreachable_server_is_told_once_and_an_ill_said_address_is_for_good() -> None:
    with closing(open_postgres("postgresql://nobody@127.0.0.1:1/x")) as engine:
        engine._patience_s = 0.1
        with pytest.raises(StoreUnreachable) as unreachable:
            answer(engine, WHO)
    assert unreachable.value.message.count("not reached") == 1
    assert ".." not in unreachable.value.message
    with (
        closing(open_postgres("postgresql://nobody@127.0.0.1:1/x?channel_binding=banana")) as engine,
        pytest.raises(SettingsError, match="channel_binding"),
    ):
        answer(engine, WHO)
    with (
        closing(open_postgres("postgresql://127.0.0.1:1/x")) as engine,
        pytest.raises(SettingsError, match="names no user"),
    ):
        answer(engine, WHO)


def test_a_statement_that_takes_too_long_at_the_reader_is_told_and_not_asked_of_the_writer() -> None:
    writer, reader = postgres.fresh_database(), postgres.fresh_database()
    with closing(open_postgres(writer, reader=reader, statement_timeout_ms=100)) as engine:
        with pytest.raises(StatementTimedOut):
            answer(engine, Statement(text="SELECT pg_sleep(60)", on_reader=True))
        assert _name(engine, Statement(text=WHO.text, on_reader=True)) in reader
        with postgres.connected(writer) as connection:
            (asked,) = connection.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%pg_sleep%' "
                "AND pid <> pg_backend_pid()"
            ).fetchone() or (None,)
        assert asked == 0


@pytest.mark.proves("PG-22")
def test_reads_that_may_be_behind_go_to_the_reader_and_all_else_to_the_writer() -> None:
    writer, reader = postgres.fresh_database(), postgres.fresh_database()
    behind = Statement(text=WHO.text, on_reader=True)
    with closing(open_postgres(writer, reader=reader)) as engine:
        assert _name(engine, behind) in reader
        assert _name(engine, WHO) in writer
        assert _name(engine, write(WHO.text)) in writer


@pytest.mark.proves("PG-22")
def test_the_writer_answers_for_a_reader_that_is_down() -> None:
    writer, reader = postgres.fresh_database(), postgres.fresh_database()
    behind = Statement(text=WHO.text, on_reader=True)
    with closing(open_postgres(writer, reader="postgresql://nobody@127.0.0.1:1/x")) as engine:
        assert _name(engine, behind) in writer
    with closing(open_postgres(writer, reader=reader)) as engine:
        assert _name(engine, behind) in reader
        gone = reader.rpartition("/")[2].partition("?")[0]
        with postgres.connected(writer) as connection:
            connection.execute(f"DROP DATABASE {gone} WITH (FORCE)".encode())
        assert _name(engine, behind) in writer


def _name(engine: PostgresSql, statement: Statement) -> str:
    name: str = answer(engine, statement).rows[0]["database"]
    return f"/{name}?"


@pytest.mark.proves("PG-22")
def test_the_pool_keeps_two_connections_and_has_ten_at_most_unless_the_settings_say_otherwise() -> None:
    assert (Settings().sql_pool_min, Settings().sql_pool_max) == (2, 10)
    for settings, most in ((Settings(), 10), (Settings(sql_pool_min=1, sql_pool_max=3), 3)):
        url = postgres.fresh_database()
        with closing(open_sql_engine(replace(settings, sql=url))) as engine:
            engine._patience_s = 5.0
            assert asyncio.run(_all_lent(engine, most)) == most


async def _all_lent(engine: PostgresSql, number: int) -> int:
    """How many sessions there are while so many transactions are open and another finds no connection."""
    sessions = read(
        "SELECT count(*) AS n FROM pg_stat_activity "
        "WHERE datname = current_database() AND state IN ('active', 'idle in transaction')"
    )
    async with AsyncExitStack() as open_ones:
        lent = [await open_ones.enter_async_context(engine.transaction()) for _ in range(number)]
        engine._patience_s = 0.05
        with pytest.raises(StoreBusy, match=f"All {number}"):
            await engine.run(WHO)
        found: int = (await lent[0].run(sessions)).rows[0]["n"]
    return found


def test_reads_and_repeatable_writes_are_asked_again_when_their_connection_is_lost() -> None:
    url = postgres.fresh_database()
    with (
        closing(open_postgres(url, sizes=PoolSizes(min=1, max=1))) as engine,
        postgres.connected(url) as other,
    ):
        answer(engine, write("CREATE TABLE t (id integer PRIMARY KEY)"))
        for statement in (WHO, write("INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING", repeatable=True)):
            other.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            assert answer(engine, statement).count == 1
