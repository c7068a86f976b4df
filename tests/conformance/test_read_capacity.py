"""Consumed capacity of Query and Scan over the wire: item sizes are added, then rounded up to 4 KB once.

An eventually consistent read costs half. An index costs the data read from it, and a local index that fetches
from its table costs both. The costs of writes and keyed reads are in `test_item_capacity.py`.
"""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import MakeTable, index
from .protocol import Raw

Body = dict[str, Any]

KIND = {"KeyConditionExpression": "kind = :k", "ExpressionAttributeValues": {":k": {"S": "k"}}}


def make_item(size: int, **attributes: str | Body) -> Body:
    """Return an item of `size` bytes, padded with the attribute `f`."""
    item = {name: value if isinstance(value, dict) else {"S": value} for name, value in attributes.items()}
    used = sum(len(name) + value_size(value) for name, value in item.items())
    return item | {"f": {"S": "x" * (size - used - 1)}}


def value_size(value: Body) -> int:
    """Return the size of a string, or of a number with one digit, which takes two bytes."""
    return len(value["S"]) if "S" in value else 2


def cost(raw: Raw, operation: str, table: str, **request: Any) -> Body:
    """Run the operation with capacity INDEXES and return the consumed capacity."""
    body = {"TableName": table, "ReturnConsumedCapacity": "INDEXES"} | request
    capacity: Body = raw.answer(operation, body)["ConsumedCapacity"]
    assert capacity["TableName"] == table
    return capacity


def query(raw: Raw, table: str, **request: Any) -> Body:
    """Query the partition `p` and return the consumed capacity."""
    values = {":p": {"S": "p"}} | request.pop("values", {})
    condition = {"KeyConditionExpression": "pk = :p", "ExpressionAttributeValues": values}
    return cost(raw, "Query", table, **(condition | request))


@pytest.fixture(scope="module")
def eight_kilobytes(make_shared_table: MakeTable, raw: Raw) -> str:
    """Create eight items of exactly 1 KB in one partition."""
    name = make_shared_table("pk:S", "sk:S")
    for number in range(8):
        raw.put(name, make_item(1024, pk="p", sk=str(number)))
    return name


@pytest.mark.parametrize("operation", ["Query", "Scan"])
@pytest.mark.parametrize(("consistent", "units"), [(True, 2), (False, 1), (None, 1)], ids=str)
def test_sizes_are_added_before_they_are_rounded(
    raw: Raw, eight_kilobytes: str, operation: str, consistent: bool | None, units: float
) -> None:
    request = {} if consistent is None else {"ConsistentRead": consistent}
    read = query if operation == "Query" else lambda raw, table, **more: cost(raw, "Scan", table, **more)
    capacity = read(raw, eight_kilobytes, **request)
    assert capacity["CapacityUnits"] == capacity["Table"]["CapacityUnits"] == units


@pytest.mark.parametrize(
    ("limit", "units"), [(1, 0.5), (4, 0.5), (5, 1.0), (8, 1.0)], ids=["1 KB", "4 KB", "5 KB", "8 KB"]
)
def test_charges_only_for_items_read(raw: Raw, eight_kilobytes: str, limit: int, units: float) -> None:
    assert query(raw, eight_kilobytes, Limit=limit)["CapacityUnits"] == units


def test_one_byte_over_4_kb_costs_another_unit(raw: Raw, make_table: MakeTable) -> None:
    name = make_table("pk:S", "sk:S")
    raw.put(name, make_item(4096, pk="p", sk="a"))
    assert query(raw, name, ConsistentRead=True)["CapacityUnits"] == 1
    raw.put(name, make_item(4097, pk="p", sk="a"))
    assert query(raw, name, ConsistentRead=True)["CapacityUnits"] == 2
    assert query(raw, name)["CapacityUnits"] == 1


