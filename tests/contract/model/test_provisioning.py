"""Creating tables and adding indexes on every tables engine: repeatedly, concurrently, and with data."""

from __future__ import annotations

import asyncio
import itertools
import os
import re
from decimal import Decimal
from typing import Any

import pytest

from holdfast import KEYS_ONLY, Stores, Table, batch_put, include
from holdfast.core.errors import DeclarationError, NotFound
from holdfast.model.tables import Index
from holdfast.operations.tables import DescribeContinuousBackups, DescribeTimeToLive
from holdfast.runtime import IndexReport, add_indexes, create_tables, describe_table, get_index_reports
from tests.contract.model.conftest import OpenStores
from tests.contract.model.entities import Ticket, by_agent, by_day, by_rank, by_state, counters, desk
from tests.contract.tables.store import Store

_NUMBERS = itertools.count()


def _stores(store: Store) -> Stores:
    """Return stores with an environment of their own, and so with no tables yet."""
    return Stores(store.tables, environment=f"p{os.getpid()}-{next(_NUMBERS)}")


async def test_tables_are_made_once_with_their_default_indexes(store: Store) -> None:
    stores = _stores(store)
    names = [f"Desk-{stores.environment}", f"Counters-{stores.environment}"]

    assert await create_tables(stores, (desk, counters)) == names
    assert await create_tables(stores, (desk, counters)) == []
    found = await describe_table(stores, desk)
    assert found is not None and set(found.global_indexes) == {"by-state", "by-day"}


async def test_a_table_has_the_lifetime_recovery_and_stream_that_are_declared(store: Store) -> None:
    stores = _stores(store)
    await create_tables(stores, (desk, counters))
    name = stores.physical_name(desk)

    lifetime = await store.tables.run(DescribeTimeToLive(name))
    assert lifetime.attribute == "endsAt" and lifetime.status in ("ENABLED", "ENABLING")
    assert (await store.tables.run(DescribeContinuousBackups(name))).enabled
    found = await describe_table(stores, counters)
    assert found is not None and found.definition.stream_view == "NEW_IMAGE"


async def test_a_table_with_another_key_than_declared_is_refused(store: Store) -> None:
    stores = _stores(store)
    await create_tables(stores, (desk,))
    with pytest.raises(DeclarationError, match="is PK, SK, but declared as id"):
        await create_tables(stores, (Table("Desk", partition="id"),))


@pytest.mark.proves("SM-X22")
def test_indexes_are_added_to_a_table_with_data_one_after_the_other(open_stores: OpenStores) -> None:
    blocking = open_stores(desk)
    blocking.run(
        batch_put(
            Ticket.put(Ticket(board="b", number=n, rank=Decimal(n) if n % 2 else None, agent=f"a{n % 3}"))
            for n in range(40)
        )
    )
    seen: list[IndexReport] = []

    reports = asyncio.run(add_indexes(blocking.stores, [by_rank, by_agent], progress=seen.append))

    assert [(report.index, report.status, report.percent) for report in reports] == [
        ("by-rank", "ACTIVE", 100.0),
        ("by-agent", "ACTIVE", 100.0),
    ]
    assert list(dict.fromkeys(report.index for report in seen)) == ["by-rank", "by-agent"]
    ranked = blocking.run(Ticket.of_rank("b").query().descending())
    assert [ticket.number for ticket in ranked] == list(range(39, 0, -2))
    assert len(blocking.run(Ticket.of_agent("a1").query())) == 13


def test_existing_indexes_are_left_alone(open_stores: OpenStores) -> None:
    stores = open_stores(desk).stores
    for _ in range(2):
        reports = asyncio.run(add_indexes(stores, [by_rank, by_state]))
        assert {report.status for report in reports} == {"ACTIVE"}

    assert {report.index: report.status for report in asyncio.run(get_index_reports(stores, (desk,)))} == {
        "by-state": "ACTIVE",
        "by-day": "ACTIVE",
        "by-rank": "ACTIVE",
        "by-agent": "ABSENT",
    }


def test_index_can_be_started_without_waiting(open_stores: OpenStores) -> None:
    """`wait=False` starts the first index; a second call finishes both."""
    stores = open_stores(desk).stores
    asyncio.run(add_indexes(stores, [by_rank, by_agent], wait=False))
    begun = {report.index: report.status for report in asyncio.run(get_index_reports(stores, (desk,)))}
    assert begun["by-rank"] in ("CREATING", "ACTIVE")

    asyncio.run(add_indexes(stores, [by_rank, by_agent]))
    assert {report.status for report in asyncio.run(get_index_reports(stores, (desk,)))} == {"ACTIVE"}


