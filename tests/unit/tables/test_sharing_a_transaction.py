"""Operations that share one transaction act as if each had come alone, one after the other.

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
from holdfast.stores.tables.embedded.engine import WRITES
from holdfast.stores.tables.embedded.jobs import worker
from holdfast.wire.dispatch import decode
from tests.faults.engine_consistency import assert_consistent
from tests.model.drivers import json_ready
from tests.model.steps import ORDERS, SINGLES, create_requests, random_steps, rendered

from .stepping import HandClock

SEEDS = range(8)
OPERATIONS = 120
WRITES_OF_ITEMS = ("PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "TransactWriteItems")


@pytest.mark.parametrize("seed", SEEDS)
def test_together_or_one_by_one_the_outcome_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(worker.Worker, "start", lambda self: None)
    print(f"seed {seed}")  # noqa: T201
    operations = _operations(Random(seed))
    patient = Tuning(turn_ms_max=60_000, units_max=1000)
    with (
        open_tables(tmp_path / "t.db", clock=HandClock(), tuning=patient) as together,
        open_tables(clock=HandClock()) as alone,
    ):
        for request in create_requests():
            for tables in (together, alone):
                _, creation = decode("DynamoDB_20120810.CreateTable", json.dumps(request).encode())
                tables.run_blocking(creation)
        expected = [
            _outcome(operation, lambda op=operation: alone.run_blocking(op)) for operation in operations
        ]
        commits = together.database.committer.commits
        assert _all_at_once(together, operations) == expected
        assert together.database.committer.commits == commits + 1
        assert _contents(together) == _contents(alone)
        for tables in (together, alone):
            assert_consistent(tables)
            tables.sweep()
            assert_consistent(tables)


def _all_at_once(tables: EmbeddedTables, operations: list[Operation[Any]]) -> list[Any]:
    queued = threading.Event()
    tables.database.submit(lambda connection: queued.wait(10) and None)
    receipts = [tables._submit(operation) for operation in operations]
    queued.set()
    return [
        _outcome(operation, receipt.result) for operation, receipt in zip(operations, receipts, strict=True)
    ]


def _operations(random: Random) -> list[Operation[Any]]:
    operations: list[Operation[Any]] = []
    for step in random_steps(random, OPERATIONS * 3):
        if step.kind not in WRITES_OF_ITEMS:
            continue
        body = json.dumps(json_ready(rendered(step.kind, step.request))).encode()
        operations.append(decode(f"DynamoDB_20120810.{step.kind}", body)[1])
        if random.random() < 0.15:
            operations.append(random.choice(_CHANGES_OF_TABLES))
    assert {type(operation) for operation in operations} <= set(WRITES)
    return operations


_NEW_INDEX = IndexDefinition("new", KeySchema("o", "h"), IndexProjection("INCLUDE", ("a",)))
_AGAIN = decode(
    "DynamoDB_20120810.CreateTable",
    json.dumps(next(each for each in create_requests() if each["TableName"] == SINGLES)).encode(),
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
    """What can be compared: ids and labels are made anew each time."""
    try:
        answer = result()
    except HoldfastError as error:
        return type(error).__name__, error.message
    if isinstance(operation, CreateTable | UpdateTable | DeleteTable):
        counts = {name: (state.item_count, state.size_bytes) for name, state in answer.global_indexes.items()}
        return answer.status, answer.item_count, answer.size_bytes, counts
    return answer if not isinstance(operation, CreateBackup) else (answer.status, answer.size_bytes)


def _contents(tables: EmbeddedTables) -> dict[str, Any]:
    """Every row that means the same in both."""
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
