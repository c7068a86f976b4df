"""BatchGetItem and BatchWriteItem on every tables engine: several tables, large answers, refusals."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.errors import InvalidRequest, NotFound
from holdfast.operations.tables import (
    BatchGetItem,
    BatchWriteItem,
    Delete,
    GetItem,
    KeysAndAttributes,
    Put,
    Scan,
)
from holdfast.operations.values import Item

from .store import Store, projection, puts


@pytest.fixture
def name(store: Store) -> str:
    return store.create("pk:S")


def write_all(store: Store, name: str, items: list[Item]) -> None:
    """Write the items in batches of 25."""
    for start in range(0, len(items), 25):
        result = store.run(BatchWriteItem(writes=puts(name, items[start : start + 25])))
        assert result.unprocessed == ()


def by_key(items: list[Item]) -> dict[Any, Item]:
    """Return the items by their partition key."""
    return {item["pk"]: item for item in items}


def test_one_batch_puts_and_deletes_in_several_tables(store: Store, name: str) -> None:
    other = store.create("pk:S", "sk:N")
    store.put(name, {"pk": "old"})

    result = store.run(
        BatchWriteItem(
            writes=(
                Put(name, {"pk": "a", "x": frozenset({b"1"})}),
                Delete(name, {"pk": "old"}),
                Put(other, {"pk": "a", "sk": 1}),
            )
        )
    )
    assert (result.unprocessed, result.capacity) == ((), ())
    assert store.run(Scan(table=name)).items == [{"pk": "a", "x": frozenset({b"1"})}]
    assert store.run(Scan(table=other)).items == [{"pk": "a", "sk": 1}]


def test_one_batch_reads_several_tables_with_a_projection_each(store: Store, name: str) -> None:
    other = store.create("pk:S", "sk:N")
    store.put(name, {"pk": "a", "x": 1, "y": 1}, {"pk": "b", "x": 2, "y": 2})
    store.put(other, {"pk": "a", "sk": 1, "z": 3})

    result = store.run(
        BatchGetItem(
            requests=(
                KeysAndAttributes(
                    name, ({"pk": "a"}, {"pk": "b"}, {"pk": "absent"}), True, projection("pk, x")
                ),
                KeysAndAttributes(other, ({"pk": "a", "sk": 1},)),
            )
        )
    )
    assert by_key(result.items[name]) == {"a": {"pk": "a", "x": 1}, "b": {"pk": "b", "x": 2}}
    assert result.items[other] == [{"pk": "a", "sk": 1, "z": 3}]
    assert (result.unprocessed, result.capacity) == ((), ())


def test_table_without_found_items_has_an_empty_list(store: Store, name: str) -> None:
    result = store.run(BatchGetItem(requests=(KeysAndAttributes(name, ({"pk": "absent"},)),)))

    assert result.items == {name: []}


def test_a_hundred_keys_are_read_at_once(store: Store, name: str) -> None:
    items: list[Item] = [{"pk": f"{n}", "n": n} for n in range(100)]
    write_all(store, name, items)

    keys = tuple({"pk": item["pk"]} for item in items)
    result = store.run(BatchGetItem(requests=(KeysAndAttributes(name, keys),)))
    assert by_key(result.items[name]) == by_key(items)


def test_keys_beyond_one_answer_are_retried_or_returned_unprocessed(store: Store, name: str) -> None:
    """An answer holds at most 16 MiB; the embedded engine leaves the rest to the caller."""
    items: list[Item] = [{"pk": f"{n}", "x": "x" * 390_000} for n in range(50)]
    write_all(store, name, items)

    requests: tuple[KeysAndAttributes, ...] = (
        KeysAndAttributes(name, tuple({"pk": item["pk"]} for item in items)),
    )
    found: list[Item] = []
    rounds = 0
    while requests:
        result = store.run(BatchGetItem(requests=requests))
        found += result.items[name]
        requests = result.unprocessed
        rounds += 1
    assert by_key(found) == by_key(items)
    assert rounds == (2 if store.engine in ("memory", "file") else 1)


@pytest.mark.parametrize("writes", [0, 26])
def test_rejects_an_empty_or_oversized_batch(store: Store, name: str, writes: int) -> None:
    with pytest.raises(InvalidRequest):
        store.run(BatchWriteItem(writes=puts(name, [{"pk": f"{n}"} for n in range(writes)])))


def test_more_than_a_hundred_keys_are_refused(store: Store, name: str) -> None:
    keys: tuple[Item, ...] = tuple({"pk": f"{n}"} for n in range(101))

    with pytest.raises(InvalidRequest):
        store.run(BatchGetItem(requests=(KeysAndAttributes(name, keys),)))


def test_one_key_twice_is_refused_and_nothing_is_written(store: Store, name: str) -> None:
    with pytest.raises(InvalidRequest):
        store.run(BatchWriteItem(writes=(Put(name, {"pk": "a"}), Delete(name, {"pk": "a"}))))
    with pytest.raises(InvalidRequest):
        store.run(BatchGetItem(requests=(KeysAndAttributes(name, ({"pk": "a"}, {"pk": "a"})),)))
    assert store.run(GetItem(table=name, key={"pk": "a"})).item is None


def test_batch_with_a_missing_table_is_not_found(store: Store) -> None:
    with pytest.raises(NotFound):
        store.run(BatchWriteItem(writes=(Put("Nowhere", {"pk": "a"}),)))
    with pytest.raises(NotFound):
        store.run(BatchGetItem(requests=(KeysAndAttributes("Nowhere", ({"pk": "a"},)),)))
