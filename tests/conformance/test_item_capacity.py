"""Consumed capacity of item operations over the wire, for tables, indexes, batches and transactions.

A write costs one unit per started KB of the larger of the old and the new item, a read one unit per started 4
KB (half of it when eventually consistent), and each index an item is written to costs the same again for the
part of the item it keeps. Transactions double it all.
"""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from .conftest import MakeTable, index
from .protocol import Raw, cases

KEY = {"pk": {"S": "a"}}


def item_of(size: int, value: str = "a") -> dict[str, Any]:
    """Return an item of exactly `size` bytes with the key `value`."""
    return {"pk": {"S": value}, "v": {"S": "x" * (size - len("pk") - len(value) - len("v"))}}


def units(answer: dict[str, Any]) -> float:
    """Return the consumed units in a response."""
    return float(answer["ConsumedCapacity"]["CapacityUnits"])


# Returned capacity


@pytest.mark.parametrize(
    ("operation", "more"),
    cases(
        {
            "PutItem": ("PutItem", {"Item": KEY}),
            "GetItem": ("GetItem", {"Key": KEY}),
            "UpdateItem": ("UpdateItem", {"Key": KEY}),
            "DeleteItem": ("DeleteItem", {"Key": KEY}),
        }
    ),
)
def test_returns_the_requested_capacity_detail(
    raw: Raw, hash_table: str, operation: str, more: dict[str, Any]
) -> None:
    body = {"TableName": hash_table} | more
    cost = 0.5 if operation == "GetItem" else 1.0
    assert "ConsumedCapacity" not in raw.answer(operation, body)
    assert "ConsumedCapacity" not in raw.answer(operation, body | {"ReturnConsumedCapacity": "NONE"})
    total = raw.answer(operation, body | {"ReturnConsumedCapacity": "TOTAL"})["ConsumedCapacity"]
    assert total == {"TableName": hash_table, "CapacityUnits": cost}
    indexes = raw.answer(operation, body | {"ReturnConsumedCapacity": "INDEXES"})["ConsumedCapacity"]
    assert indexes == {"TableName": hash_table, "CapacityUnits": cost, "Table": {"CapacityUnits": cost}}


def test_batches_return_one_entry_per_table(raw: Raw, hash_table: str, range_table: str) -> None:
    row = KEY | {"sk": {"S": "b"}}
    puts = {
        hash_table: [{"PutRequest": {"Item": KEY}}, {"DeleteRequest": {"Key": {"pk": {"S": "b"}}}}],
        range_table: [{"PutRequest": {"Item": row}}],
    }
    answer = raw.answer("BatchWriteItem", {"RequestItems": puts, "ReturnConsumedCapacity": "TOTAL"})
    assert by_table(answer["ConsumedCapacity"]) == {
        hash_table: {"TableName": hash_table, "CapacityUnits": 2.0},
        range_table: {"TableName": range_table, "CapacityUnits": 1.0},
    }
    gets = {
        hash_table: {"Keys": [KEY, {"pk": {"S": "b"}}]},
        range_table: {"Keys": [row], "ConsistentRead": True},
    }
    answer = raw.answer("BatchGetItem", {"RequestItems": gets, "ReturnConsumedCapacity": "INDEXES"})
    assert by_table(answer["ConsumedCapacity"]) == {
        hash_table: {"TableName": hash_table, "CapacityUnits": 1.0, "Table": {"CapacityUnits": 1.0}},
        range_table: {"TableName": range_table, "CapacityUnits": 1.0, "Table": {"CapacityUnits": 1.0}},
    }
    assert "ConsumedCapacity" not in raw.answer("BatchGetItem", {"RequestItems": gets})
    assert "ConsumedCapacity" not in raw.answer("BatchWriteItem", {"RequestItems": puts})


