"""Tables and indexes brought to what is declared, over every engine: again and again, with data in them."""

from __future__ import annotations

import asyncio
import itertools
import os
import re
from decimal import Decimal
from typing import Any

import pytest

from holdfast import (
    KEYS_ONLY,
    Index,
    IndexReport,
    Stores,
    Table,
    add_indexes,
    batch_put,
    create_tables,
    describe_table,
    get_index_reports,
    include,
)
from holdfast.core.errors import DeclarationError, NotFound
from holdfast.operations.tables import DescribeContinuousBackups, DescribeTimeToLive
from tests.contract.model.conftest import Opened
from tests.contract.model.declared import Ticket, by_agent, by_day, by_rank, by_state, counters, desk
from tests.contract.tables.store import Store

_NUMBERS = itertools.count()


def _stores(store: Store) -> Stores:
    return Stores(store.tables, environment=f"p{os.getpid()}-{next(_NUMBERS)}")


def test_tables_are_made_once_with_their_default_indexes(store: Store) -> None:
    stores = _stores(store)
    names = [f"Desk-{stores.environment}", f"Counters-{stores.environment}"]

    assert asyncio.run(create_tables(stores, (desk, counters))) == names
    assert asyncio.run(create_tables(stores, (desk, counters))) == []
    found = asyncio.run(describe_table(stores, desk))
    assert found is not None and set(found.global_indexes) == {"by-state", "by-day"}


def test_a_table_has_the_lifetime_recovery_and_stream_that_are_declared(store: Store) -> None:
    stores = _stores(store)
    asyncio.run(create_tables(stores, (desk, counters)))
    name = stores.physical_name(desk)

    lifetime = asyncio.run(store.tables.run(DescribeTimeToLive(name)))
    assert lifetime.attribute == "endsAt" and lifetime.status in ("ENABLED", "ENABLING")
    assert asyncio.run(store.tables.run(DescribeContinuousBackups(name))).enabled
    found = asyncio.run(describe_table(stores, counters))
    assert found is not None and found.definition.stream_view == "NEW_IMAGE"


def test_a_table_with_another_key_than_declared_is_refused(store: Store) -> None:
    stores = _stores(store)
    asyncio.run(create_tables(stores, (desk,)))
    with pytest.raises(DeclarationError, match="is PK, SK, but declared as id"):
        asyncio.run(create_tables(stores, (Table("Desk", partition="id"),)))


@pytest.mark.proves("SM-X22")
def test_indexes_are_added_to_a_table_with_data_one_after_the_other(opened: Opened) -> None:
    blocking = opened(desk)
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


def test_indexes_that_are_there_are_left_alone(opened: Opened) -> None:
    stores = opened(desk).stores
    for _ in range(2):
        reports = asyncio.run(add_indexes(stores, [by_rank, by_state]))
        assert {report.status for report in reports} == {"ACTIVE"}

    assert {report.index: report.status for report in asyncio.run(get_index_reports(stores, (desk,)))} == {
        "by-state": "ACTIVE",
        "by-day": "ACTIVE",
        "by-rank": "ACTIVE",
        "by-agent": "ABSENT",
    }


def test_an_index_is_begun_without_waiting_and_found_later(opened: Opened) -> None:
    stores = opened(desk).stores
    asyncio.run(add_indexes(stores, [by_rank, by_agent], wait=False))
    begun = {report.index: report.status for report in asyncio.run(get_index_reports(stores, (desk,)))}
    assert begun["by-rank"] in ("CREATING", "ACTIVE")

    asyncio.run(add_indexes(stores, [by_rank, by_agent]))
    assert {report.status for report in asyncio.run(get_index_reports(stores, (desk,)))} == {"ACTIVE"}


