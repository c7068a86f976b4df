"""Secondary indexes over the wire: their contents, allowed requests, order, and pages.

Adding an index to a table in use is tested in `test_update_table.py`.
"""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import MakeTable, index
from .protocol import Raw, cases

Body = dict[str, Any]

INVALID = "One or more parameter values were invalid: "


@pytest.fixture(scope="module")
def table(make_shared_table: MakeTable, raw: Raw) -> str:
    """Create a table with three local indexes on `weight`, three global ones on `kind` and `at`, one of each
    projection, and one item.
    """
    name = make_shared_table(
        "pk:S",
        "sk:S",
        lsi=[
            index("local_all", "pk:S", "weight:N"),
            index("local_keys", "pk:S", "weight:N", projection="KEYS_ONLY"),
            index("local_some", "pk:S", "weight:N", include=["a"]),
        ],
        gsi=[
            index("global_all", "kind:S", "at:S"),
            index("global_keys", "kind:S", "at:S", projection="KEYS_ONLY"),
            index("global_some", "kind:S", "at:S", include=["a"]),
        ],
    )
    raw.put(name, ITEM)
    return name


ITEM: Body = {
    "pk": {"S": "p"},
    "sk": {"S": "s"},
    "weight": {"N": "1"},
    "kind": {"S": "k"},
    "at": {"S": "t"},
    "a": {"S": "included"},
    "b": {"M": {"c": {"S": "not included"}}},
}


def build_query(table: str, name: str, **request: Any) -> Body:
    """Return the body of a Query on an index, for the partition `k` (global) or `p` (local)."""
    key, value = ("kind", "k") if name.startswith("global") else ("pk", "p")
    values = {":key": {"S": value}} | request.pop("values", {})
    condition = {"KeyConditionExpression": f"{key} = :key", "ExpressionAttributeValues": values}
    return {"TableName": table, "IndexName": name} | condition | request


def items(raw: Raw, table: str, name: str, **request: Any) -> list[Body]:
    """Query an index and return the items."""
    found: list[Body] = raw.answer("Query", build_query(table, name, **request))["Items"]
    return found


# Allowed requests


@pytest.mark.parametrize("operation", ["Query", "Scan"])
def test_a_global_index_has_no_consistent_reads(raw: Raw, table: str, operation: str) -> None:
    # DynamoDB Local has its own text, dynalite accepts a Scan.
    body = (
        build_query(table, "global_all")
        if operation == "Query"
        else {"TableName": table, "IndexName": "global_all"}
    )
    text = "Consistent reads are not supported on global secondary indexes"
    assert raw.refusal(operation, body | {"ConsistentRead": True}) == ("ValidationException", text)


def test_a_local_index_has_consistent_reads(raw: Raw, table: str) -> None:
    assert items(raw, table, "local_all", ConsistentRead=True) == [ITEM]


@pytest.mark.parametrize("operation", ["Query", "Scan"])
@pytest.mark.parametrize("name", ["global_keys", "global_some"])
def test_global_index_rejects_all_attributes_unless_projected(
    raw: Raw, table: str, operation: str, name: str
) -> None:
    # DynamoDB Local answers with the projected attributes.
    body = build_query(table, name) if operation == "Query" else {"TableName": table, "IndexName": name}
    text = (
        INVALID
        + f"Select type ALL_ATTRIBUTES is not supported for global secondary index {name} "
        + "because its projection type is not ALL"
    )
    assert raw.refusal(operation, body | {"Select": "ALL_ATTRIBUTES"}) == ("ValidationException", text)


@pytest.mark.parametrize(
    ("request_", "text"),
    cases(
        {
            "an attribute it does not project": (
                {"ProjectionExpression": "a, b"},
                INVALID + "Global secondary index global_some does not project [b]",
            ),
            "a filter on what it does not project": (
                {"FilterExpression": "b = :key"},
                INVALID + "Secondary index global_some does not project one or more filter attributes: [b]",
            ),
            "a filter on its own key": (
                {"FilterExpression": "at = :key"},
                "Filter Expression can only contain non-primary key attributes: Primary key attribute: at",
            ),
        }
    ),
)
def test_global_index_rejects_attributes_it_does_not_project(
    raw: Raw, table: str, request_: Body, text: str
) -> None:
    # dynalite answers the first two with the projected attributes, DynamoDB Local the first.
    body = build_query(table, "global_some", **request_)
    if "at = " in request_.get("FilterExpression", ""):
        body |= {"FilterExpression": "#at = :key", "ExpressionAttributeNames": {"#at": "at"}}
    assert raw.refusal("Query", body) == ("ValidationException", text)


