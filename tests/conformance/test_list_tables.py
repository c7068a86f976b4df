"""ListTables over the wire: names in order, in pages."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import MakeTable, unique_name
from .protocol import Raw

CONSTRAINT = "1 validation error detected: Value '{}' at '{}' failed to satisfy constraint: Member must "


# Shape


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"Limit": 0}, CONSTRAINT.format(0, "limit") + "have value greater than or equal to 1"),
        ({"Limit": 101}, CONSTRAINT.format(101, "limit") + "have value less than or equal to 100"),
        (
            {"ExclusiveStartTableName": "a"},
            CONSTRAINT.format("a", "exclusiveStartTableName") + "have length greater than or equal to 3",
        ),
        (
            {"ExclusiveStartTableName": "ab;"},
            CONSTRAINT.format("ab;", "exclusiveStartTableName")
            + "satisfy regular expression pattern: [a-zA-Z0-9_.-]+",
        ),
        (
            {"ExclusiveStartTableName": "a" * 256},
            CONSTRAINT.format("a" * 256, "exclusiveStartTableName") + "have length less than or equal to 255",
        ),
    ],
    ids=["limit 0", "limit 101", "short name", "characters", "long name"],
)
def test_rejects_values_out_of_range(raw: Raw, body: dict[str, Any], text: str) -> None:
    assert raw.refusal("ListTables", body) == ("ValidationException", text)


def test_truncates_a_fractional_limit(raw: Raw, shared_hash_table: str) -> None:
    assert len(raw.answer("ListTables", {"Limit": 1.9})["TableNames"]) == 1


# Behaviour


def list_tables(dynamodb: Any) -> list[str]:
    """Return the names of all tables, from all pages."""
    pages = dynamodb.get_paginator("list_tables").paginate()
    return [name for page in pages for name in page["TableNames"]]


def test_a_new_table_is_listed_and_a_deleted_one_is_not(dynamodb: Any, make_table: MakeTable) -> None:
    name = make_table("pk:S")
    assert name in list_tables(dynamodb)
    dynamodb.delete_table(TableName=name)
    dynamodb.get_waiter("table_not_exists").wait(TableName=name, WaiterConfig={"Delay": 1})
    assert name not in list_tables(dynamodb)


def test_names_are_in_order_of_their_bytes(dynamodb: Any, make_table: MakeTable) -> None:
    prefix = unique_name("order")
    names = [make_table("pk:S", TableName=prefix + tail) for tail in ("b", "B", "a.", "a-", "_")]
    assert [name for name in list_tables(dynamodb) if name in names] == sorted(names)


def test_next_page_starts_after_the_last_name(dynamodb: Any, make_table: MakeTable) -> None:
    prefix = unique_name("page")
    names = sorted(make_table("pk:S", TableName=f"{prefix}_{number}") for number in range(3))
    first = dynamodb.list_tables(ExclusiveStartTableName=prefix, Limit=2)
    assert first["TableNames"] == names[:2]
    assert first["LastEvaluatedTableName"] == names[1]
    second = dynamodb.list_tables(ExclusiveStartTableName=names[1], Limit=1)
    assert second["TableNames"] == names[2:]


def test_start_name_need_not_be_a_table(dynamodb: Any, make_table: MakeTable) -> None:
    name = make_table("pk:S")
    assert dynamodb.list_tables(ExclusiveStartTableName=name[:-1], Limit=1)["TableNames"] == [name]


def test_the_last_page_has_no_last_name(dynamodb: Any, shared_hash_table: str) -> None:
    answer = dynamodb.list_tables(ExclusiveStartTableName="zzzzzzzzz")
    assert answer["TableNames"] == []
    assert "LastEvaluatedTableName" not in answer
