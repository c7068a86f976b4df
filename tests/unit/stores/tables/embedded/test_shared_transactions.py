"""Property test: operations that share one transaction act as if each had run alone, one after the other.

The same random operations, some refused, some changing tables, go to two engines: all at once to one whose
committer is held until they are queued, one by one to the other. Answers and files must be the same.
"""

from __future__ import annotations

import json
import threading
from pathlib import Path
from random import Random
from typing import Any

import pytest

from holdfast.core.errors import HoldfastError
from holdfast.operations.tables import (
    CreateBackup,
    CreateIndex,
    CreateTable,
    DeleteIndex,
    DeleteTable,
    IndexDefinition,
    IndexProjection,
    KeyAttribute,
    KeySchema,
    Operation,
    PutItem,
    StreamChange,
    UpdateContinuousBackups,
    UpdateTable,
    UpdateTimeToLive,
)
from holdfast.stores.sqlite import Tuning
from holdfast.stores.tables.embedded import EmbeddedTables, open_tables
from holdfast.stores.tables.embedded.engine import WRITE_HANDLERS
from holdfast.stores.tables.embedded.jobs import worker
from holdfast.wire.dispatch import decode
from tests.faults.tables.engine_consistency import assert_consistent
from tests.stateful.drivers import to_json_value
from tests.stateful.steps import ORDERS, SINGLES, make_create_requests, make_random_steps, render

from .stepped_engine import FakeClock

SEEDS = range(8)
OPERATIONS = 120
WRITES_OF_ITEMS = ("PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "TransactWriteItems")


@pytest.mark.parametrize("seed", SEEDS)
def test_shared_and_separate_transactions_have_the_same_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(worker.Worker, "start", lambda self: None)
    print(f"seed {seed}")  # noqa: T201
    operations = _operations(Random(seed))
    patient = Tuning(lock_hold_ms_max=60_000, units_max=1000)
    with (
        open_tables(tmp_path / "t.db", clock=FakeClock(), tuning=patient) as together,
        open_tables(clock=FakeClock()) as alone,
    ):
        for request in make_create_requests():
            for tables in (together, alone):
                _, creation = decode("DynamoDB_20120810.CreateTable", json.dumps(request).encode())
                tables.run_blocking(creation)
        expected = [
            _outcome(operation, lambda op=operation: alone.run_blocking(op)) for operation in operations
        ]
        commits = together.database.committer.commits
        assert _run_together(together, operations) == expected
        assert together.database.committer.commits == commits + 1
        assert _contents(together) == _contents(alone)
        for tables in (together, alone):
            assert_consistent(tables)
            tables.sweep()
            assert_consistent(tables)


def _run_together(tables: EmbeddedTables, operations: list[Operation[Any]]) -> list[Any]:
    """Queue all operations while the committer is blocked, so that they share a transaction; return their
    outcomes.
    """
    queued = threading.Event()
    tables.database.submit(lambda connection: queued.wait(10) and None)
    receipts = [tables._submit(operation) for operation in operations]
    queued.set()
    return [
        _outcome(operation, receipt.result) for operation, receipt in zip(operations, receipts, strict=True)
    ]


def _operations(random: Random) -> list[Operation[Any]]:
    """Return random writes of items, some of them invalid, with changes of tables between them."""
    operations: list[Operation[Any]] = []
    for step in make_random_steps(random, OPERATIONS * 3):
        if step.kind not in WRITES_OF_ITEMS:
            continue
        body = json.dumps(to_json_value(render(step.kind, step.request))).encode()
        operations.append(decode(f"DynamoDB_20120810.{step.kind}", body)[1])
        if random.random() < 0.15:
            operations.append(random.choice(_CHANGES_OF_TABLES))
    assert {type(operation) for operation in operations} <= set(WRITE_HANDLERS)
    return operations


_NEW_INDEX = IndexDefinition("new", KeySchema("o", "h"), IndexProjection("INCLUDE", ("a",)))
_AGAIN = decode(
    "DynamoDB_20120810.CreateTable",
    json.dumps(next(each for each in make_create_requests() if each["TableName"] == SINGLES)).encode(),
)[1]
_CHANGES_OF_TABLES: list[Operation[Any]] = [
    UpdateTable(
        ORDERS, (KeyAttribute("o", "S"), KeyAttribute("h", "N")), index_changes=(CreateIndex(_NEW_INDEX),)
    ),
    UpdateTable(ORDERS, index_changes=(DeleteIndex("new"),)),
    UpdateTable(ORDERS, stream=StreamChange("NEW_AND_OLD_IMAGES")),
    UpdateTable(ORDERS, stream=StreamChange(None)),
    UpdateTable("absent", stream=StreamChange(None)),
    UpdateTimeToLive(ORDERS, "e", True),
    UpdateTimeToLive(ORDERS, "e", False),
    UpdateContinuousBackups(ORDERS, True),
    CreateBackup(ORDERS, "backup"),
    DeleteTable(SINGLES),
    _AGAIN,
    _AGAIN,
    PutItem(ORDERS, {"pk": "p", "sk": 1, "v": "x" * 500_000}),
]


def _outcome(operation: Operation[Any], result: Any) -> Any:
    """Return the comparable part of an outcome: ids and labels are new each time."""
    try:
        answer = result()
    except HoldfastError as error:
        return type(error).__name__, error.message
    if isinstance(operation, CreateTable | UpdateTable | DeleteTable):
        counts = {name: (state.item_count, state.size_bytes) for name, state in answer.global_indexes.items()}
        return answer.status, answer.item_count, answer.size_bytes, counts
    return answer if not isinstance(operation, CreateBackup) else (answer.status, answer.size_bytes)


def _contents(tables: EmbeddedTables) -> dict[str, Any]:
    """Return every row that must be the same in both."""
    found: dict[str, Any] = {}
    with tables.database.snapshot() as connection:
        names = [
            name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
        ]
        for name in sorted(map(str, names)):
            if name.startswith(("items_", "index_")):
                found[name] = sorted(connection.execute(f"SELECT * FROM {name}").fetchall(), key=repr)
        found["counts"] = connection.execute("SELECT number, slot, items, bytes FROM counts").fetchall()
        found["tokens"] = connection.execute(
            "SELECT token, fingerprint FROM tokens ORDER BY token"
        ).fetchall()
    return found