def by_table(entries: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return capacity entries by table name."""
    return {entry["TableName"]: entry for entry in entries}


# Reads


@pytest.mark.parametrize(
    ("size", "consistent", "cost"),
    [
        (10, True, 1.0),
        (10, False, 0.5),
        (4096, True, 1.0),
        (4097, True, 2.0),
        (4096, False, 0.5),
        (4097, False, 1.0),
        (8193, False, 1.5),
    ],
)
def test_a_read_costs_a_unit_per_4_kb(
    raw: Raw, hash_table: str, size: int, consistent: bool, cost: float
) -> None:
    raw.put(hash_table, item_of(size))
    body = {
        "TableName": hash_table,
        "Key": KEY,
        "ConsistentRead": consistent,
        "ReturnConsumedCapacity": "TOTAL",
    }
    assert units(raw.answer("GetItem", body)) == cost
    assert units(raw.answer("GetItem", body | {"ProjectionExpression": "pk"})) == cost


@pytest.mark.parametrize(("consistent", "cost"), [(True, 1.0), (False, 0.5)])
def test_reading_nothing_costs_the_smallest_unit(
    raw: Raw, hash_table: str, consistent: bool, cost: float
) -> None:
    body = {
        "TableName": hash_table,
        "Key": KEY,
        "ConsistentRead": consistent,
        "ReturnConsumedCapacity": "TOTAL",
    }
    assert units(raw.answer("GetItem", body)) == cost


# DynamoDB Local does not charge for the absent item; AWS documents the smallest unit.
def test_rounds_each_item_of_a_batch_separately(raw: Raw, hash_table: str) -> None:
    raw.put(hash_table, item_of(4097, "a"))
    raw.put(hash_table, item_of(100, "b"))
    keys = [{"pk": {"S": name}} for name in ("a", "b", "absent")]
    for consistent, cost in ((True, 4.0), (False, 2.0)):
        wanted = {hash_table: {"Keys": keys, "ConsistentRead": consistent}}
        answer = raw.answer("BatchGetItem", {"RequestItems": wanted, "ReturnConsumedCapacity": "TOTAL"})
        assert answer["ConsumedCapacity"] == [{"TableName": hash_table, "CapacityUnits": cost}]


# Writes


@pytest.mark.parametrize(("size", "cost"), [(10, 1.0), (1024, 1.0), (1025, 2.0), (10_241, 11.0)])
def test_a_put_costs_a_unit_per_kb(raw: Raw, hash_table: str, size: int, cost: float) -> None:
    body = {"TableName": hash_table, "Item": item_of(size), "ReturnConsumedCapacity": "TOTAL"}
    assert units(raw.answer("PutItem", body)) == cost


def test_a_number_costs_by_its_digits_not_its_text(raw: Raw, hash_table: str) -> None:
    item = item_of(1000) | {"n": {"N": "1" + "0" * 100}}
    body = {"TableName": hash_table, "Item": item, "ReturnConsumedCapacity": "TOTAL"}
    assert units(raw.answer("PutItem", body)) == 1.0


@pytest.mark.parametrize(("before", "after"), [(2049, 100), (100, 2049)])
def test_a_write_costs_the_larger_of_the_old_and_the_new_item(
    raw: Raw, hash_table: str, before: int, after: int
) -> None:
    raw.put(hash_table, item_of(before))
    body = {"TableName": hash_table, "Item": item_of(after), "ReturnConsumedCapacity": "TOTAL"}
    assert units(raw.answer("PutItem", body)) == 3.0
    raw.put(hash_table, item_of(before))
    body = {
        "TableName": hash_table,
        "Key": KEY,
        "UpdateExpression": "SET v = :v",
        "ExpressionAttributeValues": {":v": item_of(after)["v"]},
        "ReturnConsumedCapacity": "TOTAL",
    }
    assert units(raw.answer("UpdateItem", body)) == 3.0


def test_a_small_change_of_a_large_item_costs_the_whole_item(raw: Raw, hash_table: str) -> None:
    raw.put(hash_table, item_of(2049))
    body = {
        "TableName": hash_table,
        "Key": KEY,
        "UpdateExpression": "SET w = :w",
        "ExpressionAttributeValues": {":w": {"BOOL": True}},
        "ReturnConsumedCapacity": "TOTAL",
    }
    assert units(raw.answer("UpdateItem", body)) == 3.0


@pytest.mark.parametrize(("size", "cost"), [(None, 1.0), (1024, 1.0), (2049, 3.0)])
def test_delete_costs_the_deleted_item(raw: Raw, hash_table: str, size: int | None, cost: float) -> None:
    if size:
        raw.put(hash_table, item_of(size))
    body = {"TableName": hash_table, "Key": KEY, "ReturnConsumedCapacity": "TOTAL"}
    assert units(raw.answer("DeleteItem", body)) == cost


# Indexes: dynalite counts the table only


@pytest.fixture
def indexed_table(make_table: MakeTable) -> str:
    """Create a table with the global index `by_kind`, which includes `kept`, and the local index `by_size`,
    which projects everything.
    """
    return make_table(
        "pk:S",
        "sk:S",
        lsi=[index("by_size", "pk:S", "size:S")],
        gsi=[index("by_kind", "kind:S", include=["kept"])],
    )


FULL = {
    "pk": {"S": "a"},
    "sk": {"S": "b"},
    "kind": {"S": "k"},
    "size": {"S": "s"},
    "kept": {"S": "x"},
    "other": {"S": "y"},
}


def index_units(table: str, table_units: float, by_kind: float = 0, by_size: float = 0) -> dict[str, Any]:
    """Return the capacity that INDEXES reports; an index that costs nothing is not mentioned."""
    capacity: dict[str, Any] = {
        "TableName": table,
        "CapacityUnits": table_units + by_kind + by_size,
        "Table": {"CapacityUnits": table_units},
    }
    if by_kind:
        capacity["GlobalSecondaryIndexes"] = {"by_kind": {"CapacityUnits": by_kind}}
    if by_size:
        capacity["LocalSecondaryIndexes"] = {"by_size": {"CapacityUnits": by_size}}
    return capacity


@pytest.mark.parametrize(
    ("without", "by_kind", "by_size"),
    [((), 1.0, 1.0), (("size",), 1.0, 0.0), (("kind",), 0.0, 1.0), (("kind", "size"), 0.0, 0.0)],
)
def test_a_put_costs_each_index_the_item_is_in(
    raw: Raw, indexed_table: str, without: tuple[str, ...], by_kind: float, by_size: float
) -> None:
    item = {name: value for name, value in FULL.items() if name not in without}
    body = {"TableName": indexed_table, "Item": item, "ReturnConsumedCapacity": "INDEXES"}
    assert raw.answer("PutItem", body)["ConsumedCapacity"] == index_units(
        indexed_table, 1.0, by_kind, by_size
    )


def test_total_includes_the_indexes_without_naming_them(raw: Raw, indexed_table: str) -> None:
    body = {"TableName": indexed_table, "Item": FULL, "ReturnConsumedCapacity": "TOTAL"}
    expected = {"TableName": indexed_table, "CapacityUnits": 3.0}
    assert raw.answer("PutItem", body)["ConsumedCapacity"] == expected


def test_writing_the_same_item_again_costs_no_index(raw: Raw, indexed_table: str) -> None:
    raw.put(indexed_table, FULL)
    body = {"TableName": indexed_table, "Item": FULL, "ReturnConsumedCapacity": "INDEXES"}
    assert raw.answer("PutItem", body)["ConsumedCapacity"] == index_units(indexed_table, 1.0)


def test_index_is_charged_for_its_projection(raw: Raw, indexed_table: str) -> None:
    item = FULL | {"other": {"S": "y" * 2500}}
    body = {"TableName": indexed_table, "Item": item, "ReturnConsumedCapacity": "INDEXES"}
    assert raw.answer("PutItem", body)["ConsumedCapacity"] == index_units(
        indexed_table, 3.0, by_kind=1.0, by_size=3.0
    )


@pytest.mark.parametrize(
    ("expression", "by_kind", "by_size"),
    cases(
        {
            "an attribute one index does not keep": ("SET #other = :v", 0.0, 1.0),
            "an attribute both keep": ("SET kept = :v", 1.0, 1.0),
            "the key of one index: out and in again": ("SET kind = :v", 2.0, 1.0),
            "the key of the other index": ("SET #size = :v", 0.0, 2.0),
            "removing the key: out": ("REMOVE kind", 1.0, 1.0),
            "the same value": ("SET kept = kept", 0.0, 0.0),
        }
    ),
)
def test_an_update_costs_the_indexes_it_changes(
    raw: Raw, indexed_table: str, expression: str, by_kind: float, by_size: float
) -> None:
    raw.put(indexed_table, FULL)
    body: dict[str, Any] = {
        "TableName": indexed_table,
        "Key": {"pk": FULL["pk"], "sk": FULL["sk"]},
        "UpdateExpression": expression,
        "ReturnConsumedCapacity": "INDEXES",
    }
    if ":v" in expression:
        body["ExpressionAttributeValues"] = {":v": {"S": "changed"}}
    names = {name: name[1:] for name in ("#other", "#size") if name in expression}
    if names:
        body["ExpressionAttributeNames"] = names
    assert raw.answer("UpdateItem", body)["ConsumedCapacity"] == index_units(
        indexed_table, 1.0, by_kind, by_size
    )


def test_a_delete_costs_each_index_the_item_was_in(raw: Raw, indexed_table: str) -> None:
    raw.put(indexed_table, FULL)
    body = {
        "TableName": indexed_table,
        "Key": {"pk": FULL["pk"], "sk": FULL["sk"]},
        "ReturnConsumedCapacity": "INDEXES",
    }
    assert raw.answer("DeleteItem", body)["ConsumedCapacity"] == index_units(indexed_table, 1.0, 1.0, 1.0)
    assert raw.answer("DeleteItem", body)["ConsumedCapacity"] == index_units(indexed_table, 1.0)


def test_a_batch_adds_up_its_indexes(raw: Raw, indexed_table: str) -> None:
    sparse = {"pk": {"S": "sparse"}, "sk": {"S": "b"}}
    puts = [{"PutRequest": {"Item": FULL}}, {"PutRequest": {"Item": sparse}}]
    body = {"RequestItems": {indexed_table: puts}, "ReturnConsumedCapacity": "INDEXES"}
    assert raw.answer("BatchWriteItem", body)["ConsumedCapacity"] == [
        index_units(indexed_table, 2.0, 1.0, 1.0)
    ]


# Transactions: DynamoDB Local charges four units per KB where AWS documents two


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("Put", {"Item": item_of(1025)}),
        (
            "Update",
            {"Key": KEY, "UpdateExpression": "SET w = :w", "ExpressionAttributeValues": {":w": {"N": "1"}}},
        ),
        ("Delete", {"Key": KEY}),
    ],
)
def test_a_transactional_write_costs_double(
    raw: Raw, hash_table: str, kind: str, more: dict[str, Any]
) -> None:
    raw.put(hash_table, item_of(1025))
    body = {"TransactItems": [{kind: {"TableName": hash_table} | more}]}
    assert "ConsumedCapacity" not in raw.answer("TransactWriteItems", body)
    raw.put(hash_table, item_of(1025))
    answer = raw.answer("TransactWriteItems", body | {"ReturnConsumedCapacity": "TOTAL"})
    assert answer["ConsumedCapacity"] == [
        {"TableName": hash_table, "CapacityUnits": 4.0, "WriteCapacityUnits": 4.0}
    ]


def test_a_transaction_returns_one_entry_per_table(raw: Raw, hash_table: str, range_table: str) -> None:
    actions = [
        {"Put": {"TableName": hash_table, "Item": KEY}},
        {"Put": {"TableName": range_table, "Item": KEY | {"sk": {"S": "b"}}}},
        {"Put": {"TableName": hash_table, "Item": {"pk": {"S": "b"}}}},
    ]
    body = {"TransactItems": actions, "ReturnConsumedCapacity": "INDEXES"}
    entries = by_table(raw.answer("TransactWriteItems", body)["ConsumedCapacity"])
    assert {name: entry["CapacityUnits"] for name, entry in entries.items()} == {
        hash_table: 4.0,
        range_table: 2.0,
    }
    assert entries[hash_table]["WriteCapacityUnits"] == 4.0
    assert entries[hash_table]["Table"] == {"CapacityUnits": 4.0, "WriteCapacityUnits": 4.0}


def test_repeating_a_token_costs_reads(raw: Raw, hash_table: str) -> None:
    body = {
        "TransactItems": [{"Put": {"TableName": hash_table, "Item": KEY}}],
        "ClientRequestToken": str(uuid.uuid4()),
        "ReturnConsumedCapacity": "TOTAL",
    }
    raw.answer("TransactWriteItems", body)
    assert raw.answer("TransactWriteItems", body)["ConsumedCapacity"] == [
        {"TableName": hash_table, "CapacityUnits": 2.0, "ReadCapacityUnits": 2.0}
    ]


def test_transactional_read_costs_double_even_for_absent_items(raw: Raw, hash_table: str) -> None:
    raw.put(hash_table, item_of(4097))
    gets = [{"Get": {"TableName": hash_table, "Key": key}} for key in (KEY, {"pk": {"S": "absent"}})]
    body = {"TransactItems": gets, "ReturnConsumedCapacity": "TOTAL"}
    assert raw.answer("TransactGetItems", body)["ConsumedCapacity"] == [
        {"TableName": hash_table, "CapacityUnits": 6.0, "ReadCapacityUnits": 6.0}
    ]
    [entry] = raw.answer("TransactGetItems", body | {"ReturnConsumedCapacity": "INDEXES"})["ConsumedCapacity"]
    # DynamoDB Local leaves ReadCapacityUnits out of Table; AWS does not.
    assert entry["Table"] == {"CapacityUnits": 6.0, "ReadCapacityUnits": 6.0}
    assert "ConsumedCapacity" not in raw.answer("TransactGetItems", {"TransactItems": gets})
