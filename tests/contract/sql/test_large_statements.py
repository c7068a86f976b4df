"""Statements larger than the socket buffers, on both SQL engines: sent whole, answered and rolled back.

A socket takes some hundred kilobytes at a time. The rest of a larger statement waits on our side until the
server has read the first part, while the server may wait for us to read its answers.
"""

from __future__ import annotations

import asyncio

from holdfast import Schema, Stores, System
from holdfast.core.errors import ConditionFailed, InvalidRequest, RowAlreadyExists, StatementTimedOut
from holdfast.runtime.engines import Engines
from holdfast.stores.sql.postgres import PoolSizes, PostgresSql
from holdfast.stores.tables.embedded import open_tables

from .conftest import OpenEngine
from .test_statements import add, count, failure, read, write

# Names this long cannot be indexed.
LONG_NAMES = "CREATE TABLE patient (id integer PRIMARY KEY, name text NOT NULL CHECK (name <> ''))"
ECHO = "INSERT INTO patient (id, name) VALUES (%(id)s, %(name)s) RETURNING name"
MB = 1_000_000


def long(megabytes: int) -> str:
    """Return a text of this many megabytes."""
    return "x" * (megabytes * MB)


async def test_runs_all_large_statements_of_a_transaction(engine: PostgresSql) -> None:
    await engine.run(write(LONG_NAMES))
    note = write("UPDATE patient SET name = 'noted' WHERE id = 0", expected=1)
    await engine.run(add(0, "a"))
    await engine.run_all([note, add(1, long(2), expected=1)])
    await engine.run_all([add(2, long(2), expected=1), note])
    await engine.run_all([add(3, long(3)), add(4, long(1)), add(5, "short"), add(6, long(4))])
    await engine.run(add(7, long(2), expected=1))
    lengths = await engine.run(read("SELECT length(name) AS n FROM patient ORDER BY id"))
    assert [row["n"] for row in lengths.rows] == [5, 2 * MB, 2 * MB, 3 * MB, MB, 5, 4 * MB, 2 * MB]


def test_stores_change_large_rows_in_one_transaction(engine: PostgresSql) -> None:
    clinic = Schema("public", migrations="none")
    insert = "INSERT INTO public.patient (id, name) VALUES (%(id)s, %(name)s)"

    async def story(stores: Stores) -> None:
        await engine.run(write(LONG_NAMES))
        await stores.transact(
            clinic.change(insert, id=1, name=long(2)).expect_rows(1),
            clinic.change("UPDATE public.patient SET name = name || 'z' WHERE id = 1").expect_rows(1),
        )
        lengths = await engine.run(read("SELECT length(name) AS n FROM patient"))
        assert lengths.rows == ({"n": 2 * MB + 1},)

    with open_tables(None) as tables:
        system = System("clinic", "Patients.", schemas=[clinic])
        asyncio.run(story(Stores(tables, system=system, engines=Engines({"sql": lambda: engine}))))


async def test_receives_large_answers_while_sending_large_statements(engine: PostgresSql) -> None:
    await engine.run(write(LONG_NAMES))
    answers = await engine.run_all([write(ECHO, id=n, name=f"{n}" + long(2)) for n in range(4)])
    assert [(len(answer.rows[0]["name"]), answer.rows[0]["name"][0]) for answer in answers] == [
        (2 * MB + 1, f"{n}") for n in range(4)
    ]


async def test_failure_among_large_statements_is_reported_and_rolls_back_all(open_engine: OpenEngine) -> None:
    # One connection: each statement must leave it usable.
    engine = open_engine(sizes=PoolSizes(min=1, max=1))
    no_row = write("UPDATE patient SET name = 'z' WHERE id = 77", expected=1)

    await engine.run(write(LONG_NAMES))
    for place in range(3):
        large = [add(n, long(2)) for n in range(3)]
        for refused, kind in (
            (add(9, ""), InvalidRequest),
            (no_row, ConditionFailed),
            (write("SELECT 1 / 0"), InvalidRequest),
            (write("SELECT %(at)s", at=[float("nan")]), InvalidRequest),
        ):
            error = await failure(engine, *large[:place], refused, *large[place:])
            assert isinstance(error, kind), (place, error)
    assert isinstance(await failure(engine, add(1, long(2)), add(1, long(2))), RowAlreadyExists)
    assert await count(engine) == 0


async def test_large_statement_that_waits_for_a_lock_times_out(open_engine: OpenEngine) -> None:
    """It raises `StatementTimedOut`, and the whole transaction is rolled back."""
    engine = open_engine(statement_timeout_ms=300)

    await engine.run(write(LONG_NAMES))
    await engine.run(add(1, "a"))
    async with engine.transaction() as transaction:
        await transaction.run(write("UPDATE patient SET name = 'b' WHERE id = 1"))
        blocked = write("UPDATE patient SET name = %(name)s WHERE id = 1", name=long(2))
        assert isinstance(await failure(engine, blocked, add(2, long(2))), StatementTimedOut)
    assert await count(engine) == 1
