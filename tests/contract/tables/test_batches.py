"""Batches: items of several tables, more than one answer holds, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.errors import InvalidRequest, NotFound
from holdfast.operations.tables import BatchGetItem, BatchWriteItem, Delete, GetItem, KeysOfTable, Put, Scan
from holdfast.operations.values import Item

from .store import Store, projection, puts


@pytest.fixture
def name(store: Store) -> str:
    return store.create("pk:S")


def written(store: Store, name: str, items: list[Item]) -> None:
    for start in range(0, len(items), 25):
        result = store.run(BatchWriteItem(writes=puts(name, items[start : start + 25])))
        assert result.unprocessed == ()


def by_key(items: list[Item]) -> dict[Any, Item]:
    return {item["pk"]: item for item in items}


def test_puts_and_deletes_of_several_tables_in_one_batch(store: Store, name: str) -> None:
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


def test_items_of_several_tables_with_projections_of_their_own(store: Store, name: str) -> None:
    other = store.create("pk:S", "sk:N")
    store.put(name, {"pk": "a", "x": 1, "y": 1}, {"pk": "b", "x": 2, "y": 2})
    store.put(other, {"pk": "a", "sk": 1, "z": 3})

    result = store.run(
        BatchGetItem(
            requests=(
                KeysOfTable(name, ({"pk": "a"}, {"pk": "b"}, {"pk": "absent"}), True, projection("pk, x")),
                KeysOfTable(other, ({"pk": "a", "sk": 1},)),
            )
        )
    )
    assert by_key(result.items[name]) == {"a": {"pk": "a", "x": 1}, "b": {"pk": "b", "x": 2}}
    assert result.items[other] == [{"pk": "a", "sk": 1, "z": 3}]
    assert (result.unprocessed, result.capacity) == ((), ())


def test_a_table_of_which_nothing_was_found_has_an_empty_list(store: Store, name: str) -> None:
    result = store.run(BatchGetItem(requests=(KeysOfTable(name, ({"pk": "absent"},)),)))

    assert result.items == {name: []}


def test_a_hundred_keys_are_read_at_once(store: Store, name: str) -> None:
    items: list[Item] = [{"pk": f"{n}", "n": n} for n in range(100)]
    written(store, name, items)

    keys = tuple({"pk": item["pk"]} for item in items)
    result = store.run(BatchGetItem(requests=(KeysOfTable(name, keys),)))
    assert by_key(result.items[name]) == by_key(items)


def test_what_one_answer_cannot_hold_is_asked_for_again_or_left_to_the_caller(
    store: Store, name: str
) -> None:
    """16 MiB is the most an answer holds; the embedded engine leaves the rest to the caller."""
    items: list[Item] = [{"pk": f"{n}", "x": "x" * 390_000} for n in range(50)]
    written(store, name, items)

    requests: tuple[KeysOfTable, ...] = (KeysOfTable(name, tuple({"pk": item["pk"]} for item in items)),)
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
def test_a_batch_of_none_or_of_too_many_writes_is_refused(store: Store, name: str, writes: int) -> None:
    with pytest.raises(InvalidRequest):
        store.run(BatchWriteItem(writes=puts(name, [{"pk": f"{n}"} for n in range(writes)])))


def test_more_than_a_hundred_keys_are_refused(store: Store, name: str) -> None:
    keys: tuple[Item, ...] = tuple({"pk": f"{n}"} for n in range(101))

    with pytest.raises(InvalidRequest):
        store.run(BatchGetItem(requests=(KeysOfTable(name, keys),)))


def test_one_key_twice_is_refused_and_nothing_is_written(store: Store, name: str) -> None:
    with pytest.raises(InvalidRequest):
        store.run(BatchWriteItem(writes=(Put(name, {"pk": "a"}), Delete(name, {"pk": "a"}))))
    with pytest.raises(InvalidRequest):
        store.run(BatchGetItem(requests=(KeysOfTable(name, ({"pk": "a"}, {"pk": "a"})),)))
    assert store.run(GetItem(table=name, key={"pk": "a"})).item is None


def test_a_batch_with_a_table_that_is_not_there_is_not_found(store: Store) -> None:
    with pytest.raises(NotFound):
        store.run(BatchWriteItem(writes=(Put("Nowhere", {"pk": "a"}),)))
    with pytest.raises(NotFound):
        store.run(BatchGetItem(requests=(KeysOfTable("Nowhere", ({"pk": "a"},)),)))