def test_local_index_rejects_filters_on_unprojected_attributes(raw: Raw, table: str) -> None:
    text = INVALID + "Secondary index local_some does not project one or more filter attributes: [b]"
    refusal = raw.refusal("Query", build_query(table, "local_some", FilterExpression="b = :key"))
    assert refusal == ("ValidationException", text)


def test_index_query_may_filter_by_table_keys(raw: Raw, table: str) -> None:
    found = items(raw, table, "global_keys", FilterExpression="pk = :p", values={":p": {"S": "p"}})
    assert len(found) == 1


# Contents


def pick(*names: str) -> Body:
    """Return these attributes of ITEM."""
    return {name: ITEM[name] for name in names}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("global_all", ITEM),
        ("global_keys", pick("pk", "sk", "kind", "at")),
        ("global_some", pick("pk", "sk", "kind", "at", "a")),
        ("local_all", ITEM),
        ("local_keys", pick("pk", "sk", "weight")),
        ("local_some", pick("pk", "sk", "weight", "a")),
    ],
)
def test_index_returns_its_projection(raw: Raw, table: str, name: str, expected: Body) -> None:
    assert items(raw, table, name) == [expected]
    assert items(raw, table, name, Select="ALL_PROJECTED_ATTRIBUTES") == [expected]
    scanned = raw.answer("Scan", {"TableName": table, "IndexName": name})
    assert scanned["Items"] == [expected]


@pytest.mark.parametrize("name", ["global_all", "local_all", "local_keys", "local_some"])
def test_returns_all_attributes_where_available(raw: Raw, table: str, name: str) -> None:
    assert items(raw, table, name, Select="ALL_ATTRIBUTES") == [ITEM]


@pytest.mark.parametrize("name", ["local_keys", "local_some"])
def test_local_index_fetches_unprojected_attributes(raw: Raw, table: str, name: str) -> None:
    # dynalite returns only projected attributes.
    assert items(raw, table, name, ProjectionExpression="sk, a, b.c") == [pick("sk", "a", "b")]


def test_count_returns_no_attributes(raw: Raw, table: str) -> None:
    answer = raw.answer("Query", build_query(table, "global_keys", Select="COUNT"))
    assert answer == {"Count": 1, "ScannedCount": 1}


def test_an_item_without_the_key_is_not_in_the_index(raw: Raw, make_table: MakeTable) -> None:
    name = make_table("pk:S", gsi=[index("global_both", "kind:S", "at:S")])
    raw.put(name, {"pk": {"S": "neither"}})
    raw.put(name, {"pk": {"S": "hash only"}, "kind": {"S": "k"}})
    raw.put(name, {"pk": {"S": "range only"}, "at": {"S": "t"}})
    raw.put(name, {"pk": {"S": "both"}, "kind": {"S": "k"}, "at": {"S": "t"}})
    assert [item["pk"]["S"] for item in items(raw, name, "global_both")] == ["both"]
    assert raw.answer("Scan", {"TableName": name, "IndexName": "global_both"})["Count"] == 1


@pytest.fixture
def small(make_table: MakeTable) -> str:
    """Create a table with a global index on `kind` that includes `a`."""
    return make_table("pk:S", gsi=[index("global_some", "kind:S", include=["a"])])


def put_item(raw: Raw, table: str, **attributes: str) -> None:
    raw.put(table, {"pk": {"S": "p"}} | {name: {"S": value} for name, value in attributes.items()})


def update_item(raw: Raw, table: str, expression: str, **values: str) -> None:
    """Update the item `p` with this expression and string values."""
    request: Body = {"TableName": table, "Key": {"pk": {"S": "p"}}, "UpdateExpression": expression}
    if values:
        request["ExpressionAttributeValues"] = {f":{name}": {"S": value} for name, value in values.items()}
    raw.answer("UpdateItem", request)


def test_an_item_moves_in_the_index_with_its_key(raw: Raw, small: str) -> None:
    put_item(raw, small, kind="old")
    update_item(raw, small, "SET kind = :k", k="k")
    assert items(raw, small, "global_some", values={":key": {"S": "old"}}) == []
    assert items(raw, small, "global_some") == [{"pk": {"S": "p"}, "kind": {"S": "k"}}]


def test_item_leaves_the_index_when_its_key_is_removed(raw: Raw, small: str) -> None:
    put_item(raw, small, kind="k")
    update_item(raw, small, "REMOVE kind")
    assert items(raw, small, "global_some") == []


