"""Restores in the embedded engine: what a table refuses while it is restored, and its settings afterwards."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.core.errors import AlreadyExists, InvalidRequest, NotFound
from holdfast.operations.expressions.key_conditions import KeyTest
from holdfast.operations.tables import (
    BackupName,
    CreateBackup,
    CreateTable,
    DeleteTable,
    DescribeTable,
    GetItem,
    IndexDefinition,
    IndexProjection,
    KeyAttribute,
    KeySchema,
    ListBackups,
    PutItem,
    Query,
    RestoreOverrides,
    RestoreTableToPointInTime,
    Scan,
    TableDefinition,
    Throughput,
    UpdateContinuousBackups,
    UpdateItem,
    UpdateTable,
    UpdateTimeToLive,
)
from holdfast.stores.tables.embedded import EmbeddedTables, open_tables
from tests.background_work import stop_background_work
from tests.cases import all_cases

BY = IndexDefinition("by-kind", KeySchema("kind"), IndexProjection(), Throughput(5, 5))
SOURCE = TableDefinition(
    "Source",
    (KeyAttribute("id", "S"), KeyAttribute("kind", "S")),
    KeySchema("id"),
    global_indexes=(BY,),
    billing_mode="PROVISIONED",
    throughput=Throughput(5, 5),
)


@pytest.fixture
def tables() -> Iterator[EmbeddedTables]:
    """Yield an engine with a provisioned table of ten items that has recovery."""
    with open_tables() as opened:
        opened.run_blocking(CreateTable(SOURCE))
        opened.run_blocking(UpdateContinuousBackups("Source", True))
        for number in range(10):
            opened.run_blocking(PutItem("Source", {"id": str(number), "kind": "x"}))
        yield opened


@pytest.fixture
def restoring(tables: EmbeddedTables) -> EmbeddedTables:
    """Return the engine with idle background work and a started restore."""
    stop_background_work(tables)
    tables.run_blocking(RestoreTableToPointInTime("Source", "Target"))
    return tables


CHANGES = {
    "TTL": UpdateTimeToLive("Target", "ends", True),
    "recovery": UpdateContinuousBackups("Target", True),
    "a backup": CreateBackup("Target", "half"),
    "a restore of it": RestoreTableToPointInTime("Target", "Third"),
    "an update": UpdateTable("Target", deletion_protection=True),
    "a deletion": DeleteTable("Target"),
}


@all_cases("change", CHANGES.values())
def test_restoring_table_rejects_changes(restoring: EmbeddedTables, change: DeleteTable) -> None:
    with pytest.raises(AlreadyExists):
        restoring.run_blocking(change)
    assert restoring.run_blocking(DescribeTable("Target")).status == "CREATING"


ITEMS = {
    "a read": GetItem("Target", {"id": "1"}),
    "a page": Query("Target", (KeyTest("id", "=", ("1",)),)),
    "a write": PutItem("Target", {"id": "new"}),
    "an item's update": UpdateItem("Target", {"id": "1"}),
}


@all_cases("operation", ITEMS.values())
def test_items_of_a_restoring_table_are_not_found(restoring: EmbeddedTables, operation: GetItem) -> None:
    with pytest.raises(NotFound):
        restoring.run_blocking(operation)


def test_a_table_restored_to_be_paid_per_request_has_no_provisioned_index(tables: EmbeddedTables) -> None:
    overrides = RestoreOverrides(billing_mode="PAY_PER_REQUEST")
    tables.run_blocking(RestoreTableToPointInTime("Source", "Target", None, overrides))
    tables.sweep()
    definition = tables.run_blocking(DescribeTable("Target")).definition
    assert (definition.throughput, definition.global_indexes[0].throughput) == (Throughput(), None)
    assert tables.run_blocking(Scan("Target", index="by-kind", select="COUNT")).count == 10


def test_a_table_restored_to_be_provisioned_needs_throughput(tables: EmbeddedTables) -> None:
    on_demand = TableDefinition("Free", (KeyAttribute("id", "S"),), KeySchema("id"))
    tables.run_blocking(CreateTable(on_demand))
    tables.run_blocking(UpdateContinuousBackups("Free", True))
    with pytest.raises(InvalidRequest, match="must both be specified"):
        tables.run_blocking(
            RestoreTableToPointInTime("Free", "Target", None, RestoreOverrides(billing_mode="PROVISIONED"))
        )


def test_backup_pages_omit_none_of_the_same_millisecond(tables: EmbeddedTables) -> None:
    made = {tables.run_blocking(CreateBackup("Source", f"b-{number}")).id for number in range(50)}
    tables.sweep()
    listed: list[str] = []
    after: BackupName | None = None
    while True:
        page = tables.run_blocking(ListBackups(limit=7, after=after))
        listed += [backup.id for backup in page.backups]
        after = page.last
        if after is None:
            break
    assert sorted(listed) == sorted(made)
    assert len(listed) == len(set(listed))
