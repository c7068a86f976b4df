"""Rows of SQL tables on their pages: in the order of their key, page by page, masked, read-only."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from holdfast import Schema, Stores, System, open_stores
from holdfast.console.browser import sql_rows
from holdfast.console.browser.addresses import build_sql_url
from holdfast.console.browser.sql_rows import describe_sql_table, load_row, load_rows
from holdfast.core.errors import InvalidRequest, NotFound
from holdfast.model.entities.cursors import decode_cursor
from holdfast.runtime.factory import MEMORY_SETTINGS
from tests.console_client import ConsoleClient, open_console_client
from tests.postgres import connect, create_database

from .test_item_pages import NEXT, follow_reveal, list_audit

NAME = "depot"
depot = Schema("depot", migrations="depot.migrations", purpose="What the depot keeps")
SYSTEM = System(NAME, "Keeps parcels", schemas=(depot,))
TABLES = """
CREATE SCHEMA depot;
CREATE TABLE depot.parcels (
    shelf text, place integer, email text, weight numeric, put_at timestamptz, details jsonb, photo bytea,
    PRIMARY KEY (place, shelf)
);
INSERT INTO depot.parcels
    SELECT CASE n % 2 WHEN 0 THEN 'a' ELSE 'b' END, n / 2, 'ada' || n || '@example.org', n + 0.5,
           '2026-11-18 09:00:00+00'::timestamptz + n * interval '1 second', '{"phone": "12345"}', '\\x0102'
    FROM generate_series(0, 119) AS n;
CREATE TABLE depot."Odd % name" ("a ""b" uuid PRIMARY KEY, "50%" date);
INSERT INTO depot."Odd % name" VALUES ('6f1c7f5e-8b1c-4c3e-9a55-2f1a0f6d9a11', '2026-11-18');
CREATE TABLE depot.log (line text);
INSERT INTO depot.log SELECT 'line ' || n FROM generate_series(1, 80) AS n;
CREATE VIEW depot.light AS SELECT * FROM depot.parcels WHERE weight < 5;
"""
PARCELS = build_sql_url(NAME, "depot", "parcels")


@pytest.fixture(scope="module")
def database() -> str:
    url = create_database()
    with connect(url) as connection:
        connection.execute(TABLES.encode())
    return url


@pytest.fixture
async def stores(database: str) -> AsyncIterator[Stores]:
    async with open_stores(SYSTEM, replace(MEMORY_SETTINGS, sql=database)) as opened:
        yield opened


@pytest.fixture
async def client(stores: Stores) -> AsyncIterator[ConsoleClient]:
    async with open_console_client(stores) as opened:
        yield opened


async def test_lists_the_tables_of_a_schema(client: ConsoleClient) -> None:
    for path in ("/data", build_sql_url(NAME, "depot")):
        page = await client.get(path)
        assert all(each in page for each in ("parcels", "Odd % name", "light", "view", "not counted yet"))


async def test_pages_through_all_rows_in_the_order_of_the_key(stores: Stores) -> None:
    table = await describe_sql_table(stores, depot, "parcels")
    assert [each.name for each in table.keys] == ["place", "shelf"]

    found, cursor, pages = [], "", 0
    while True:
        page = await load_rows(stores, table, cursor)
        found += [(each.values["place"], each.values["shelf"]) for each in page.rows]
        cursor, pages = page.next, pages + 1
        if not cursor:
            break

    assert found == sorted((n // 2, "ab"[n % 2]) for n in range(120))
    assert pages == 3


async def test_names_and_keys_of_any_form(stores: Stores) -> None:
    table = await describe_sql_table(stores, depot, "Odd % name")

    (row,) = (await load_rows(stores, table)).rows

    assert row.values == {'a "b': "6f1c7f5e-8b1c-4c3e-9a55-2f1a0f6d9a11", "50%": "2026-11-18"}
    assert (await load_row(stores, table, row.key)).values == row.values


async def test_a_late_page_reads_no_more_rows_than_the_first(stores: Stores, database: str) -> None:
    table = await describe_sql_table(stores, depot, "parcels")
    cursor = (await load_rows(stores, table, (await load_rows(stores, table)).next)).next
    after = decode_cursor(cursor, ("rows", "depot", "parcels"))
    text = sql_rows._build_page(table, after)
    with connect(database) as connection:
        # The table is small, so the planner would rather read all of it, or a part of it without order.
        connection.execute("SET enable_seqscan = off")
        connection.execute("SET enable_bitmapscan = off")
        plan = connection.execute(
            f"EXPLAIN {text}".encode(), sql_rows._number(after) | {"limit": 50}
        ).fetchall()

    assert "Index Cond" in str(plan)
    assert "Sort" not in str(plan)


async def test_a_table_without_a_primary_key_shows_its_first_rows(stores: Stores) -> None:
    page = await load_rows(stores, await describe_sql_table(stores, depot, "log"))

    assert (len(page.rows), page.next, page.rows[0].key) == (50, "", {})


async def test_masks_personal_columns_but_not_keys_and_times(client: ConsoleClient) -> None:
    page = await client.get(PARCELS)
    path = NEXT.search(page)
    assert path is not None
    row = re.search(r'href="([^"]+/row\?key=[^"]+)"', await client.get(path[1]))
    assert row is not None

    whole = await client.get(row[1])
    for each in (page, whole):
        assert "@example.org" not in each
        assert "12345" not in each
        assert "2026-11-18T09:" in each
    assert "2 bytes" in whole
    assert "timestamp with time zone" in whole

    revealed, _ = await follow_reveal(client, row[1])
    assert "@example.org" in revealed
    (entry,) = await list_audit(client)
    assert entry.target is not None
    assert entry.target.startswith(f"{PARCELS}/row ")


async def test_refuses_unknown_names_and_foreign_cursors(stores: Stores, client: ConsoleClient) -> None:
    await client.get(build_sql_url(NAME, "none"), 404)
    await client.get(build_sql_url(NAME, "depot", "none"), 404)
    await client.get(build_sql_url(NAME, "depot", "pg_class"), 404)
    table = await describe_sql_table(stores, depot, "parcels")
    with pytest.raises(InvalidRequest, match="cursor"):
        await load_rows(stores, table, "AAAA")
    with pytest.raises(NotFound):
        await load_row(stores, table, {"place": "1000", "shelf": "a"})
    with pytest.raises(NotFound):
        await load_row(stores, table, {"place": "1"})


async def test_a_store_that_does_not_answer_hides_no_other() -> None:
    settings = replace(MEMORY_SETTINGS, sql="postgresql://nobody@127.0.0.1:1/none?connect_timeout=1")
    async with open_stores(SYSTEM, settings) as stores, open_console_client(stores) as client:
        page = await client.get("/data")

    assert "depot" in page