def test_item_enters_the_index_with_its_key(raw: Raw, small: str) -> None:
    put_item(raw, small, a="1", b="2")
    update_item(raw, small, "SET kind = :k", k="k")
    assert items(raw, small, "global_some") == [{"pk": {"S": "p"}, "kind": {"S": "k"}, "a": {"S": "1"}}]


def test_a_projected_attribute_changes_in_the_index(raw: Raw, small: str) -> None:
    put_item(raw, small, kind="k", a="1")
    update_item(raw, small, "SET a = :a", a="2")
    assert items(raw, small, "global_some")[0]["a"] == {"S": "2"}
    update_item(raw, small, "REMOVE a")
    assert "a" not in items(raw, small, "global_some")[0]


def test_put_replaces_the_projected_attributes_in_the_index(raw: Raw, small: str) -> None:
    put_item(raw, small, kind="k", a="1")
    put_item(raw, small, kind="k")
    assert items(raw, small, "global_some") == [{"pk": {"S": "p"}, "kind": {"S": "k"}}]


def test_a_deleted_item_is_gone_from_the_index(raw: Raw, small: str) -> None:
    put_item(raw, small, kind="k")
    raw.answer("DeleteItem", {"TableName": small, "Key": {"pk": {"S": "p"}}})
    assert items(raw, small, "global_some") == []


# Allowed keys

ITEM_WITH_KEY: dict[str, Body] = {
    "a number": {"N": "1"},
    "a list": {"L": []},
    "a set": {"SS": ["k"]},
    "null": {"NULL": True},
}


@pytest.mark.parametrize("value", ITEM_WITH_KEY.values(), ids=ITEM_WITH_KEY)
def test_a_key_of_another_type_is_refused_at_the_write(raw: Raw, small: str, value: Body) -> None:
    body = {"TableName": small, "Item": {"pk": {"S": "p"}, "kind": value}}
    text = (
        INVALID
        + f"Type mismatch for Index Key kind Expected: S Actual: {next(iter(value))} IndexName: global_some"
    )
    assert raw.refusal("PutItem", body) == ("ValidationException", text)
    assert raw.item(small, {"pk": {"S": "p"}}) is None


def test_a_key_of_another_type_is_refused_at_the_update(raw: Raw, small: str) -> None:
    put_item(raw, small, kind="k")
    body = {
        "TableName": small,
        "Key": {"pk": {"S": "p"}},
        "UpdateExpression": "SET kind = :n",
        "ExpressionAttributeValues": {":n": {"N": "1"}},
    }
    text = INVALID + "Type mismatch for Index Key kind Expected: S Actual: N IndexName: global_some"
    assert raw.refusal("UpdateItem", body) == ("ValidationException", text)
    assert items(raw, small, "global_some") != []


def test_an_empty_key_is_refused_at_the_write(raw: Raw, small: str) -> None:
    body = {"TableName": small, "Item": {"pk": {"S": "p"}, "kind": {"S": ""}}}
    text = (
        "One or more parameter values are not valid. A value specified for a secondary index key is not "
        "supported. The AttributeValue for a key attribute cannot contain an empty string value. "
        "IndexName: global_some, IndexKey: kind"
    )
    assert raw.refusal("PutItem", body) == ("ValidationException", text)


@pytest.mark.parametrize(
    ("attribute", "size"),
    [("kind", 2048), ("at", 1024)],
    ids=["hash key of 2048 bytes", "range key of 1024 bytes"],
)
def test_index_keys_have_the_size_limits_of_table_keys(
    raw: Raw, make_table: MakeTable, attribute: str, size: int
) -> None:
    # dynalite does not measure the keys of indexes.
    name = make_table("pk:S", gsi=[index("global_all", "kind:S", "at:S")])
    item = {"pk": {"S": "p"}, "kind": {"S": "k"}, "at": {"S": "t"}}
    raw.put(name, item | {attribute: {"S": "x" * size}})
    body = {"TableName": name, "Item": item | {attribute: {"S": "x" * (size + 1)}}}
    code, text = raw.refusal("PutItem", body)
    assert code == "ValidationException"
    assert str(size) in str(text)


# Order and pages


@pytest.fixture(scope="module")
def crowd(make_shared_table: MakeTable, raw: Raw) -> str:
    """Create thirty items of one kind, ten each at times 1, 2 and 3, so that ten items share every index
    key.
    """
    name = make_shared_table(
        "pk:S",
        "sk:N",
        lsi=[index("local_time", "pk:S", "time:N")],
        gsi=[index("global_time", "kind:S", "time:N"), index("global_kind", "kind:S")],
    )
    for number in range(30):
        key = {"pk": {"S": "p"}, "sk": {"N": str(number)}}
        raw.put(name, key | {"kind": {"S": "k"}, "time": {"N": str(number % 3 + 1)}})
    return name


