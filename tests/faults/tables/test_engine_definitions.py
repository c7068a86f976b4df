"""Two processes on one tables file: a change of a table's definition by one applies to the other at once."""

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
from tests.stateful.drivers import Refused, SeveralProcesses

from .engine_consistency import assert_consistent

ROOT = Path(__file__).parents[3]
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
Pair = tuple[SeveralProcesses, SeveralProcesses]


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    """Start two processes on one file."""
    clock = RunClock(tmp_path / "clock", start=1_000_000_000)
    command = [
        sys.executable,
        "-m",
        "tests.stateful.worker_process",
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
        yield SeveralProcesses([one], clock, Random(0)), SeveralProcesses([two], clock, Random(0))
    with open_tables(tmp_path / "t.db") as tables:
        assert_consistent(tables)


def make_put(key: str, **more: str) -> dict[str, Any]:
    return {
        "TableName": TABLE,
        "Item": {"pk": {"S": key}} | {name: {"S": text} for name, text in more.items()},
    }


def list_in_index(process: SeveralProcesses) -> list[str]:
    """Return the keys of the items in the index, as the process sees them."""
    found = process.call("Scan", {"TableName": TABLE, "IndexName": "by_g"})["Items"]
    return sorted(item["pk"]["S"] for item in found)


def test_table_created_by_one_process_is_usable_by_the_other(pair: Pair) -> None:
    one, two = pair
    two.call("ListTables", {})
    one.call("CreateTable", CREATE)
    two.call("PutItem", make_put("a"))
    assert one.call("GetItem", {"TableName": TABLE, "Key": {"pk": {"S": "a"}}})["Item"] == {"pk": {"S": "a"}}


def test_table_deleted_by_one_process_is_not_found_by_the_other(pair: Pair) -> None:
    one, two = pair
    one.call("CreateTable", CREATE)
    two.call("PutItem", make_put("a"))
    one.call("DeleteTable", {"TableName": TABLE})
    key = {"TableName": TABLE, "Key": {"pk": {"S": "a"}}}
    for operation, request in (
        ("GetItem", key),
        ("PutItem", make_put("a")),
        ("Scan", {"TableName": TABLE}),
        ("DeleteItem", key),
    ):
        with pytest.raises(Refused) as refused:
            two.call(operation, request)
        assert refused.value.code == "ResourceNotFoundException"


def test_recreated_table_is_empty_for_the_other_process(pair: Pair) -> None:
    one, two = pair
    one.call("CreateTable", CREATE)
    two.call("PutItem", make_put("a"))
    for _ in range(3):
        one.call("DeleteTable", {"TableName": TABLE})
        one.call("CreateTable", CREATE)
        assert two.call("GetItem", {"TableName": TABLE, "Key": {"pk": {"S": "a"}}}) == {}
        assert two.call("Scan", {"TableName": TABLE})["Items"] == []
        two.call("PutItem", make_put("a"))


def test_recreated_table_uses_its_new_key_in_the_other_process(pair: Pair) -> None:
    one, two = pair
    one.call("CreateTable", CREATE)
    two.call("PutItem", make_put("a"))
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


def test_other_process_maintains_an_added_index(pair: Pair) -> None:
    one, two = pair
    one.call("CreateTable", CREATE)
    two.call("PutItem", make_put("before", g="x"))
    two.call("PutItem", make_put("apart"))
    one.call("UpdateTable", ADD_INDEX)
    two.call("PutItem", make_put("after", g="x"))
    one.settle()
    assert list_in_index(one) == list_in_index(two) == ["after", "before"]
    two.call("PutItem", make_put("before"))
    assert list_in_index(one) == ["after"]


def test_index_removed_by_one_process_is_gone_for_the_other(pair: Pair) -> None:
    one, two = pair
    one.call("CreateTable", CREATE)
    one.call("UpdateTable", ADD_INDEX)
    two.settle()
    two.call("PutItem", make_put("a", g="x"))
    assert list_in_index(two) == ["a"]
    one.call("UpdateTable", DROP_INDEX)
    with pytest.raises(Refused, match="does not have the specified index"):
        list_in_index(two)
    two.call("PutItem", {"TableName": TABLE, "Item": {"pk": {"S": "a"}, "g": {"N": "1"}}})


def test_other_process_applies_a_ttl_that_was_set(pair: Pair) -> None:
    one, two = pair
    one.call("CreateTable", CREATE)
    two.call("ListTables", {})
    lifetime = {"Enabled": True, "AttributeName": "e"}
    one.call("UpdateTimeToLive", {"TableName": TABLE, "TimeToLiveSpecification": lifetime})
    two.call("PutItem", {"TableName": TABLE, "Item": {"pk": {"S": "a"}, "e": {"N": "1000000100"}}})
    one.advance(200)
    assert two.call("Scan", {"TableName": TABLE})["Items"] == []
