"""Injected faults of the embedded engine: at the requested rate, reproducible by seed, before any effect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.errors import HoldfastError, Throttled, TransactionCancelled, TransactionConflict
from holdfast.operations.expressions.key_conditions import KeyTest
from holdfast.operations.expressions.nodes import AttributeExists
from holdfast.operations.expressions.nodes import Path as AttributePath
from holdfast.operations.tables import (
    BatchGetItem,
    BatchWriteItem,
    ConditionCheck,
    CreateTable,
    Delete,
    DeleteItem,
    DescribeTable,
    GetItem,
    KeysAndAttributes,
    ListTables,
    Operation,
    Put,
    PutItem,
    Query,
    Scan,
    TransactGet,
    TransactGetItems,
    TransactWriteItems,
    UpdateItem,
    UpdateTimeToLive,
)
from holdfast.stores.tables.embedded import EmbeddedTables, EngineFaults, open_tables
from tests.cases import all_cases

from .stepped_engine import definition

THERE = AttributeExists(AttributePath("pk"))
SINGLE_WRITES: list[Operation[Any]] = [
    PutItem("tab", {"pk": "a", "v": 2}),
    UpdateItem("tab", {"pk": "b"}),
    DeleteItem("tab", {"pk": "a"}),
]
TRANSACTIONS: list[Operation[Any]] = [
    TransactWriteItems(
        (
            PutItem("tab", {"pk": "b"}),
            DeleteItem("tab", {"pk": "a"}),
            ConditionCheck("tab", {"pk": "c"}, THERE),
        )
    ),
    TransactGetItems(
        (TransactGet("tab", {"pk": "a"}), TransactGet("tab", {"pk": "b"}), TransactGet("tab", {"pk": "c"}))
    ),
]
WITHOUT_CONFLICT: list[Operation[Any]] = [
    GetItem("tab", {"pk": "a"}),
    Query("tab", (KeyTest("pk", "=", ("a",)),)),
    Scan("tab"),
    BatchGetItem((KeysAndAttributes("tab", ({"pk": "a"},)),)),
    BatchWriteItem((Put("tab", {"pk": "b"}), Delete("tab", {"pk": "a"}))),
]
ON_TABLES: list[Operation[Any]] = [
    DescribeTable("tab"),
    ListTables(),
    UpdateTimeToLive("tab", "end", True),
    CreateTable(definition(name="another")),
]


def name(operation: Operation[Any]) -> str:
    return type(operation).__name__


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a file with one table that holds one item."""
    path = tmp_path / "t.db"
    with open_tables(path) as tables:
        tables.run_blocking(CreateTable(definition()))
        tables.run_blocking(PutItem("tab", {"pk": "a", "v": 1}))
    return path


@pytest.fixture
def throttled(file: Path) -> Iterator[EmbeddedTables]:
    """Yield an engine on the file that throttles every item operation."""
    with open_tables(file, faults=EngineFaults(throttled=1.0)) as tables:
        yield tables


@pytest.fixture
def conflicting(file: Path) -> Iterator[EmbeddedTables]:
    """Yield an engine on the file in which every write and transaction conflicts."""
    with open_tables(file, faults=EngineFaults(conflicts=1.0)) as tables:
        yield tables


def assert_untouched(file: Path) -> None:
    """Check that the file still holds only its first item."""
    with open_tables(file) as tables:
        assert tables.run_blocking(Scan("tab")).items == [{"pk": "a", "v": 1}]


@pytest.mark.parametrize("operation", SINGLE_WRITES + TRANSACTIONS + WITHOUT_CONFLICT, ids=name)
async def test_every_operation_on_items_can_be_throttled_and_then_does_nothing(
    throttled: EmbeddedTables, file: Path, operation: Operation[Any]
) -> None:
    commits = throttled.database.committer.commits
    with pytest.raises(Throttled):
        throttled.run_blocking(operation)
    with pytest.raises(Throttled):
        await throttled.run(operation)
    assert throttled.database.committer.commits == commits
    assert_untouched(file)


