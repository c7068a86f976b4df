"""Which writes may be sent again when it is not known whether they were done."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.operations.expressions import Placeholders, parse_condition, parse_update
from holdfast.operations.tables import DeleteItem, PutItem, UpdateItem
from holdfast.operations.values import Item
from holdfast.stores.tables.dynamodb.repeats import repeat_of

KEY: Item = {"pk": "a"}
VALUES: Item = {":n": 1, ":zero": 0, ":s": frozenset({"x"}), ":l": [1], ":t": "text"}


def changed(update: str, condition: str | None = None, **more: Any) -> UpdateItem:
    return UpdateItem(
        table="T",
        key=KEY,
        update=parse_update(update, Placeholders(None, VALUES)),
        condition=None
        if condition is None
        else parse_condition(condition, "ConditionExpression", Placeholders(None, VALUES)),
        **more,
    )


@pytest.mark.parametrize(
    "operation",
    [
        PutItem(table="T", item=KEY),
        DeleteItem(table="T", key=KEY),
        UpdateItem(table="T", key=KEY),
        changed("SET a = :n, b.c = :t REMOVE d"),
        changed("SET a = if_not_exists(a, :n)"),
        changed("ADD tags :s DELETE labels :s"),
        changed("SET a = :n", returns="ALL_NEW"),
        changed("SET a = :n", returns="UPDATED_NEW"),
        changed("SET a = :n", "attribute_exists(pk)"),
        changed("SET version = version + :n", "version = :n"),
        changed("SET x = :t, version = version - :n", "attribute_exists(pk) AND version = :n"),
        changed("ADD version :n", "version = :n"),
    ],
    ids=str,
)
def test_done_twice_is_as_done_once(operation: Any) -> None:
    assert repeat_of(operation) == "same"


@pytest.mark.parametrize(
    "operation",
    [
        PutItem(table="T", item=KEY, returns="ALL_OLD"),
        DeleteItem(table="T", key=KEY, returns="ALL_OLD"),
        changed("SET a = :n", returns="UPDATED_OLD"),
        changed("ADD tally :n"),
        changed("SET tally = tally + :n"),
        changed("SET tally = if_not_exists(tally, :zero) + :n"),
        changed("SET things = list_append(things, :l)"),
        changed("SET a = b, b = :n"),
        changed("SET a = if_not_exists(b, :n)"),
        changed("REMOVE things[0]"),
        changed("SET things[5] = :n"),
        # A condition that can pass twice, one that pins another attribute, and one that moves by nothing.
        changed("ADD tally :n", "attribute_exists(pk)"),
        changed("ADD tally :n", "version = :n"),
        changed("SET version = version + :n", "version = :n OR attribute_not_exists(version)"),
        changed("ADD version :zero", "version = :n"),
    ],
    ids=str,
)
def test_done_twice_is_not_as_done_once(operation: Any) -> None:
    assert repeat_of(operation) == "once"