def test_an_index_of_a_table_that_is_not_there_is_not_found(store: Store) -> None:
    stores = _stores(store)
    with pytest.raises(
        NotFound, match="Table Desk-.* does not exist, so by-day cannot be added. Create the table first"
    ):
        asyncio.run(add_indexes(stores, [by_day]))
    assert {report.status for report in asyncio.run(get_index_reports(stores, (desk,)))} == {"NO TABLE"}


def test_a_local_index_cannot_be_added(store: Store) -> None:
    table = Table("Local", partition="PK", sort="SK")
    with pytest.raises(DeclarationError, match="can only be created with its table"):
        asyncio.run(add_indexes(_stores(store), [table.local_index("by-x", "x")]))


# --- several processes at once ------------------------------------------------------------------------------


def test_tables_that_several_processes_make_at_once_are_made_once(store: Store) -> None:
    stores = _stores(store)

    async def at_once() -> list[list[str]]:
        return await asyncio.gather(*(create_tables(stores, (desk,)) for _ in range(4)))

    assert sum(asyncio.run(at_once()), []) == [stores.physical_name(desk)]
    lifetime = asyncio.run(store.tables.run(DescribeTimeToLive(stores.physical_name(desk))))
    assert lifetime.attribute == "endsAt" and lifetime.status in ("ENABLED", "ENABLING")


def test_indexes_that_several_processes_add_at_once_are_added_once(opened: Opened) -> None:
    stores = opened(desk).stores

    async def at_once() -> list[list[IndexReport]]:
        orders = ([by_rank, by_agent], [by_agent, by_rank], [by_rank])
        return await asyncio.gather(*(add_indexes(stores, order) for order in orders))

    for reports in asyncio.run(at_once()):
        assert {report.status for report in reports} == {"ACTIVE"}


# --- what is there and is not what is declared --------------------------------------------------------------


def _with(stores: Stores, **index: Any) -> Index:
    """Makes a table with an index `by-x` of the text `x`, and gives the index as another declaration has it."""
    made = Table("Made", partition="id")
    made.global_index("by-x", "x", projection=KEYS_ONLY)
    asyncio.run(create_tables(stores, (made,)))
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
def test_an_index_that_is_not_the_one_declared_is_told(
    store: Store, declared: dict[str, Any], problem: str
) -> None:
    stores = _stores(store)
    index = _with(stores, **declared)

    (report,) = asyncio.run(get_index_reports(stores, (index.table,)))
    assert report.status == "DIFFERS" and re.search(problem, report.problem)
    with pytest.raises(
        DeclarationError, match=f"The index Made.by-x differs from its declaration: .*{problem}"
    ):
        asyncio.run(add_indexes(stores, [index]))


def test_an_index_that_holds_the_same_attributes_in_another_order_is_the_one_declared(store: Store) -> None:
    stores = _stores(store)
    made = Table("Made", partition="id")
    made.global_index("by-x", "x", projection=include("y", "z"))
    asyncio.run(create_tables(stores, (made,)))
    index = Table("Made", partition="id").global_index("by-x", "x", projection=include("z", "y"))

    (report,) = asyncio.run(get_index_reports(stores, (index.table,)))
    assert (report.status, report.problem) == ("ACTIVE", "")


def test_a_table_whose_key_has_another_type_than_declared_is_refused(store: Store) -> None:
    stores = _stores(store)
    asyncio.run(create_tables(stores, (Table("Made", partition="id", partition_type="N"),)))
    with pytest.raises(DeclarationError, match=r"is id \(N\), but declared as id \(S\)"):
        asyncio.run(create_tables(stores, (Table("Made", partition="id"),)))


def test_a_table_that_ends_lives_by_another_attribute_is_refused(store: Store) -> None:
    stores = _stores(store)
    asyncio.run(create_tables(stores, (Table("Made", partition="id", ttl="ends"),)))
    with pytest.raises(DeclarationError, match="time to live on ends, but is declared with ttl='expires'"):
        asyncio.run(create_tables(stores, (Table("Made", partition="id", ttl="expires"),)))
