"""Unreadable items in memory: an error by default; skipped and collected inside `skip_unreadable`."""

from __future__ import annotations

import pytest

from holdfast import Attr, Entity, Key, Stores, Table, attr, batch_get, open_memory_stores
from holdfast.core.errors import ItemUnreadable
from holdfast.model.entities import parallel_query, skip_unreadable
from holdfast.operations.tables import PutItem
from holdfast.runtime import create_tables

seats = Table("Seats", "flight", "seat")


class Seat(Entity, table=seats):
    flight: Attr[str] = attr()
    seat: Attr[str] = attr()
    price: Attr[int]

    of = Key(flight, seat)


async def _fill(stores: Stores) -> None:
    """Create the table with three seats, of which `1B` cannot be decoded."""
    await create_tables(stores, [seats])
    for seat, price in (("1A", 9), ("1B", "free"), ("1C", 7)):
        await stores.tables.run(PutItem("Seats", {"flight": "1", "seat": seat, "price": price}))


async def test_unreadable_item_fails_the_query_by_default() -> None:
    async with open_memory_stores() as stores:
        await _fill(stores)
        with pytest.raises(ItemUnreadable, match="1B"):
            await stores.all(Seat.of("1").query())


async def test_tolerant_query_returns_readable_items_and_the_skipped_ones() -> None:
    async with open_memory_stores() as stores:
        await _fill(stores)
        with skip_unreadable() as left_out:
            found = await stores.all(Seat.of("1").query())
            several = await stores.run(parallel_query([Seat.of("1").query(), Seat.of("2").query()]))
            many = await stores.run(batch_get([Seat.of("1").get("1A"), Seat.of("1").get("1B")]))
            with pytest.raises(ItemUnreadable):
                await stores.run(Seat.of("1").get("1B"))
        assert [each.seat for each in found] == ["1A", "1C"]
        assert [[each.seat for each in page] for page in several] == [["1A", "1C"], []]
        assert [each and each.seat for each in many] == ["1A", None]
        assert [each.item["price"] for each in left_out] == ["free"] * 3
        assert str(left_out[0]).startswith("Seats, flight 1, seat 1B: price: ")
        with pytest.raises(ItemUnreadable):
            await stores.all(Seat.of("1").query())