async def test_adding_an_index_to_a_missing_table_is_not_found(store: Store) -> None:
    stores = _stores(store)
    with pytest.raises(
        NotFound, match="Table Desk-.* does not exist, so by-day cannot be added. Create the table first"
    ):
        await add_indexes(stores, [by_day])
    assert {report.status for report in await get_index_reports(stores, (desk,))} == {"NO TABLE"}


async def test_a_local_index_cannot_be_added(store: Store) -> None:
    table = Table("Local", partition="PK", sort="SK")
    with pytest.raises(DeclarationError, match="can only be created with its table"):
        await add_indexes(_stores(store), [table.local_index("by-x", "x")])


# --- several processes at once ------------------------------------------------------------------------------


async def test_concurrent_processes_create_each_table_once(store: Store) -> None:
    stores = _stores(store)

    assert sum((await asyncio.gather(*(create_tables(stores, (desk,)) for _ in range(4)))), []) == [
        stores.physical_name(desk)
    ]
    lifetime = await store.tables.run(DescribeTimeToLive(stores.physical_name(desk)))
    assert lifetime.attribute == "endsAt" and lifetime.status in ("ENABLED", "ENABLING")


def test_concurrent_processes_add_each_index_once(open_stores: OpenStores) -> None:
    stores = open_stores(desk).stores

    async def at_once() -> list[list[IndexReport]]:
        orders = ([by_rank, by_agent], [by_agent, by_rank], [by_rank])
        return await asyncio.gather(*(add_indexes(stores, order) for order in orders))

    for reports in asyncio.run(at_once()):
        assert {report.status for report in reports} == {"ACTIVE"}


# --- tables and indexes that differ from their declarations -------------------------------------------------


async def _create_table_with_index(stores: Stores, **index: Any) -> Index:
    """Create a table with an index `by-x` on the text `x`, and return the index as another declaration has
    it.
    """
    made = Table("Made", partition="id")
    made.global_index("by-x", "x", projection=KEYS_ONLY)
    await create_tables(stores, (made,))
    return Table("Made", partition="id").global_index("by-x", **index)


@pytest.mark.parametrize(
    ("declared", "problem"),
    [
        ({"partition": "y", "projection": KEYS_ONLY}, r"its key is x \(S\), not y \(S\)"),
        (
            {"partition": "x", "partition_type": "N", "projection": KEYS_ONLY},
            r"its key is x \(S\), not x \(N\)",
        ),
        ({"partition": "x", "sort": "y", "projection": KEYS_ONLY}, r"not x \(S\), y \(S\)"),
        ({"partition": "x"}, "it projects KEYS_ONLY, not ALL"),
        ({"partition": "x", "projection": include("y", "z")}, "it projects KEYS_ONLY, not INCLUDE y, z"),
    ],
)
async def test_reports_an_index_that_differs_from_its_declaration(
    store: Store, declared: dict[str, Any], problem: str
) -> None:
    stores = _stores(store)
    index = await _create_table_with_index(stores, **declared)

    (report,) = await get_index_reports(stores, (index.table,))
    assert report.status == "DIFFERS" and re.search(problem, report.problem)
    with pytest.raises(
        DeclarationError, match=f"The index Made.by-x differs from its declaration: .*{problem}"
    ):
        await add_indexes(stores, [index])


async def test_attribute_order_does_not_make_an_index_differ(store: Store) -> None:
    stores = _stores(store)
    made = Table("Made", partition="id")
    made.global_index("by-x", "x", projection=include("y", "z"))
    await create_tables(stores, (made,))
    index = Table("Made", partition="id").global_index("by-x", "x", projection=include("z", "y"))

    (report,) = await get_index_reports(stores, (index.table,))
    assert (report.status, report.problem) == ("ACTIVE", "")


async def test_a_table_whose_key_has_another_type_than_declared_is_refused(store: Store) -> None:
    stores = _stores(store)
    await create_tables(stores, (Table("Made", partition="id", partition_type="N"),))
    with pytest.raises(DeclarationError, match=r"is id \(N\), but declared as id \(S\)"):
        await create_tables(stores, (Table("Made", partition="id"),))


async def test_rejects_a_table_with_another_ttl_attribute(store: Store) -> None:
    stores = _stores(store)
    await create_tables(stores, (Table("Made", partition="id", ttl="ends"),))
    with pytest.raises(DeclarationError, match="time to live on ends, but is declared with ttl='expires'"):
        await create_tables(stores, (Table("Made", partition="id", ttl="expires"),))
