"""Single statements and transactions on both SQL engines: values, counts, refusals, timeouts, deadlocks."""

from __future__ import annotations

import asyncio
import traceback
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from enum import StrEnum
from typing import Any
from uuid import UUID

import pytest
from pydantic import field_validator

from holdfast import Schema
from holdfast.core.errors import (
    ConditionFailed,
    DeclarationError,
    HoldfastError,
    InvalidRequest,
    ItemUnreadable,
    NotFound,
    RequestRefused,
    RowAlreadyExists,
    StatementTimedOut,
    StoreClosed,
    TransactionConflict,
)
from holdfast.model.sql import RESERVED_WORDS, SqlRow
from holdfast.operations.sql import Statement, StatementResult
from holdfast.stores.sql.postgres import PoolSizes, PostgresSql

from .conftest import OpenEngine

MADE = (
    "CREATE TABLE patient (id integer PRIMARY KEY, name text NOT NULL CHECK (name <> ''), born date, "
    "of integer REFERENCES patient (id), CONSTRAINT one_name UNIQUE (name))"
)


class Colour(StrEnum):
    red = "red"


def read(text: str, /, **parameters: Any) -> Statement:
    """Return a statement that reads, with these parameters."""
    return Statement(text=text, parameters=parameters)


def write(
    text: str, /, *, expected: int | None = None, repeatable: bool = False, **parameters: Any
) -> Statement:
    """Return a statement that writes, of the pattern S9."""
    return Statement(
        text=text, parameters=parameters, writes=True, expected=expected, repeatable=repeatable, pattern="S9"
    )


def add(id: int, name: str, *, expected: int | None = None) -> Statement:
    """Return the statement that inserts a patient."""
    return write(
        "INSERT INTO patient (id, name) VALUES (%(id)s, %(name)s)", id=id, name=name, expected=expected
    )


async def count(engine: PostgresSql) -> int:
    """Return the number of patients."""
    answer = await engine.run(read("SELECT count(*) AS n FROM patient"))
    found: int = answer.rows[0]["n"]
    return found


async def failure(engine: PostgresSql, *statements: Statement) -> HoldfastError:
    """Return the error that the statements raise: one alone, or several in one transaction."""
    with pytest.raises(HoldfastError) as refused:
        await (engine.run(statements[0]) if len(statements) == 1 else engine.run_all(statements))
    return refused.value


VALUES: list[tuple[Any, str]] = [
    ({"a": [1, None, "é\u2028"], "b": {"c": True}}, "jsonb"),
    ([1, "two", [3]], "jsonb"),
    ([], "jsonb"),
    (("a", "b"), "text[]"),
    ((1, 2**40), "bigint[]"),
    (datetime(2026, 11, 15, 12, 30, 1, 5, tzinfo=UTC), "timestamptz"),
    (Decimal("12.340"), "numeric"),
    (UUID(int=7), "uuid"),
    (b"\x00\xff", "bytea"),
    (2**62, "bigint"),
    (-0.25, "double precision"),
    (True, "boolean"),
    ("percent % and ' quote", "text"),
    (None, "text"),
]


async def test_values_come_back_unchanged(engine: PostgresSql) -> None:
    for value, kind in VALUES:
        (row,) = (await engine.run(read(f"SELECT %(value)s::{kind} AS value", value=value))).rows
        assert row["value"] == (list(value) if type(value) is tuple else value), kind


async def test_tuple_is_sent_as_an_array(engine: PostgresSql) -> None:
    await engine.run(write(MADE))
    await engine.run_all([add(1, "a"), add(2, "b"), add(3, "c")])
    found = await engine.run(
        read("SELECT id FROM patient WHERE id = ANY(%(ids)s) ORDER BY id", ids=(1, 3, 9))
    )
    assert found == StatementResult(rows=({"id": 1}, {"id": 3}), count=2)
    named = await engine.run(read("SELECT id FROM patient WHERE name = ANY(%(names)s)", names=("b",)))
    assert named.rows == ({"id": 2},)
    no_row = await engine.run(read("SELECT id FROM patient WHERE name = ANY(%(names)s)", names=()))
    assert no_row.rows == ()