@pytest.mark.parametrize("operation", SINGLE_WRITES, ids=name)
async def test_conflicting_write_is_reported_and_does_nothing(
    conflicting: EmbeddedTables, file: Path, operation: Operation[Any]
) -> None:
    with pytest.raises(TransactionConflict):
        conflicting.run_blocking(operation)
    with pytest.raises(TransactionConflict):
        await conflicting.run(operation)
    assert_untouched(file)


@pytest.mark.parametrize("operation", TRANSACTIONS, ids=name)
def test_conflicting_transaction_has_a_reason_per_action_and_does_nothing(
    conflicting: EmbeddedTables, file: Path, operation: Operation[Any]
) -> None:
    with pytest.raises(TransactionCancelled) as cancelled:
        conflicting.run_blocking(operation)
    assert [reason.code for reason in cancelled.value.reasons] == ["TransactionConflict", "None", "None"]
    assert cancelled.value.reasons[0].message == "Transaction is ongoing for the item"
    assert_untouched(file)


@pytest.mark.parametrize("operation", WITHOUT_CONFLICT, ids=name)
def test_only_writes_and_transactions_conflict(
    conflicting: EmbeddedTables, operation: Operation[Any]
) -> None:
    conflicting.run_blocking(operation)


@pytest.mark.parametrize("operation", ON_TABLES, ids=name)
def test_table_operations_never_fail(file: Path, operation: Operation[Any]) -> None:
    with open_tables(file, faults=EngineFaults(throttled=1.0, conflicts=1.0)) as tables:
        tables.run_blocking(operation)


def test_conflict_does_not_consume_the_token(file: Path) -> None:
    write = TransactWriteItems((PutItem("tab", {"pk": "b"}),), token="once")
    with open_tables(file, faults=EngineFaults(conflicts=1.0)) as tables, pytest.raises(TransactionCancelled):
        tables.run_blocking(write)
    with open_tables(file) as tables:
        tables.run_blocking(write)
        assert tables.run_blocking(GetItem("tab", {"pk": "b"})).item == {"pk": "b"}


def outcomes(faults: EngineFaults, count: int = 1000) -> list[str]:
    """Return the outcome of this many puts: "done" or the name of the error."""
    return [_outcome(faults, PutItem("tab", {"pk": "a"})) for _ in range(count)]


def _outcome(faults: EngineFaults, operation: Operation[Any]) -> str:
    """Return "done" or the name of the error that the faults raise."""
    try:
        faults.raise_for(operation)
    except HoldfastError as error:
        return type(error).__name__
    return "done"


@all_cases(
    ("throttled", "conflicts", "expected"),
    [
        (0.0, 0.0, {"done": 1000}),
        (0.3, 0.0, {"done": 700, "Throttled": 300}),
        (0.0, 0.3, {"done": 700, "TransactionConflict": 300}),
        (0.5, 0.4, {"done": 300, "Throttled": 500, "TransactionConflict": 200}),
        (1.0, 0.0, {"Throttled": 1000}),
        (0.0, 1.0, {"TransactionConflict": 1000}),
    ],
)
def test_failure_rate_matches_the_requested_share(
    throttled: float, conflicts: float, expected: dict[str, int]
) -> None:
    """Operations that are not throttled may conflict. The seed is fixed, so each run is the same."""
    counted = Counter(outcomes(EngineFaults(throttled=throttled, conflicts=conflicts, seed=5)))
    assert counted.keys() == expected.keys()
    for kind, count in expected.items():
        assert counted[kind] == pytest.approx(count, abs=50)


def test_the_same_seed_gives_the_same_run_and_another_seed_another() -> None:
    one, same, other = (outcomes(EngineFaults(throttled=0.4, conflicts=0.4, seed=seed)) for seed in (7, 7, 8))
    assert one == same
    assert one != other


def test_without_a_seed_no_two_runs_are_alike() -> None:
    assert outcomes(EngineFaults(throttled=0.5)) != outcomes(EngineFaults(throttled=0.5))


@pytest.mark.parametrize("share", [-0.1, 1.1, 50.0, float("nan")])
def test_rejects_an_invalid_share(share: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        EngineFaults(throttled=share)
    with pytest.raises(ValueError, match="between 0 and 1"):
        EngineFaults(conflicts=share)
