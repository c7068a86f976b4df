"""Consumed capacity on every tables engine: units by table and index, as DynamoDB bills them."""

from __future__ import annotations

import pytest

from holdfast.operations.tables import (
    BatchGetItem,
    BatchWriteItem,
    ConsumedCapacity,
    DeleteItem,
    GetItem,
    KeysAndAttributes,
    PutItem,
    Query,
    Scan,
    TransactGet,
    TransactGetItems,
    TransactWriteItems,
    Units,
    UpdateItem,
)
from holdfast.operations.tables.operation import CapacityDetail
from holdfast.operations.values import Item

from .store import Store, index, key_condition, puts, update

LARGE = "x" * 5000


@pytest.fixture
def name(store: Store) -> str:
    return store.create("pk:S", "sk:N")


def test_returns_no_capacity_unless_requested(store: Store, name: str) -> None:
    assert store.run(PutItem(table=name, item={"pk": "a", "sk": 1})).capacity is None
    assert store.run(GetItem(table=name, key={"pk": "a", "sk": 1})).capacity is None
    assert store.run(Scan(table=name)).capacity is None


@pytest.mark.parametrize("detail", ["TOTAL", "INDEXES"])
def test_read_costs_per_4_kb_and_half_when_eventually_consistent(
    store: Store, name: str, detail: CapacityDetail
) -> None:
    store.put(name, {"pk": "a", "sk": 1, "x": LARGE})
    key: Item = {"pk": "a", "sk": 1}
    consistent = GetItem(table=name, key=key, capacity=detail, consistent=True)
    eventual = GetItem(table=name, key=key, capacity=detail)

    assert store.run(consistent).capacity == ConsumedCapacity(name, Units(read=2.0))
    assert store.run(eventual).capacity == ConsumedCapacity(name, Units(read=1.0))


def test_a_write_costs_by_the_kilobyte(store: Store, name: str) -> None:
    put = PutItem(table=name, item={"pk": "a", "sk": 1, "x": LARGE}, capacity="TOTAL")
    assert store.run(put).capacity == ConsumedCapacity(name, Units(write=5.0))
    small = update("SET y = :y", y=1)
    changed = UpdateItem(table=name, key={"pk": "a", "sk": 1}, update=small, capacity="TOTAL")
    assert store.run(changed).capacity == ConsumedCapacity(name, Units(write=5.0))
    deleted = DeleteItem(table=name, key={"pk": "a", "sk": 1}, capacity="TOTAL")
    assert store.run(deleted).capacity == ConsumedCapacity(name, Units(write=5.0))


def test_reports_each_index_separately(store: Store) -> None:
    name = store.create(
        "pk:S",
        "sk:N",
        attributes=("kind:S",),
        gsi=(index("by_kind", "kind"),),
        lsi=(index("in_kind", "pk", "kind"),),
    )
    put = PutItem(table=name, item={"pk": "a", "sk": 1, "kind": "x"}, capacity="TOTAL")

    consumed = store.run(put).capacity
    one = Units(write=1.0)
    assert consumed == ConsumedCapacity(name, one, {"in_kind": one}, {"by_kind": one})
    assert consumed.total == Units(write=3.0)


def test_index_query_is_charged_to_the_index(store: Store) -> None:
    name = store.create("pk:S", attributes=("kind:S",), gsi=(index("by_kind", "kind"),))
    store.put(name, {"pk": "a", "kind": "x"})

    query = Query(
        table=name, index="by_kind", key_condition=key_condition("kind = :k", k="x"), capacity="INDEXES"
    )
    consumed = store.run(query).capacity
    assert consumed == ConsumedCapacity(name, Units(), {}, {"by_kind": Units(read=0.5)})


def test_a_page_sums_its_items_before_it_rounds(store: Store, name: str) -> None:
    store.put(name, *({"pk": "a", "sk": n, "x": "x" * 1000} for n in range(6)))

    query = Query(
        table=name, key_condition=key_condition("pk = :p", p="a"), consistent=True, capacity="TOTAL"
    )
    assert store.run(query).capacity == ConsumedCapacity(name, Units(read=2.0))


def test_reports_a_batch_by_table(store: Store, name: str) -> None:
    other = store.create("pk:S")
    batch = puts(name, [{"pk": "a", "sk": n} for n in range(3)]) + puts(other, [{"pk": "a", "x": LARGE}])

    written = store.run(BatchWriteItem(writes=batch, capacity="TOTAL"))
    assert {each.table: each.total for each in written.capacity} == {
        name: Units(write=3.0), other: Units(write=5.0),
    }  # fmt: skip
    keys: tuple[Item, ...] = tuple({"pk": "a", "sk": n} for n in range(3))
    got = store.run(BatchGetItem(requests=(KeysAndAttributes(name, keys),), capacity="TOTAL"))
    assert got.capacity == (ConsumedCapacity(name, Units(read=1.5)),)


def test_a_transaction_costs_twice(store: Store, name: str) -> None:
    write = TransactWriteItems(
        actions=tuple(PutItem(table=name, item={"pk": "a", "sk": n}) for n in range(2)), capacity="TOTAL"
    )
    consumed = ConsumedCapacity(name, Units(write=4.0), transactional=True)
    assert store.run(write).capacity == (consumed,)

    gets = TransactGetItems(gets=(TransactGet(name, {"pk": "a", "sk": 0}),), capacity="TOTAL")
    assert store.run(gets).capacity == (ConsumedCapacity(name, Units(read=2.0), transactional=True),)
