"""Statements larger than what lies between us and the server, several at once: sent whole, answered, and undone together.

A socket takes some hundred kilobytes at a time. Of what is larger, a part waits on our side until the server has read the rest,
and the server may meanwhile wait for us to read its answers.
"""

from __future__ import annotations

import asyncio

from holdfast import Schema, Stores, System
from holdfast.core.errors import ConditionFailed, InvalidRequest, RowAlreadyExists, StatementTimedOut
from holdfast.runtime.engines import Engines
from holdfast.stores.sql.postgres import PoolSizes, PostgresSql
from holdfast.stores.tables.embedded import open_tables

from .conftest import Opened
from .test_statements import add, count, failure, read, write

# Names so long have no index.
LONG_NAMES = "CREATE TABLE patient (id integer PRIMARY KEY, name text NOT NULL CHECK (name <> ''))"
ECHO = "INSERT INTO patient (id, name) VALUES (%(id)s, %(name)s) RETURNING name"
MB = 1_000_000


def long(megabytes: int) -> str:
    return "x" * (megabytes * MB)


def test_large_statements_of_one_transaction_are_all_done(engine: PostgresSql) -> None:
    async def story() -> None:
        await engine.run(write(LONG_NAMES))
        note = write("UPDATE patient SET name = 'noted' WHERE id = 0", expected=1)
        await engine.run(add(0, "a"))
        await engine.run_all([note, add(1, long(2), expected=1)])
        await engine.run_all([add(2, long(2), expected=1), note])
        await engine.run_all([add(3, long(3)), add(4, long(1)), add(5, "short"), add(6, long(4))])
        await engine.run(add(7, long(2), expected=1))
        lengths = await engine.run(read("SELECT length(name) AS n FROM patient ORDER BY id"))
        assert [row["n"] for row in lengths.rows] == [5, 2 * MB, 2 * MB, 3 * MB, MB, 5, 4 * MB, 2 * MB]

    asyncio.run(story())


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
        system = System("clinic", "Patients.", [], [], schemas=[clinic])
        asyncio.run(story(Stores(tables, system=system, engines=Engines({"sql": lambda: engine}))))


def test_large_answers_come_while_large_statements_are_still_sent(engine: PostgresSql) -> None:
    async def story() -> None:
        await engine.run(write(LONG_NAMES))
        answers = await engine.run_all([write(ECHO, id=n, name=f"{n}" + long(2)) for n in range(4)])
        assert [(len(answer.rows[0]["name"]), answer.rows[0]["name"][0]) for answer in answers] == [
            (2 * MB + 1, f"{n}") for n in range(4)
        ]

    asyncio.run(story())


def test_a_failure_among_large_statements_is_told_as_what_it_is_and_undoes_them_all(opened: Opened) -> None:
    # One connection: each must leave it usable.
    engine = opened(sizes=PoolSizes(min=1, max=1))
    nobody = write("UPDATE patient SET name = 'z' WHERE id = 77", expected=1)

    async def story() -> None:
        await engine.run(write(LONG_NAMES))
        for place in range(3):
            large = [add(n, long(2)) for n in range(3)]
            for refused, kind in (
                (add(9, ""), InvalidRequest),
                (nobody, ConditionFailed),
                (write("SELECT 1 / 0"), InvalidRequest),
                (write("SELECT %(at)s", at=[float("nan")]), InvalidRequest),
            ):
                told = await failure(engine, *large[:place], refused, *large[place:])
                assert isinstance(told, kind), (place, told)
        assert isinstance(await failure(engine, add(1, long(2)), add(1, long(2))), RowAlreadyExists)
        assert await count(engine) == 0

    asyncio.run(story())


def test_a_large_statement_that_waits_for_a_lock_has_its_deadline(opened: Opened) -> None:
    engine = opened(statement_timeout_ms=300)

    async def story() -> None:
        await engine.run(write(LONG_NAMES))
        await engine.run(add(1, "a"))
        async with engine.transaction() as transaction:
            await transaction.run(write("UPDATE patient SET name = 'b' WHERE id = 1"))
            blocked = write("UPDATE patient SET name = %(name)s WHERE id = 1", name=long(2))
            assert isinstance(await failure(engine, blocked, add(2, long(2))), StatementTimedOut)
        assert await count(engine) == 1

    asyncio.run(story())