def test_names_and_every_byte_of_a_character_are_counted(raw: Raw, make_table: MakeTable) -> None:
    name = make_table("pk:S", "sk:S")
    used = len("pk" + "p" + "sk" + "s") + len("größe".encode())
    raw.put(name, {"pk": {"S": "p"}, "sk": {"S": "s"}, "größe": {"S": "é" * ((4096 - used) // 2)}})
    at_the_limit = query(raw, name, ConsistentRead=True)["CapacityUnits"]
    raw.put(name, {"pk": {"S": "p"}, "sk": {"S": "s"}, "größe": {"S": "é" * ((4096 - used) // 2 + 1)}})
    assert (at_the_limit, query(raw, name, ConsistentRead=True)["CapacityUnits"]) == (1, 2)


@pytest.mark.parametrize(
    "request_",
    [
        {"FilterExpression": "f = :no", "values": {":no": {"S": "no"}}},
        {"ProjectionExpression": "sk"},
        {"Select": "COUNT"},
    ],
    ids=["filter", "projection", "count"],
)
def test_charges_for_items_left_out_of_the_answer(raw: Raw, eight_kilobytes: str, request_: Body) -> None:
    assert query(raw, eight_kilobytes, **request_)["CapacityUnits"] == 1


def test_a_total_has_no_breakdown(raw: Raw, eight_kilobytes: str) -> None:
    capacity = query(raw, eight_kilobytes, ReturnConsumedCapacity="TOTAL")
    assert capacity == {"TableName": eight_kilobytes, "CapacityUnits": 1}


@pytest.mark.parametrize("request_", [{}, {"ReturnConsumedCapacity": "NONE"}], ids=["not asked", "none"])
def test_returns_no_capacity_unless_requested(raw: Raw, eight_kilobytes: str, request_: Body) -> None:
    assert "ConsumedCapacity" not in raw.answer("Scan", {"TableName": eight_kilobytes} | request_)


@pytest.fixture(scope="module")
def indexed_table(make_shared_table: MakeTable, raw: Raw) -> str:
    """Create three items of 3,000 bytes, with local and global indexes that hold whole items or only their
    keys.
    """
    name = make_shared_table(
        "pk:S",
        "sk:S",
        lsi=[index("mine_all", "pk:S", "w:N"), index("mine_keys", "pk:S", "w:N", projection="KEYS_ONLY")],
        gsi=[index("ours_all", "kind:S"), index("ours_keys", "kind:S", projection="KEYS_ONLY")],
    )
    for number in range(3):
        raw.put(name, make_item(3000, pk="p", sk=str(number), w={"N": str(number + 1)}, kind="k"))
    return name


@pytest.mark.parametrize(("name", "units"), [("ours_all", 1.5), ("ours_keys", 0.5)])
def test_global_index_costs_its_projected_data(raw: Raw, indexed_table: str, name: str, units: float) -> None:
    for capacity in (
        cost(raw, "Query", indexed_table, IndexName=name, **KIND),
        cost(raw, "Scan", indexed_table, IndexName=name),
    ):
        assert capacity["CapacityUnits"] == units
        assert capacity["GlobalSecondaryIndexes"] == {name: {"CapacityUnits": units}}
        assert capacity["Table"] == {"CapacityUnits": 0}
        assert "LocalSecondaryIndexes" not in capacity


@pytest.mark.parametrize(
    ("name", "consistent", "units"),
    [("mine_all", True, 3), ("mine_all", False, 1.5), ("mine_keys", True, 1), ("mine_keys", False, 0.5)],
)
def test_local_index_costs_its_projected_data(
    raw: Raw, indexed_table: str, name: str, consistent: bool, units: float
) -> None:
    capacity = query(raw, indexed_table, IndexName=name, ConsistentRead=consistent)
    assert capacity["CapacityUnits"] == units
    assert capacity["LocalSecondaryIndexes"] == {name: {"CapacityUnits": units}}
    assert capacity["Table"] == {"CapacityUnits": 0}


@pytest.mark.parametrize(
    "request_", [{"Select": "ALL_ATTRIBUTES"}, {"ProjectionExpression": "f"}], ids=["everything", "something"]
)
@pytest.mark.parametrize("consistent", [True, False], ids=["consistent", "eventual"])
def test_local_index_fetches_are_charged_to_the_table(
    raw: Raw, indexed_table: str, request_: Body, consistent: bool
) -> None:
    # dynalite fetches only for Select.
    capacity = query(raw, indexed_table, IndexName="mine_keys", ConsistentRead=consistent, **request_)
    factor = 1 if consistent else 0.5
    assert capacity["LocalSecondaryIndexes"] == {"mine_keys": {"CapacityUnits": 1 * factor}}
    assert capacity["Table"] == {"CapacityUnits": 3 * factor}
    assert capacity["CapacityUnits"] == 4 * factor


def test_each_scan_page_is_charged_separately(raw: Raw, eight_kilobytes: str) -> None:
    """Eight kilobytes in pages of three items: each page is rounded up separately."""
    body: Body = {"Limit": 3}
    units = []
    while True:
        answer = raw.answer(
            "Scan",
            {"TableName": eight_kilobytes, "ReturnConsumedCapacity": "TOTAL", "ConsistentRead": True} | body,
        )
        units.append(answer["ConsumedCapacity"]["CapacityUnits"])
        if "LastEvaluatedKey" not in answer:
            break
        body["ExclusiveStartKey"] = answer["LastEvaluatedKey"]
    assert units == [1, 1, 1]
