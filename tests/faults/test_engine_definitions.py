"""What one process does to a table's definition holds for all others, from its acknowledgement on."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any

import pytest

from holdfast.core.clock import RunClock
from holdfast.stores.tables.embedded import open_tables
from tests.model.drivers import Refused, TakingTurns

from .engine_consistency import assert_consistent

ROOT = Path(__file__).parents[2]
TABLE = "defined"
CREATE = {
    "TableName": TABLE,
    "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
    "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
    "BillingMode": "PAY_PER_REQUEST",
}
ADD_INDEX = {
    "TableName": TABLE,
    "AttributeDefinitions": [{"AttributeName": "g", "AttributeType": "S"}],
    "GlobalSecondaryIndexUpdates": [
        {
            "Create": {
                "IndexName": "by_g",
                "KeySchema": [{"AttributeName": "g", "KeyType": "HASH"}],
                "Projection": {"ProjectionType": "ALL"},
            }
        }
    ],
}
DROP_INDEX = {"TableName": TABLE, "GlobalSecondaryIndexUpdates": [{"Delete": {"IndexName": "by_g"}}]}
Pair = tuple[TakingTurns, TakingTurns]


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    """Two processes on one file."""
    clock = RunClock(tmp_path / "clock", start=1_000_000_000)
    command = [
        sys.executable,
        "-m",
        "tests.model.worker_process",
        str(tmp_path / "t.db"),
        str(tmp_path / "clock"),
    ]
    with ExitStack() as stack:
        one, two = (
            stack.enter_context(
                subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            )
            for _ in range(2)
        )
        yield TakingTurns([one], clock, Random(0)), TakingTurns([two], clock, Random(0))
    with open_tables(tmp_path / "t.db") as tables:
        assert_consistent(tables)


def _item(key: str, **more: str) -> dict[str, Any]:
    return {
        "TableName": TABLE,
        "Item": {"pk": {"S": key}} | {name: {"S": text} for name, text in more.items()},
    }


def _in_index(process: TakingTurns) -> list[str]:
    found = process.call("Scan", {"TableName": TABLE, "IndexName": "by_g"})["Items"]
    return sorted(item["pk"]["S"] for item in found)


def test_a_table_made_by_one_is_used_by_the_other_at_once(pair: Pair) -> None:
    one, two = pair
    two.call("ListTables", {})
    one.call("CreateTable", CREATE)
    two.call("PutItem", _item("a"))
    assert one.call("GetItem", {"TableName": TABLE, "Key": {"pk": {"S": "a"}}})["Item"] == {"pk": {"S": "a"}}


def test_a_table_deleted_by_one_is_not_found_by_the_other(pair: Pair) -> None:
    one, two = pair
    one.call("CreateTable", CREATE)
    two.call("PutItem", _item("a"))
    one.call("DeleteTable", {"TableName": TABLE})
    key = {"TableName": TABLE, "Key": {"pk": {"S": "a"}}}
    for operation, request in (
        ("GetItem", key),
        ("PutItem", _item("a")),
        ("Scan", {"TableName": TABLE}),
        ("DeleteItem", key),
    ):
        with pytest.raises(Refused) as refused:
            two.call(operation, request)
        assert refused.value.code == "ResourceNotFoundException"


def test_a_table_made_again_by_one_is_empty_for_the_other(pair: Pair) -> None:
    one, two = pair
    one.call("CreateTable", CREATE)
    two.call("PutItem", _item("a"))
    for _ in range(3):
        one.call("DeleteTable", {"TableName": TABLE})
        one.call("CreateTable", CREATE)
        assert two.call("GetItem", {"TableName": TABLE, "Key": {"pk": {"S": "a"}}}) == {}
        assert two.call("Scan", {"TableName": TABLE})["Items"] == []
        two.call("PutItem", _item("a"))


def test_a_table_made_again_with_another_key_is_read_by_that_key(pair: Pair) -> None:
    one, two = pair
    one.call("CreateTable", CREATE)
    two.call("PutItem", _item("a"))
    one.call("DeleteTable", {"TableName": TABLE})
    with pytest.raises(Refused) as refused:
        two.call("GetItem", {"TableName": TABLE, "Key": {"pk": {"N": "1"}}})
    assert refused.value.code == "ResourceNotFoundException"
    numbers = [{"AttributeName": "pk", "AttributeType": "N"}]
    one.call("CreateTable", CREATE | {"AttributeDefinitions": numbers})
    key = {"pk": {"N": "1"}}
    assert two.call("GetItem", {"TableName": TABLE, "Key": key}) == {}
    one.call("PutItem", {"TableName": TABLE, "Item": key})
    assert two.call("GetItem", {"TableName": TABLE, "Key": key}) == {"Item": key}


def test_an_index_added_by_one_is_kept_by_the_writes_of_the_other(pair: Pair) -> None:
    one, two = pair
    one.call("CreateTable", CREATE)
    two.call("PutItem", _item("before", g="x"))
    two.call("PutItem", _item("apart"))
    one.call("UpdateTable", ADD_INDEX)
    two.call("PutItem", _item("after", g="x"))
    one.settle()
    assert _in_index(one) == _in_index(two) == ["after", "before"]
    two.call("PutItem", _item("before"))
    assert _in_index(one) == ["after"]


def test_an_index_removed_by_one_is_gone_for_the_other(pair: Pair) -> None:
    one, two = pair
    one.call("CreateTable", CREATE)
    one.call("UpdateTable", ADD_INDEX)
    two.settle()
    two.call("PutItem", _item("a", g="x"))
    assert _in_index(two) == ["a"]
    one.call("UpdateTable", DROP_INDEX)
    with pytest.raises(Refused, match="does not have the specified index"):
        _in_index(two)
    two.call("PutItem", {"TableName": TABLE, "Item": {"pk": {"S": "a"}, "g": {"N": "1"}}})


def test_a_lifetime_set_by_one_is_kept_by_the_writes_of_the_other(pair: Pair) -> None:
    one, two = pair
    one.call("CreateTable", CREATE)
    two.call("ListTables", {})
    lifetime = {"Enabled": True, "AttributeName": "e"}
    one.call("UpdateTimeToLive", {"TableName": TABLE, "TimeToLiveSpecification": lifetime})
    two.call("PutItem", {"TableName": TABLE, "Item": {"pk": {"S": "a"}, "e": {"N": "1000000100"}}})
    one.advance(200)
    assert two.call("Scan", {"TableName": TABLE})["Items"] == []
