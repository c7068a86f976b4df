"""A damaged row in a tables file: reads and writes report it, and work on other tables continues."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.core.clock import RunClock
from holdfast.core.errors import StoreFileError
from holdfast.operations.tables import (
    CreateIndex,
    CreateTable,
    DescribeTable,
    GetItem,
    IndexDefinition,
    IndexProjection,
    KeyAttribute,
    KeySchema,
    PutItem,
    Scan,
    TableDefinition,
    UpdateTable,
    UpdateTimeToLive,
)
from holdfast.stores.tables.embedded import EmbeddedTables, open_tables
from tests.sqlite_files import open_file

NOW = 1_800_000_000.0


@pytest.fixture
def damaged_tables(tmp_path: Path) -> Iterator[EmbeddedTables]:
    """Yield an engine on a file in which the only item of one of two tables is unreadable."""
    path = tmp_path / "tables.db"
    clock = RunClock(tmp_path / "clock", start=NOW)
    with open_tables(path, clock=clock) as tables:
        for name in ("Damaged", "Sound"):
            tables.run_blocking(
                CreateTable(TableDefinition(name, (KeyAttribute("id", "S"),), KeySchema("id")))
            )
            tables.run_blocking(PutItem(name, {"id": "a", "ends": int(NOW) - 1}))
    connection = open_file(path)
    connection.execute("UPDATE items_1 SET item = x'c1ff'")
    connection.close()
    with open_tables(path, clock=clock) as tables:
        yield tables


def test_reports_an_unreadable_row_as_damage(damaged_tables: EmbeddedTables) -> None:
    for operation in (GetItem("Damaged", {"id": "a"}), Scan("Damaged"), PutItem("Damaged", {"id": "a"})):
        with pytest.raises(StoreFileError, match="damaged"):
            damaged_tables.run_blocking(operation)


def test_background_work_on_other_tables_continues(damaged_tables: EmbeddedTables) -> None:
    index = IndexDefinition("by-other", KeySchema("other"), IndexProjection())
    damaged_tables.run_blocking(
        UpdateTable("Damaged", (KeyAttribute("other", "S"),), index_changes=(CreateIndex(index),))
    )
    damaged_tables.run_blocking(UpdateTimeToLive("Sound", "ends", True))
    for _ in range(3):
        with pytest.raises(StoreFileError):
            damaged_tables.sweep()
    assert damaged_tables.run_blocking(GetItem("Sound", {"id": "a"})).item is None
    assert (
        damaged_tables.run_blocking(DescribeTable("Damaged")).global_indexes["by-other"].status == "CREATING"
    )
