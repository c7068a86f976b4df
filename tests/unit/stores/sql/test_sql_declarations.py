"""Declarations of SQL statements, checked without a database: reads, the database's clock, transactions."""

from __future__ import annotations

from typing import LiteralString

import pytest

from holdfast import Schema
from holdfast.core.errors import DeclarationError, InvalidRequest
from holdfast.model.entities.writes import transact
from holdfast.model.sql import SqlRow
from tests.cases import all_cases

shop = Schema("shop", migrations="none")


class Order(SqlRow):
    id: str


CHANGES: list[LiteralString] = [
    "INSERT INTO shop.orders VALUES ('1') RETURNING {columns}",
    "DELETE FROM shop.orders RETURNING {columns}",
    "UPDATE shop.orders SET id = '2' RETURNING {columns}",
    "WITH gone AS (DELETE FROM shop.orders RETURNING id) SELECT {columns} FROM gone",
    "WITH made AS MATERIALIZED ( update shop.orders SET id = '2' RETURNING id) SELECT {columns} FROM made",
    "MERGE INTO shop.orders USING shop.news ON true WHEN MATCHED THEN DELETE RETURNING {columns}",
    "TRUNCATE shop.orders",
    "-- SELECT\nCALL shop.purge()",
]
QUESTIONS: list[LiteralString] = [
    "SELECT {columns} FROM shop.orders WHERE id = 'x' FOR UPDATE SKIP LOCKED",
    "SELECT {columns} FROM shop.orders FOR NO KEY UPDATE",
    "SELECT {columns} FROM shop.orders WHERE id = 'DELETE FROM shop.orders' -- UPDATE it",
    "WITH seen AS (SELECT update FROM shop.orders) SELECT {columns} FROM seen",
    "(SELECT {columns} FROM shop.orders) UNION (VALUES ('1'))",
]


@all_cases("text", CHANGES)
def test_rejects_a_write_declared_as_a_read(text: LiteralString) -> None:
    for declared in (shop.rows, shop.one):
        with pytest.raises(DeclarationError, match="Invalid read"):
            declared(Order, text)


@pytest.mark.parametrize("text", QUESTIONS)
def test_accepts_reads_that_lock_or_mention_changes(text: LiteralString) -> None:
    assert shop.rows(Order, text).kind == "SELECT"


CLOCKS: list[LiteralString] = [
    "now()",
    '"now"()',
    "CURRENT_TIMESTAMP",
    "CURRENT_TIME",
    "LOCALTIMESTAMP(0)",
    "localtime",
    "timeofday()",
    "clock_timestamp()",
    "age(made_at)",
    "age(date_trunc('day', made_at))",
    "'now'::timestamptz",
    "timestamptz 'today'",
    "CAST('now' AS date)",
]


@all_cases("clock", CLOCKS)
def test_refuses_the_clock_of_the_database(clock: str) -> None:
    with pytest.raises(DeclarationError, match="Invalid use of the database clock"):
        shop.rows(Order, f"SELECT {clock} AS id FROM shop.orders")


def test_accepts_text_that_only_looks_like_a_clock() -> None:
    shop.rows(Order, "SELECT age(a, b) AS id, 'now' AS urgency FROM shop.orders WHERE status = 'today'")
    shop.change("INSERT INTO shop.age (age) SELECT localtimes FROM shop.knowns")


def test_refuses_a_token_for_a_transaction_of_sql() -> None:
    change = shop.change("DELETE FROM shop.orders")
    with pytest.raises(InvalidRequest, match="SQL transactions do not support one"):
        transact(change, token="once")  # type: ignore[call-overload]