async def test_an_enumeration_is_its_text_and_a_time_comes_back_in_utc(engine: PostgresSql) -> None:
    noon_there = datetime(2026, 7, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    statement = read(
        "SELECT %(colour)s AS colour, %(at)s::timestamptz AS at", colour=Colour.red, at=noon_there
    )
    (row,) = (await engine.run(statement)).rows
    assert row == {"colour": "red", "at": noon_there}
    assert row["at"].utcoffset() == timedelta()


async def test_rejects_unsupported_values_without_showing_them(engine: PostgresSql) -> None:
    for value in (
        datetime(2026, 1, 1),
        (datetime(2026, 1, 1),),
        {"Jane Doe": {1, 2}},
        [float("nan")],
        "Jane\x00Doe",
        object(),
    ):
        refused = await failure(engine, read("SELECT %(value)s::text AS value", value=value))
        assert isinstance(refused, InvalidRequest), value
        assert "Jane" not in _format_error(refused)


async def test_transaction_is_all_or_nothing(engine: PostgresSql) -> None:
    await engine.run(write(MADE))
    answers = await engine.run_all(
        [add(1, "a"), write("UPDATE patient SET name = 'b' WHERE id = 1 RETURNING name", expected=1)]
    )
    assert answers == [StatementResult(count=1), StatementResult(rows=({"name": "b"},), count=1)]
    refused = await failure(engine, add(2, "c"), add(3, "d"), add(2, "e"))
    assert isinstance(refused, RowAlreadyExists)
    assert await count(engine) == 1


async def test_unexpected_row_count_rolls_back_all(engine: PostgresSql) -> None:
    await engine.run(write(MADE))
    no_row = write("UPDATE patient SET name = 'z' WHERE id = 77", expected=1)
    assert isinstance(await failure(engine, add(1, "a"), no_row), ConditionFailed)
    assert isinstance(await failure(engine, no_row), ConditionFailed)
    everybody = write("DELETE FROM patient", expected=1)
    await engine.run_all([add(1, "a"), add(2, "b")])
    assert isinstance(await failure(engine, everybody), ConditionFailed)
    assert await count(engine) == 2
    with pytest.raises(ConditionFailed):
        await _transact(engine, add(3, "c"), no_row)
    assert await count(engine) == 2


async def _transact(engine: PostgresSql, *statements: Statement) -> None:
    """Run the statements in a transaction of the caller."""
    async with engine.transaction() as transaction:
        for statement in statements:
            await transaction.run(statement)


REFUSED: list[tuple[Statement, type[HoldfastError], str, str]] = [
    (
        add(1, "Jane Doe"),
        RowAlreadyExists,
        "23505",
        'duplicate key value violates unique constraint "patient_pkey"',
    ),
    (add(2, "Jane Roe"), RowAlreadyExists, "23505", "one_name"),
    (add(3, ""), InvalidRequest, "23514", 'violates check constraint "patient_name_check"'),
    (
        write("INSERT INTO patient (id) VALUES (4)"),
        InvalidRequest,
        "23502",
        'null value in column "name" of relation "patient" violates not-null constraint',
    ),
    (
        write("INSERT INTO patient (id, name, of) VALUES (5, 'Jane Poe', 4711)"),
        InvalidRequest,
        "23503",
        "patient_of_fkey",
    ),
    (
        write("UPDATE patient SET born = %(text)s::text::date", text='Jane "Q" Doe'),
        InvalidRequest,
        "22007",
        "invalid input syntax for type date: … (SQLSTATE 22007)",
    ),
    (write("UPDATE patient SET id = %(n)s", n=2**40), InvalidRequest, "22003", "integer out of range"),
    (write("SELECT 1 / 0"), InvalidRequest, "22012", "division by zero (SQLSTATE 22012)"),
    (
        write("DO $$BEGIN RAISE EXCEPTION 'Jane Doe is refused'; END$$"),
        RequestRefused,
        "P0001",
        "raise exception (SQLSTATE P0001)",
    ),
    (write("SELECT * FROM stranger"), NotFound, "42P01", 'relation "stranger" does not exist'),
    (write("SELECT * FROM nowhere.stranger"), NotFound, "42P01", "holdfast migrate"),
    (write("SELECT stranger FROM patient"), DeclarationError, "42703", "stranger"),
    (write("SELEKT 1"), DeclarationError, "42601", 'syntax error at or near "SELEKT"'),
]


async def test_keeps_sqlstate_and_sentence_of_each_refusal_without_row_values(engine: PostgresSql) -> None:
    await engine.run(write(MADE))
    await engine.run_all([add(1, "Jane Roe")])
    for statement, kind, state, message in REFUSED:
        alone = await failure(engine, statement)
        among = await failure(engine, read("SELECT 1"), statement, read("SELECT 2"))
        for refused in (alone, among):
            assert (type(refused), refused.code) == (kind, state), (statement.text, refused)
            # A missing table is not the caller's to fix.
            assert refused.is_for_operator is (kind is NotFound)
            assert message in refused.message
            assert "S9" in refused.message
            assert "Jane" not in _format_error(refused)
            assert "4711" not in _format_error(refused)
    conflict = await failure(engine, add(1, "x"))
    assert isinstance(conflict, RowAlreadyExists)
    assert conflict.constraint == "patient_pkey"
    assert await count(engine) == 1


class Numbered(SqlRow):
    """A row whose text column is declared as a number."""

    name: int


class Doubted(SqlRow):
    """A row whose validator refuses every name and mentions it in the error."""

    name: str

    @field_validator("name")
    @classmethod
    def reject_name(cls, name: str) -> str:
        raise ValueError(f"{name} is nobody")


async def test_invalid_row_is_reported_by_column_without_its_value(engine: PostgresSql) -> None:
    schema = Schema("patients", migrations="none")

    await engine.run(write(MADE))
    await engine.run(add(1, "Jane Roe"))
    for row in (Numbered, Doubted):
        statement = schema.rows(row, "SELECT {columns} FROM patient")
        answer = await engine.run(statement.build_request("dev"))
        with pytest.raises(ItemUnreadable, match="name: ") as refused:
            statement.decode_result(answer)
        assert "Jane" not in _format_error(refused.value)
        assert (refused.value.__cause__, refused.value.__context__) == (None, None)


UNREADABLE = ["'0044-03-15 BC'::date", "'infinity'::timestamptz", "'99999-01-02'::date"]


async def test_value_without_a_python_type_is_reported_by_column(
    engine: PostgresSql,
) -> None:
    for value in UNREADABLE:
        statement = read(f"SELECT 1 AS id, {value} AS born")
        for refused in (
            await failure(engine, statement),
            await failure(engine, read("SELECT 1"), statement, read("SELECT 2")),
        ):
            assert type(refused) is ItemUnreadable, refused
            assert "column born" in refused.message
            assert not any(each in _format_error(refused) for each in ("0044", "infinity", "99999"))
    assert (await engine.run(read("SELECT 1 AS one"))).rows == ({"one": 1},)


async def test_reserved_words_may_name_columns(engine: PostgresSql) -> None:
    """`RESERVED_WORDS` equals PostgreSQL's list, and columns with such names are quoted."""
    kept = read("SELECT word FROM pg_get_keywords() WHERE catcode IN ('R', 'T', 'C')")

    words = {row["word"] for row in (await engine.run(kept)).rows}
    assert words == RESERVED_WORDS
    named = Schema("words", migrations="none").rows(Worded, "SELECT {columns} FROM worded")
    await engine.run(write('CREATE TABLE worded ("user" text, "end" text, "order" text, plain text)'))
    await engine.run(write("INSERT INTO worded VALUES ('ada', 'b', 'c', 'd')"))
    assert named.decode_result(await engine.run(named.build_request("dev"))) == (
        Worded(user="ada", end="b", order="c", plain="d"),
    )


class Worded(SqlRow):
    """A row whose columns are named by reserved words."""

    user: str
    end: str
    order: str
    plain: str


def _format_error(error: BaseException) -> str:
    """Return everything a log would show of the error, including causes and suppressed contexts."""
    shown = "".join(traceback.format_exception(error))
    assert error.__context__ is None or "psycopg" not in type(error.__context__).__module__
    return shown


async def test_slow_statement_times_out_and_is_rolled_back(open_engine: OpenEngine) -> None:
    engine = open_engine(statement_timeout_ms=100)

    await engine.run(write(MADE))
    slow = write("INSERT INTO patient SELECT 1, 'a' FROM pg_sleep(60)")
    assert isinstance(await failure(engine, slow), StatementTimedOut)
    assert await count(engine) == 0


async def test_wait_for_a_locked_row_times_out(open_engine: OpenEngine) -> None:
    engine = open_engine(statement_timeout_ms=300)

    await engine.run(write(MADE))
    await engine.run(add(1, "a"))
    async with engine.transaction() as transaction:
        await transaction.run(write("UPDATE patient SET name = 'b' WHERE id = 1"))
        blocked = await failure(engine, write("UPDATE patient SET name = 'c' WHERE id = 1"))
        assert isinstance(blocked, StatementTimedOut)


async def test_deadlock_fails_one_transaction_with_a_conflict(engine: PostgresSql) -> None:
    await engine.run(write(MADE))
    await engine.run_all([add(1, "a"), add(2, "b")])
    met = asyncio.Barrier(2)

    async def change(first: int, second: int) -> str:
        try:
            async with engine.transaction() as transaction:
                await transaction.run(write("UPDATE patient SET born = NULL WHERE id = %(id)s", id=first))
                await met.wait()
                await transaction.run(write("UPDATE patient SET born = NULL WHERE id = %(id)s", id=second))
        except TransactionConflict:
            return "conflict"
        return "done"

    outcomes = await asyncio.gather(change(1, 2), change(2, 1))
    assert sorted(outcomes) == ["conflict", "done"]


async def test_engine_serves_successive_event_loops_until_closed(open_engine: OpenEngine) -> None:
    engine = open_engine()
    for _ in range(3):
        assert (await engine.run(read("SELECT 1 AS one"))).rows == ({"one": 1},)
    engine.close()
    engine.close()
    with pytest.raises(StoreClosed):
        await engine.run(read("SELECT 1"))


async def test_many_concurrent_transactions_share_few_connections(open_engine: OpenEngine) -> None:
    engine = open_engine(sizes=PoolSizes(min=1, max=3))

    await engine.run(write(MADE))
    await asyncio.gather(*(engine.run_all([add(n, str(n))]) for n in range(60)))
    assert await count(engine) == 60
    sessions = read(
        "SELECT count(*) AS n FROM pg_stat_activity WHERE datname = current_database() AND backend_type "
        "= 'client backend'"
    )
    assert (await engine.run(sessions)).rows[0]["n"] <= 3


async def test_a_prepared_statement_outlives_a_change_of_its_table(open_engine: OpenEngine) -> None:
    engine = open_engine(sizes=PoolSizes(min=1, max=1))

    await engine.run(write(MADE))
    for _ in range(8):
        await engine.run(read("SELECT * FROM patient"))
    await engine.run(write("ALTER TABLE patient ADD COLUMN town text"))
    await engine.run(add(1, "a"))
    (row,) = (await engine.run(read("SELECT * FROM patient"))).rows
    assert row["town"] is None


async def test_statement_runs_after_its_preparing_transaction_failed(
    open_engine: OpenEngine,
) -> None:
    engine = open_engine(sizes=PoolSizes(min=1, max=1))

    await engine.run(write(MADE))
    await failure(engine, write("SELECT 1 / 0"), read("SELECT 1"))
    # As often as the driver sends a statement before preparing it.
    for n in range(5):
        await engine.run(add(n, f"{n}"))
    for together in (True, False):
        assert isinstance(await failure(engine, write("SELECT 1 / 0"), add(7, "g")), InvalidRequest)
        await (engine.run_all([add(8, "h")]) if together else engine.run(add(9, "i")))
    assert await count(engine) == 7
