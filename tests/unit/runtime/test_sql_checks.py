"""`check_statements` on a real PostgreSQL: each mismatch between columns and row types is reported."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any, Literal, NewType
from uuid import UUID

import pytest
from pydantic import BaseModel, Field

from holdfast import Pattern, Rate, Schema, open_stores
from holdfast.model.sql import SqlRow
from holdfast.model.system import load_systems
from holdfast.runtime import StatementMismatch, check_statements
from holdfast.runtime.factory import MEMORY_SETTINGS
from tests.postgres import connect, create_database

shop = Schema("shop", migrations="tests.unit.runtime.none_needed")

TABLE = """
CREATE SCHEMA shop;
CREATE TYPE shop.mood AS ENUM ('glad', 'sad');
CREATE TABLE shop.orders (
    id BIGSERIAL PRIMARY KEY,
    status VARCHAR(20) NOT NULL,
    mood shop.mood NOT NULL,
    note TEXT,
    price NUMERIC(10, 2) NOT NULL,
    weight FLOAT8 NOT NULL,
    is_gift BOOL NOT NULL,
    made_at TIMESTAMPTZ NOT NULL,
    made_on DATE NOT NULL,
    token UUID NOT NULL,
    seal BYTEA NOT NULL,
    details JSONB NOT NULL,
    tags TEXT[] NOT NULL,
    wall_time TIMESTAMP NOT NULL DEFAULT '2026-01-01'
)
"""
MOMENT = datetime(2026, 11, 15, tzinfo=UTC)

OrderId = NewType("OrderId", int)


class Status(StrEnum):
    open = "open"
    paid = "paid"


class Details(BaseModel):
    lines: int


class Order(SqlRow):
    id: OrderId
    status: Status
    mood: Literal["glad", "sad"]
    note: str | None
    price: Decimal
    weight: Annotated[float, Field(ge=0)]
    is_gift: bool
    made_at: datetime
    made_on: date
    token: UUID
    seal: bytes
    details: Details
    tags: list[str]


@pytest.fixture(scope="module")
def url() -> str:
    """Create a database with the table of orders."""
    made = create_database()
    with connect(made) as connection:
        connection.execute(TABLE)
    return made


def check(url: str, *operations: Any) -> list[StatementMismatch]:
    """Return the mismatches of these operations, as patterns Q1, Q2 and so on."""

    def pattern_of(number: int, operation: Any) -> Pattern[..., Any]:
        return Pattern(lambda: operation, f"Q{number}", "A question", Rate(per="day"), ())

    async def run() -> list[StatementMismatch]:
        async with open_stores(None, replace(MEMORY_SETTINGS, sql=url)) as stores:
            return await check_statements(stores, [pattern_of(*each) for each in enumerate(operations, 1)])

    return asyncio.run(run())


def format_mismatches(found: Iterable[StatementMismatch]) -> Iterator[str]:
    """Yield each mismatch as one line."""
    return (f"{each.pattern} {each.column}: {each.message}" for each in found)


def test_accepts_matching_statements_with_any_parameters(url: str) -> None:
    asked = shop.rows(
        Order,
        "SELECT {columns} FROM shop.orders WHERE id = ANY(%(ids)s) AND made_at < %(now)s "
        "AND details @> %(some)s AND note IS NOT DISTINCT FROM %(note)s AND price < %(price)s AND id > "
        "%(least)s",
        ids=(1, 2),
        now=MOMENT,
        some={"lines": 2},
        note=None,
        price=Decimal("9.5"),
        least=7,
    )
    changed = shop.change("UPDATE shop.orders SET status = %(to)s RETURNING id", to=Status.paid)
    assert check(url, asked, changed) == []


def test_runs_no_statement(url: str) -> None:
    with connect(url) as connection:
        row = "'open', 'sad', NULL, 1, 1, true, '2026-01-01', '2026-01-01', gen_random_uuid(), '', '{}', '{}'"
        names = "status, mood, note, price, weight, is_gift, made_at, made_on, token, seal, details, tags"
        connection.execute(f"INSERT INTO shop.orders ({names}) VALUES ({row})")
        assert check(url, shop.change("DELETE FROM shop.orders")) == []
        assert connection.execute("SELECT count(*) FROM shop.orders").fetchone() == (1,)


def test_reports_extra_missing_and_duplicate_columns(url: str) -> None:
    class Pair(SqlRow):
        id: int
        status: str
        note: str | None = None

    found = check(
        url,
        shop.rows(Pair, "SELECT id, status, price FROM shop.orders"),
        shop.one(Pair, "SELECT id, note FROM shop.orders"),
        shop.returning(Pair, "INSERT INTO shop.orders (status) VALUES ('x') RETURNING id, status, id"),
    )
    assert list(format_mismatches(found)) == [
        "Q1 price: the statement returns it, but Pair does not have it: remove it, or add it to the row",
        "Q2 status: Pair requires it, but the statement does not return it: add the column",
        "Q3 id: the statement returns two columns of this name, but Pair has one: rename one with AS",
    ]


def test_reports_a_nullable_column_if_the_row_needs_a_value(url: str) -> None:
    class Note(SqlRow):
        note: str

    class Any_(SqlRow):  # noqa: N801
        note: Any

    found = check(
        url,
        shop.rows(Note, "SELECT note FROM shop.orders"),
        shop.rows(Note, "SELECT coalesce(note, '') AS note FROM shop.orders"),
        shop.rows(Any_, "SELECT note FROM shop.orders"),
    )
    (mismatch,) = found
    assert (mismatch.pattern, mismatch.column) == ("Q1", "note")
    assert "may be null, but Note requires it: add `| None`" in mismatch.message


KINDS: list[tuple[str, Any, bool]] = [
    ("status", int, False),
    ("status", Status, True),
    ("mood", str, True),
    ("mood", bytes, False),
    ("id", str, False),
    ("id", bool, False),
    ("id", float, True),
    ("id", Decimal, True),
    ("price", int, False),
    ("price", float, True),
    ("weight", Decimal, False),
    ("is_gift", int, False),
    ("made_at", str, False),
    ("made_at", date, False),
    ("made_on", datetime, False),
    ("token", str, False),
    ("seal", str, False),
    ("details", dict[str, Any], True),
    ("tags", tuple[str, ...], True),
    ("tags", str, False),
    ("wall_time", datetime, False),
    ("count(*) AS status", int, True),
    ("count(*) AS status", str, False),
]


def test_reports_a_column_of_another_type(url: str) -> None:
    def select(column: str, kind: Any) -> Any:
        name = column.rpartition(" ")[2]
        row = type("Row", (SqlRow,), {"__annotations__": {name: kind}, "__module__": __name__})
        text: Any = f"SELECT {column} FROM shop.orders"
        return shop.rows(row, text)

    found = check(url, *(select(column, kind) for column, kind, _ in KINDS))
    assert all("the column is a" in each.message for each in found)
    wrong = [f"Q{number}" for number, (_, _, is_right) in enumerate(KINDS, 1) if not is_right]
    assert [each.pattern for each in found] == wrong


def test_reports_a_statement_that_the_database_rejects_by_its_pattern(url: str) -> None:
    found = check(
        url,
        shop.rows(Order, "SELECT {columns} FROM shop.ordres"),
        shop.change("UPDATE shop.orders SET made_at = %(to)s", to=7),
        shop.change("UPDAT shop.orders"),
    )
    assert [(each.pattern, each.column) for each in found] == [("Q1", ""), ("Q2", ""), ("Q3", "")]
    reported = list(format_mismatches(found))
    assert 'relation "shop.ordres" does not exist' in reported[0]
    assert "timestamp with time zone but expression is of type" in reported[1]
    assert "syntax error" in reported[2]


def test_every_statement_of_every_installed_system_matches_its_row() -> None:
    systems = [system for system in load_systems().values() if system.schemas]
    assert systems, "a system with a schema is installed"

    async def misfits(system: Any, at: str) -> list[StatementMismatch]:
        async with open_stores(system, replace(MEMORY_SETTINGS, sql=at)) as stores:
            return await check_statements(stores, system.patterns)

    for system in systems:
        assert asyncio.run(misfits(system, create_database(*system.schemas))) == []
