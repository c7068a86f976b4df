"""Invalid operations built in Python are refused by the embedded engine before anything is read or stored."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.errors import IdempotencyMismatch, InvalidRequest
from holdfast.operations import tables as ops
from holdfast.operations.expressions import nodes
from holdfast.operations.tables import (
    BatchWriteItem,
    ConditionCheck,
    CreateBackup,
    CreateIndex,
    CreateTable,
    GetItem,
    IndexDefinition,
    IndexProjection,
    KeyAttribute,
    KeySchema,
    ListTables,
    Operation,
    Put,
    PutItem,
    Query,
    Scan,
    TableDefinition,
    Throughput,
    TransactWriteItems,
    UpdateContinuousBackups,
    UpdateItem,
    UpdateTable,
    UpdateTimeToLive,
)
from holdfast.operations.values import Item
from holdfast.stores.tables.embedded import EmbeddedTables, open_tables
from tests.cases import all_cases

ID = (KeyAttribute("id", "S"),)
KEYS = KeySchema("id")
N = nodes.Path("n")
wrong: Any = lambda value: value  # noqa: E731 - hides a wrong type from the checker, which would refuse it


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[EmbeddedTables]:
    """Yield an engine on a file with the table `Orders` that holds one item."""
    with open_tables(tmp_path / "tables.db") as opened:
        opened.run_blocking(CreateTable(TableDefinition("Orders", ID, KEYS)))
        opened.run_blocking(PutItem("Orders", {"id": "precious"}))
        yield opened


DEFINITIONS = {
    "a misspelt billing mode": TableDefinition("New", ID, KEYS, billing_mode=wrong("PAY_PER_REQUESTS")),
    "a key that is not declared": TableDefinition("New", ID, KeySchema("other")),
    "a key that is no key type": TableDefinition("New", (KeyAttribute("id", wrong("BOOL")),), KEYS),
    "a misspelt view": TableDefinition("New", ID, KEYS, stream_view=wrong("EVERYTHING")),
    "a misspelt class": TableDefinition("New", ID, KEYS, table_class=wrong("FAST")),
    "a name that is a number": TableDefinition(wrong(5), ID, KEYS),
    "no name": TableDefinition(wrong(None), ID, KEYS),
    "a short name": TableDefinition("a", ID, KEYS),
    "a name with a slash": TableDefinition("a b/c!", ID, KEYS),
    "throughput as text": TableDefinition(
        "New", ID, KEYS, billing_mode="PROVISIONED", throughput=Throughput(wrong("5"), wrong("5"))
    ),
    "no throughput": TableDefinition("New", ID, KEYS, billing_mode="PROVISIONED"),
    "one attribute twice": TableDefinition("New", ID + ID, KEYS),
    "one attribute as both keys": TableDefinition("New", ID, KeySchema("id", "id")),
    "a misspelt projection": TableDefinition(
        "New", ID, KEYS, global_indexes=(IndexDefinition("by", KEYS, IndexProjection(wrong("SOME"))),)
    ),
    "a projection that is text": TableDefinition(
        "New", ID, KEYS, global_indexes=(IndexDefinition("by-id", KEYS, wrong("ALL")),)
    ),
    "a projection of nothing": TableDefinition(
        "New", ID, KEYS, global_indexes=(IndexDefinition("by-id", KEYS, IndexProjection("INCLUDE")),)
    ),
    "a local index without a sort key": TableDefinition(
        "New", ID, KEYS, local_indexes=(IndexDefinition("by-id", KEYS, IndexProjection()),)
    ),
    "one index name twice": TableDefinition(
        "New", ID, KEYS, global_indexes=(IndexDefinition("by-id", KEYS, IndexProjection()),) * 2
    ),
}


@all_cases("definition", DEFINITIONS.values())
def test_rejects_an_invalid_definition_and_stores_nothing(
    tables: EmbeddedTables, definition: TableDefinition
) -> None:
    with pytest.raises(InvalidRequest):
        tables.run_blocking(CreateTable(definition))
    with open_tables(tables.database.path) as again:
        assert again.run_blocking(ListTables()).names == ("Orders",)
        assert again.run_blocking(GetItem("Orders", {"id": "precious"})).item == {"id": "precious"}


KEY: Item = {"id": "a"}
OPERATIONS: dict[str, Operation[Any]] = {
    "a condition as text": PutItem("Orders", {"id": "a"}, wrong("attribute_not_exists(id)")),
    "an update as text": UpdateItem("Orders", KEY, wrong("SET x = :x")),
    "an attribute name that is a number": PutItem("Orders", wrong({"id": "a", 5: 1})),
    "a set of several types": PutItem("Orders", {"id": "a", "s": wrong(frozenset([1, "a"]))}),
    "an empty set": PutItem("Orders", {"id": "a", "s": frozenset()}),
    "a float": PutItem("Orders", {"id": "a", "n": wrong(1.5)}),
    "no dict": PutItem("Orders", wrong([("id", "a")])),
    "a table that is a number": GetItem(wrong(5), KEY),
    "a projection as text": GetItem("Orders", KEY, projection=wrong("id")),
    "a capacity that is none": GetItem("Orders", KEY, capacity=wrong("FULL")),
    "a return value that is none": UpdateItem("Orders", KEY, returns=wrong("ALL")),
    "a key condition as text": Query("Orders", wrong("id = :id")),
    "a filter as text": Scan("Orders", filter=wrong("x = :x")),
    "a limit of nothing": Scan("Orders", limit=0),
    "a negative limit": Scan("Orders", limit=-1),
    "a limit as text": Scan("Orders", limit=wrong("3")),
    "a segment beyond the segments": Scan("Orders", segment=5, segments=2),
    "a segment of unsaid segments": Scan("Orders", segment=0),
    "a selection that is none": Scan("Orders", select=wrong("EVERY")),
    "26 puts": BatchWriteItem(tuple(Put("Orders", {"id": str(n)}) for n in range(26))),
    "no puts": BatchWriteItem(()),
    "101 actions": TransactWriteItems(tuple(PutItem("Orders", {"id": str(n)}) for n in range(101))),
    "a check without a condition": TransactWriteItems((ConditionCheck("Orders", KEY, wrong(None)),)),
    "an action that is none": TransactWriteItems((wrong(GetItem("Orders", KEY)),)),
    "no days of recovery": UpdateContinuousBackups("Orders", True, 0),
    "a backup named by a number": CreateBackup("Orders", wrong(5)),
    "a lifetime attribute that is a number": UpdateTimeToLive("Orders", wrong(5), True),
    "an index projection as text": UpdateTable(
        "Orders", ID, index_changes=(CreateIndex(IndexDefinition("by-id", KEYS, wrong("ALL"))),)
    ),
}


@all_cases("operation", OPERATIONS.values())
def test_an_operation_with_a_wrong_part_is_refused_and_changes_nothing(
    tables: EmbeddedTables, operation: Operation[Any]
) -> None:
    with pytest.raises(InvalidRequest, match="One or more parameter values were invalid"):
        tables.run_blocking(operation)
    assert tables.run_blocking(Scan("Orders")).items == [{"id": "precious"}]


def test_rejects_a_value_inside_more_than_31_nested_lists(tables: EmbeddedTables) -> None:
    value: Any = 1
    for _ in range(31):
        value = [value]
    tables.run_blocking(PutItem("Orders", {"id": "deep", "v": value}))
    with pytest.raises(InvalidRequest, match="Nesting Levels"):
        tables.run_blocking(PutItem("Orders", {"id": "deeper", "v": [value]}))
    assert tables.run_blocking(GetItem("Orders", {"id": "deeper"})).item is None


def test_refusal_names_the_part_and_the_expected_value(tables: EmbeddedTables) -> None:
    with pytest.raises(InvalidRequest) as refused:
        tables.run_blocking(PutItem("Orders", {"id": "a"}, wrong("attribute_not_exists(id)")))
    assert refused.value.message == (
        "One or more parameter values were invalid: PutItem.condition must be a condition from "
        "parse_condition,"
        " not 'attribute_not_exists(id)'"
    )


def test_a_token_used_for_another_transaction_is_refused_without_a_fingerprint(
    tables: EmbeddedTables,
) -> None:
    first = TransactWriteItems((PutItem("Orders", {"id": "a", "n": 1}),), token="t-1")
    tables.run_blocking(first)
    tables.run_blocking(first)
    with pytest.raises(IdempotencyMismatch):
        tables.run_blocking(TransactWriteItems((PutItem("Orders", {"id": "a", "n": 2}),), token="t-1"))
    assert tables.run_blocking(GetItem("Orders", {"id": "a"})).item == {"id": "a", "n": 1}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"condition": nodes.AttributeNotExists(N)}, {"condition": nodes.AttributeExists(N)}),
        ({"condition": nodes.AttributeNotExists(N)}, {}),
        ({"item": {"id": "a", "n": Decimal("1.5")}}, {"item": {"id": "a", "n": "1.5"}}),
        ({"item": {"id": "a", "n": ["x"]}}, {"item": {"id": "a", "n": frozenset({"x"})}}),
        ({"item": {"id": "a", "n": b"x"}}, {"item": {"id": "a", "n": "x"}}),
    ],
    ids=["kind of condition", "condition", "number and text", "list and set", "bytes and text"],
)
def test_a_token_distinguishes_transactions_by_conditions_and_types(
    first: dict[str, Any], second: dict[str, Any], tables: EmbeddedTables
) -> None:
    def build(changes: dict[str, Any]) -> TransactWriteItems:
        return TransactWriteItems(
            (PutItem(**{"table": "Orders", "item": {"id": "a"}} | changes),), token="t-1"
        )

    tables.run_blocking(build(first))
    tables.run_blocking(build(first))
    with pytest.raises(IdempotencyMismatch):
        tables.run_blocking(build(second))


def test_a_token_recognises_a_transaction_in_another_order_of_attributes(tables: EmbeddedTables) -> None:
    orders: list[Item] = [{"id": "a", "n": {"x": 1, "y": 2}}, {"n": {"y": 2, "x": 1}, "id": "a"}]
    for item in orders:
        tables.run_blocking(TransactWriteItems((PutItem("Orders", item),), token="t-1"))


def test_every_operation_has_a_signature() -> None:
    for name in ops.__all__:
        thing = getattr(ops, name)
        if inspect.isclass(thing):
            assert inspect.signature(thing).parameters is not None
