"""Results of item operations encoded as JSON responses, with exactly the members that DynamoDB sends."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.operations.tables import (
    BatchGetItemResult,
    BatchWriteItemResult,
    ConsumedCapacity,
    Delete,
    GetItemResult,
    KeysAndAttributes,
    Operation,
    PageResult,
    Put,
    TransactGetItemsResult,
    TransactWriteItemsResult,
    Units,
    WriteResult,
)
from holdfast.wire.arns import AwsLocation
from holdfast.wire.dispatch import decode, encode

KEY = {"a": {"S": "b"}}
PLACE = AwsLocation("us-east-1", "000000000000")
REQUESTS: dict[str, Any] = {
    "GetItem": {"TableName": "abc", "Key": KEY},
    "PutItem": {"TableName": "abc", "Item": KEY},
    "UpdateItem": {"TableName": "abc", "Key": KEY},
    "DeleteItem": {"TableName": "abc", "Key": KEY},
    "Query": {
        "TableName": "abc",
        "KeyConditionExpression": "a = :a",
        "ExpressionAttributeValues": {":a": {"S": "b"}},
    },
    "Scan": {"TableName": "abc"},
    "BatchGetItem": {"RequestItems": {"abc": {"Keys": [KEY]}}},
    "BatchWriteItem": {"RequestItems": {"abc": [{"PutRequest": {"Item": KEY}}]}},
    "TransactGetItems": {"TransactItems": [{"Get": {"TableName": "abc", "Key": KEY}}]},
    "TransactWriteItems": {"TransactItems": [{"Put": {"TableName": "abc", "Item": KEY}}]},
}


def answer(operation: str, result: Any, detail: str = "NONE") -> Any:
    """Decode a minimal request of the operation, encode the result for it, and return the response."""
    request = REQUESTS[operation] | {"ReturnConsumedCapacity": detail}
    decoded: tuple[Any, Operation[Any]] = decode(
        f"DynamoDB_20120810.{operation}", json.dumps(request).encode()
    )
    return json.loads(encode(*decoded, result, PLACE))


def test_an_absent_item_is_an_empty_answer() -> None:
    assert answer("GetItem", GetItemResult(item=None)) == {}
    assert answer("GetItem", GetItemResult(item={"a": "b"})) == {"Item": KEY}


@pytest.mark.parametrize("operation", ["PutItem", "UpdateItem", "DeleteItem"])
def test_a_write_answers_with_attributes_only_if_there_are_any(operation: str) -> None:
    assert answer(operation, WriteResult()) == {}
    assert answer(operation, WriteResult(attributes={"a": "b"})) == {"Attributes": KEY}


@pytest.mark.parametrize("operation", ["Query", "Scan"])
def test_a_page_has_its_counts_and_a_last_key_only_if_there_is_more(operation: str) -> None:
    assert answer(operation, PageResult(items=[], count=0, scanned_count=3)) == {
        "Items": [],
        "Count": 0,
        "ScannedCount": 3,
    }
    assert answer(
        operation, PageResult(items=[{"a": "b"}], count=1, scanned_count=1, last_key={"a": "b"})
    ) == {
        "Items": [KEY],
        "Count": 1,
        "ScannedCount": 1,
        "LastEvaluatedKey": KEY,
    }
    assert answer(operation, PageResult(items=None, count=2, scanned_count=3)) == {
        "Count": 2,
        "ScannedCount": 3,
    }


def test_unprocessed_writes_can_be_resent_unchanged() -> None:
    assert answer("BatchWriteItem", BatchWriteItemResult()) == {"UnprocessedItems": {}}
    left = BatchWriteItemResult(unprocessed=(Put("abc", {"a": "b"}), Delete("abc", {"a": "b"})))
    assert answer("BatchWriteItem", left) == {
        "UnprocessedItems": {"abc": [{"PutRequest": {"Item": KEY}}, {"DeleteRequest": {"Key": KEY}}]}
    }
    assert answer("BatchGetItem", BatchGetItemResult(items={"abc": [{"a": "b"}]})) == {
        "Responses": {"abc": [KEY]},
        "UnprocessedKeys": {},
    }


def test_unprocessed_keys_keep_the_callers_parameters() -> None:
    wanted = {
        "Keys": [KEY, {"a": {"S": "c"}}],
        "ConsistentRead": True,
        "ProjectionExpression": "a, #b.c[1]",
        "ExpressionAttributeNames": {"#b": "b"},
    }
    body = json.dumps({"RequestItems": {"abc": wanted}}).encode()
    codec, operation = decode("DynamoDB_20120810.BatchGetItem", body)
    left = KeysAndAttributes("abc", ({"a": "c"},), consistent=True)
    encoded = json.loads(encode(codec, operation, BatchGetItemResult(items={}, unprocessed=(left,)), PLACE))
    assert encoded["UnprocessedKeys"] == {"abc": wanted | {"Keys": [{"a": {"S": "c"}}]}}


def test_transactional_read_answers_every_position() -> None:
    assert answer("TransactGetItems", TransactGetItemsResult(items=({"a": "b"}, None))) == {
        "Responses": [{"Item": KEY}, {}]
    }
    assert answer("TransactWriteItems", TransactWriteItemsResult()) == {}


def test_the_total_consumed_is_the_sum_over_table_and_indexes() -> None:
    capacity = ConsumedCapacity("abc", Units(write=1.0), global_indexes={"g": Units(write=2.0)})
    result = WriteResult(capacity=capacity)
    assert answer("PutItem", result) == {}
    assert answer("PutItem", result, "TOTAL") == {
        "ConsumedCapacity": {"TableName": "abc", "CapacityUnits": 3.0}
    }


def test_reports_index_capacity_on_request() -> None:
    capacity = ConsumedCapacity(
        "abc",
        Units(write=1.0),
        local_indexes={"l": Units(write=1.0)},
        global_indexes={"g": Units(write=2.0)},
    )
    assert answer("PutItem", WriteResult(capacity=capacity), "INDEXES") == {
        "ConsumedCapacity": {
            "TableName": "abc",
            "CapacityUnits": 4.0,
            "Table": {"CapacityUnits": 1.0},
            "LocalSecondaryIndexes": {"l": {"CapacityUnits": 1.0}},
            "GlobalSecondaryIndexes": {"g": {"CapacityUnits": 2.0}},
        }
    }


def test_capacity_of_a_read_without_indexes_has_no_index_members() -> None:
    result = GetItemResult(item=None, capacity=ConsumedCapacity("abc", Units(read=0.5)))
    assert answer("GetItem", result, "INDEXES") == {
        "ConsumedCapacity": {"TableName": "abc", "CapacityUnits": 0.5, "Table": {"CapacityUnits": 0.5}}
    }


def test_batches_and_transactions_report_each_table() -> None:
    plain = ConsumedCapacity("abc", Units(write=1.0))
    assert answer("BatchWriteItem", BatchWriteItemResult(capacity=(plain,)), "TOTAL")["ConsumedCapacity"] == [
        {"TableName": "abc", "CapacityUnits": 1.0}
    ]
    transacted = ConsumedCapacity("abc", Units(write=2.0), transactional=True)
    encoded = answer("TransactWriteItems", TransactWriteItemsResult(capacity=(transacted,)), "INDEXES")
    assert encoded["ConsumedCapacity"] == [
        {
            "TableName": "abc",
            "CapacityUnits": 2.0,
            "WriteCapacityUnits": 2.0,
            "Table": {"CapacityUnits": 2.0, "WriteCapacityUnits": 2.0},
        }
    ]
