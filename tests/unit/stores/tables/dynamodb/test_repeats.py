"""Repeat policies of writes: which may be sent again after a lost response."""

from __future__ import annotations

from typing import Any

from holdfast.operations.expressions import Placeholders, parse_condition, parse_update
from holdfast.operations.tables import DeleteItem, PutItem, UpdateItem
from holdfast.operations.values import Item
from holdfast.stores.tables.dynamodb.repeats import choose_repeat_policy
from tests.cases import all_cases

KEY: Item = {"pk": "a"}
VALUES: Item = {":n": 1, ":zero": 0, ":s": frozenset({"x"}), ":l": [1], ":t": "text"}


def make_update(update: str, condition: str | None = None, **more: Any) -> UpdateItem:
    """Return an UpdateItem with these expressions."""
    return UpdateItem(
        table="T",
        key=KEY,
        update=parse_update(update, Placeholders(None, VALUES)),
        condition=None
        if condition is None
        else parse_condition(condition, "ConditionExpression", Placeholders(None, VALUES)),
        **more,
    )


@all_cases(
    "operation",
    [
        PutItem(table="T", item=KEY),
        DeleteItem(table="T", key=KEY),
        UpdateItem(table="T", key=KEY),
        make_update("SET a = :n, b.c = :t REMOVE d"),
        make_update("SET a = if_not_exists(a, :n)"),
        make_update("ADD tags :s DELETE labels :s"),
        make_update("SET a = :n", returns="ALL_NEW"),
        make_update("SET a = :n", returns="UPDATED_NEW"),
        make_update("SET a = :n", "attribute_exists(pk)"),
        make_update("SET version = version + :n", "version = :n"),
        make_update("SET x = :t, version = version - :n", "attribute_exists(pk) AND version = :n"),
        make_update("ADD version :n", "version = :n"),
    ],
)
def test_write_is_repeatable(operation: Any) -> None:
    assert choose_repeat_policy(operation) == "same"


@all_cases(
    "operation",
    [
        PutItem(table="T", item=KEY, returns="ALL_OLD"),
        DeleteItem(table="T", key=KEY, returns="ALL_OLD"),
        make_update("SET a = :n", returns="UPDATED_OLD"),
        make_update("ADD tally :n"),
        make_update("SET tally = tally + :n"),
        make_update("SET tally = if_not_exists(tally, :zero) + :n"),
        make_update("SET things = list_append(things, :l)"),
        make_update("SET a = b, b = :n"),
        make_update("SET a = if_not_exists(b, :n)"),
        make_update("REMOVE things[0]"),
        make_update("SET things[5] = :n"),
        # A condition that can pass twice, one that pins another attribute, and one that moves by nothing.
        make_update("ADD tally :n", "attribute_exists(pk)"),
        make_update("ADD tally :n", "version = :n"),
        make_update("SET version = version + :n", "version = :n OR attribute_not_exists(version)"),
        make_update("ADD version :zero", "version = :n"),
    ],
)
def test_write_is_not_repeatable(operation: Any) -> None:
    assert choose_repeat_policy(operation) == "once"
