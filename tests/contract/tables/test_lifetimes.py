"""Time to live on every tables engine: enable, describe, and hide expired items on request."""

from __future__ import annotations

import time
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.errors import InvalidRequest, NotFound
from holdfast.operations.tables import (
    BatchGetItem,
    DescribeTimeToLive,
    DescribeTimeToLiveResult,
    GetItem,
    KeysAndAttributes,
    Query,
    Scan,
    TimeToLiveSpecification,
    UpdateTimeToLive,
)
from holdfast.operations.values import Item

from .store import Store, condition, key_condition, projection

# Read once. Expired items expired a minute ago: an engine may have removed them, which looks the same.
NOW = int(time.time())
ITEMS: list[Item] = [
    {"pk": "a", "sk": "over", "ends": NOW - 60, "x": 1},
    {"pk": "a", "sk": "lasting", "ends": NOW + 3600, "x": 1},
    {"pk": "a", "sk": "ancient", "ends": NOW - 6 * 365 * 86400, "x": 1},
    {"pk": "a", "sk": "text", "ends": f"{NOW - 60}", "x": 1},
    {"pk": "a", "sk": "endless", "x": 1},
    {"pk": "a", "sk": "other", "x": 2},
]
SHOWN = ["ancient", "endless", "lasting", "other", "text"]


@pytest.fixture
def name(store: Store) -> str:
    """Create a table with lifetimes that holds one expired item and five others."""
    made = store.create("pk:S", "sk:S")
    store.put(made, *ITEMS)
    store.run(UpdateTimeToLive(table=made, attribute="ends", enabled=True))
    return made


def test_lifetimes_are_switched_on_and_off(store: Store) -> None:
    name = store.create("pk:S")
    assert store.run(DescribeTimeToLive(table=name)) == DescribeTimeToLiveResult("DISABLED")

    changed = store.run(UpdateTimeToLive(table=name, attribute="ends", enabled=True))
    assert changed == TimeToLiveSpecification("ends", True)
    assert store.run(DescribeTimeToLive(table=name)) == DescribeTimeToLiveResult("ENABLED", "ends")
    store.run(UpdateTimeToLive(table=name, attribute="ends", enabled=False))
    assert store.run(DescribeTimeToLive(table=name)).status == "DISABLED"


def test_rejects_enabling_ttl_twice(store: Store) -> None:
    name = store.create("pk:S")
    store.run(UpdateTimeToLive(table=name, attribute="ends", enabled=True))

    with pytest.raises(InvalidRequest):
        store.run(UpdateTimeToLive(table=name, attribute="ends", enabled=True))


def test_ttl_of_a_missing_table_is_not_found(store: Store) -> None:
    with pytest.raises(NotFound):
        store.run(DescribeTimeToLive(table="Nowhere"))


# --- hidden items -------------------------------------------------------------------------------------------


def test_expired_item_reads_as_absent(store: Store, name: str) -> None:
    def item_of(sk: str, **more: Any) -> Item | None:
        return store.run(GetItem(table=name, key={"pk": "a", "sk": sk}, hide_expired=True, **more)).item

    assert item_of("over") is None
    assert item_of("over", projection=projection("x")) is None
    assert item_of("lasting", projection=projection("x")) == {"x": 1}
    assert item_of("text") == ITEMS[3]


def test_page_hides_expired_items_and_counts_the_rest(store: Store, name: str) -> None:
    query = Query(table=name, key_condition=key_condition("pk = :p", p="a"), hide_expired=True)

    page = store.run(query)
    assert [item["sk"] for item in page.items or ()] == SHOWN
    assert page.count == len(SHOWN)
    assert store.run(replace(query, select="COUNT")).count == len(SHOWN)
    filtered = store.run(replace(query, filter=condition("x = :one", one=1), projection=projection("sk")))
    assert filtered.items == [{"sk": sk} for sk in SHOWN if sk != "other"]


def test_scan_hides_expired_items(store: Store, name: str) -> None:
    page = store.run(Scan(table=name, hide_expired=True))

    assert sorted(str(item["sk"]) for item in page.items or ()) == SHOWN


def test_batch_hides_expired_items(store: Store, name: str) -> None:
    keys = tuple({"pk": "a", "sk": item["sk"]} for item in ITEMS)
    request = KeysAndAttributes(name, keys, projection=projection("sk"))

    result = store.run(BatchGetItem(requests=(request,), hide_expired=True))
    assert sorted(str(item["sk"]) for item in result.items[name]) == SHOWN
    assert all(set(item) == {"sk"} for item in result.items[name])


def test_nothing_is_hidden_in_a_table_without_lifetimes(store: Store) -> None:
    name = store.create("pk:S", "sk:S")
    store.put(name, ITEMS[0])

    assert store.run(Scan(table=name, hide_expired=True)).items == ITEMS[:1]
