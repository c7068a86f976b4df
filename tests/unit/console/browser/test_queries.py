"""Pages of items: keys, conditions on the sort key, filters, cursors, and their bounds."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from holdfast import Stores
from holdfast.console.browser import queries
from holdfast.console.browser.queries import Filter, ItemPage, ItemQuery, load_items
from holdfast.console.masking import Masker
from holdfast.core.errors import InvalidRequest
from holdfast.model.tables import Table

from .warehouse import build_customer, build_order, logs, open_warehouse, put, stock

HIDE, SHOW = Masker(), Masker(is_revealed=True)


@pytest.fixture
async def stores() -> AsyncIterator[Stores]:
    async with open_warehouse() as opened:
        yield opened


async def load(stores: Stores, table: Table = stock, masker: Masker = HIDE, **fields: Any) -> ItemPage:
    return await load_items(stores, table, ItemQuery(**fields), masker)


async def load_all(stores: Stores, query: ItemQuery) -> tuple[list[Any], int]:
    """Return the keys of all pages, and the number of pages."""
    keys: list[Any] = []
    for count in range(1, 200):
        page = await load_items(stores, stock, query, HIDE)
        keys += [each["PK"] for each in page.items]
        if not page.next:
            return keys, count
        query = replace(query, cursor=page.next)
    raise AssertionError("the pages do not end")


def keys(page: ItemPage) -> list[Any]:
    return [each["PK"] for each in page.items]


async def test_pages_through_all_items_once(stores: Stores) -> None:
    await put(stores, *(build_order(number) for number in range(60)))

    found, pages = await load_all(stores, ItemQuery(size=25))

    assert (len(found), len(set(found)), pages) == (60, 60, 3)


@pytest.mark.parametrize(
    ("operator", "sort", "sort_to", "expected"),
    [
        ("=", "2026-11-18T09:02:00Z", "", [2]),
        ("<", "2026-11-18T09:02:00Z", "", [0, 1]),
        ("<=", "2026-11-18T09:02:00Z", "", [0, 1, 2]),
        (">", "2026-11-18T09:02:00Z", "", [3, 4]),
        (">=", "2026-11-18T09:02:00Z", "", [2, 3, 4]),
        ("between", "2026-11-18T09:01:00Z", "2026-11-18T09:03:00Z", [1, 2, 3]),
        ("begins_with", "2026-11-18T09:0", "", [0, 1, 2, 3, 4]),
    ],
)
async def test_a_condition_on_the_sort_key_of_an_index(
    stores: Stores, operator: str, sort: str, sort_to: str, expected: list[int]
) -> None:
    await put(stores, *(build_order(number) for number in range(5)), build_order(9, state="packed"))

    page = await load(
        stores, index="by-status", partition="placed", operator=operator, sort=sort, sort_to=sort_to
    )

    assert keys(page) == [f"ORDER#o-{number}" for number in expected]


async def test_orders_descending_and_numbers_as_numbers(stores: Stores) -> None:
    await put(stores, *(build_order(number) for number in range(3)))
    await put(stores, {"number": 12, "text": "a"}, table=logs)

    page = await load(stores, index="by-status", partition="placed", descending=True)
    assert keys(page) == ["ORDER#o-2", "ORDER#o-1", "ORDER#o-0"]
    assert len((await load(stores, logs, partition="12.0")).items) == 1


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([Filter("state", "=", "packed")], {1}),
        ([Filter("state", "<>", "packed")], {0, 2}),
        ([Filter("count", ">=", "10")], {2}),
        ([Filter("count", "=", "2")], {1}),
        ([Filter("placed_at", ">", "2026-11-18T09:01:00Z")], {2}),
        ([Filter("placedAt", "<", "2026-11-18T09:01:00Z")], {0}),
        ([Filter("note", "begins_with", "fra")], {0}),
        ([Filter("note", "contains", "agi")], {0}),
        ([Filter("note", "exists")], {0}),
        ([Filter("note", "not_exists")], {1, 2}),
        ([Filter("count", ">", "0"), Filter("state", "=", "placed")], {2}),
    ],
)
async def test_filters_by_python_and_stored_names_and_types(
    stores: Stores, filters: Sequence[Filter], expected: set[int]
) -> None:
    await put(
        stores,
        build_order(0, note="fragile"),
        build_order(1, state="packed", count=2),
        build_order(2, count=10),
    )

    page = await load(stores, filters=filters)

    assert set(keys(page)) == {f"ORDER#o-{number}" for number in expected}


async def test_a_page_with_filters_reads_on_within_bounds(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "MAX_EXAMINED", 50)
    await put(stores, *(build_order(number) for number in range(120)), build_order(500, count=7))

    page = await load(stores, filters=[Filter("count", "=", "7")])
    assert page.examined == 50
    assert page.next

    found, _ = await load_all(stores, ItemQuery(filters=[Filter("count", "=", "7")]))
    assert found == ["ORDER#o-500"]


async def test_a_filter_does_not_reveal_a_masked_value(stores: Stores) -> None:
    await put(stores, build_customer(1))
    probe = [Filter("email", "begins_with", "ada")]

    assert keys(await load(stores, filters=probe)) == []
    assert keys(await load(stores, filters=probe, masker=SHOW)) == ["CUSTOMER#c-1"]
    assert keys(await load(stores, filters=[Filter("email", "=", "ada1@example.org")])) == ["CUSTOMER#c-1"]


@pytest.mark.parametrize(
    ("table", "fields", "problem"),
    [
        (logs, {"partition": "twelve"}, "partition"),
        (stock, {"sort": "ORDER"}, "sort"),
        (stock, {"index": "none"}, "index"),
        (stock, {"partition": "a", "sort": "b", "operator": "like"}, "operator"),
        (stock, {"filters": [Filter("a", "like", "b")]}, "filter0"),
    ],
)
async def test_names_the_field_that_is_invalid_and_reads_nothing(
    stores: Stores, table: Table, fields: dict[str, Any], problem: str
) -> None:
    page = await load(stores, table, **fields)

    assert list(page.problems) == [problem]
    assert page.items == ()


async def test_refuses_the_cursor_of_another_query(stores: Stores) -> None:
    await put(stores, *(build_order(number) for number in range(30)))
    cursor = (await load(stores)).next

    with pytest.raises(InvalidRequest, match="cursor"):
        await load(stores, cursor=cursor, filters=[Filter("count", "=", "1")])
    with pytest.raises(InvalidRequest, match="cursor"):
        await load(stores, cursor=cursor[:-2] + "AA")