def pages(raw: Raw, body: Body, operation: str = "Query") -> list[list[Body]]:
    """Read all pages of a Query or Scan and return the items of each."""
    found: list[list[Body]] = []
    while True:
        answer = raw.answer(operation, body)
        found.append(answer["Items"])
        if "LastEvaluatedKey" not in answer:
            return found
        body = body | {"ExclusiveStartKey": answer["LastEvaluatedKey"]}
        assert len(found) < 50, "the pages never end"


@pytest.mark.parametrize("name", ["local_time", "global_time"])
@pytest.mark.parametrize("forward", [True, False], ids=["forward", "backward"])
def test_an_index_is_in_order_of_its_range_key(raw: Raw, crowd: str, name: str, forward: bool) -> None:
    found = items(raw, crowd, name, ScanIndexForward=forward)
    times = [int(item["time"]["N"]) for item in found]
    assert times == sorted(times, reverse=not forward)
    assert len(found) == 30


@pytest.mark.parametrize("limit", [1, 4, 10, 29])
@pytest.mark.parametrize("forward", [True, False], ids=["forward", "backward"])
@pytest.mark.parametrize("name", ["local_time", "global_time", "global_kind"])
def test_pages_neither_lose_nor_repeat_items_with_equal_keys(
    raw: Raw, crowd: str, name: str, forward: bool, limit: int
) -> None:
    whole = items(raw, crowd, name, ScanIndexForward=forward)
    paged = pages(raw, build_query(crowd, name, ScanIndexForward=forward, Limit=limit))
    assert [item for page in paged for item in page] == whole
    assert all(len(page) == limit for page in paged[:-1])


def test_backward_reverses_forward_order_among_equal_keys(raw: Raw, crowd: str) -> None:
    forward = items(raw, crowd, "global_time")
    assert items(raw, crowd, "global_time", ScanIndexForward=False) == forward[::-1]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("local_time", {"pk", "sk", "time"}),
        ("global_time", {"pk", "sk", "kind", "time"}),
        ("global_kind", {"pk", "sk", "kind"}),
    ],
)
@pytest.mark.parametrize("operation", ["Query", "Scan"])
def test_last_key_of_an_index_page_has_both_keys(
    raw: Raw, crowd: str, operation: str, name: str, expected: set[str]
) -> None:
    body = build_query(crowd, name) if operation == "Query" else {"TableName": crowd, "IndexName": name}
    answer = raw.answer(operation, body | {"Limit": 1})
    last = answer["Items"][0]
    assert answer["LastEvaluatedKey"] == {attribute: last[attribute] for attribute in expected}


@pytest.mark.parametrize("name", ["local_time", "global_time", "global_kind"])
def test_a_scan_of_an_index_is_paged_to_its_end(raw: Raw, crowd: str, name: str) -> None:
    paged = pages(raw, {"TableName": crowd, "IndexName": name, "Limit": 7}, "Scan")
    numbers = sorted(int(item["sk"]["N"]) for page in paged for item in page)
    assert numbers == list(range(30))


def test_a_range_of_an_index_is_paged(raw: Raw, crowd: str) -> None:
    body = build_query(crowd, "global_time", Limit=3) | {
        "KeyConditionExpression": "kind = :key AND #time BETWEEN :a AND :b",
        "ExpressionAttributeNames": {"#time": "time"},
        "ExpressionAttributeValues": {":key": {"S": "k"}, ":a": {"N": "2"}, ":b": {"N": "2.5"}},
    }
    found = [item for page in pages(raw, body) for item in page]
    assert len(found) == 10
    assert {item["time"]["N"] for item in found} == {"2"}


def test_page_continues_after_a_deleted_start_item(raw: Raw, make_table: MakeTable) -> None:
    name = make_table("pk:S", gsi=[index("global_all", "kind:S", "at:S")])
    for letter in "abc":
        raw.put(name, {"pk": {"S": letter}, "kind": {"S": "k"}, "at": {"S": letter}})
    first = raw.answer("Query", build_query(name, "global_all", Limit=2))
    raw.answer("DeleteItem", {"TableName": name, "Key": {"pk": {"S": "b"}}})
    rest = items(raw, name, "global_all", ExclusiveStartKey=first["LastEvaluatedKey"])
    assert [item["pk"]["S"] for item in rest] == ["c"]
