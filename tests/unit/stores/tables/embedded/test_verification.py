"""Verification of a tables file: tables, indexes and backups without damage, and a damaged backup."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.config.settings import Settings
from holdfast.core.progress import ignore_progress
from holdfast.operations.tables import (
    CreateTable,
    IndexDefinition,
    IndexProjection,
    KeyAttribute,
    KeySchema,
    PutItem,
    TableDefinition,
)
from holdfast.runtime import create_backup, open_stores
from holdfast.stores.tables.embedded import EmbeddedTables
from holdfast.stores.tables.embedded.storage.verification import count_items, verify_tables
from tests.sqlite_files import open_file

ORDERS = TableDefinition(
    "Orders",
    (KeyAttribute("id", "S"), KeyAttribute("day", "S")),
    KeySchema("id"),
    global_indexes=(IndexDefinition("by-day", KeySchema("day"), IndexProjection()),),
)


@pytest.fixture
async def path(tmp_path: Path) -> str:
    """Return a closed file with a table that has an index, and a backup of it."""
    settings = Settings().in_folder(tmp_path)
    async with open_stores(settings=settings) as stores:
        await stores.tables.run(CreateTable(ORDERS))
        for number in range(3):
            await stores.tables.run(PutItem("Orders", {"id": f"o-{number}", "day": "Monday"}))
        await create_backup(stores, "Orders", "kept")
        assert isinstance(stores.tables, EmbeddedTables)
        assert stores.tables.database.compact(rewrite=False)
    return str(settings.tables_file)


def test_table_with_an_index_and_a_backup_is_sound(path: str) -> None:
    assert verify_tables(path, ignore_progress) == []
    assert verify_tables(path, ignore_progress, is_in_use=False) == []


def test_counts_the_items_of_tables_and_backups(path: str) -> None:
    counts = count_items(path)

    assert counts.pop("Orders") == 3
    assert list(counts.values()) == [3]


def test_damaged_item_of_a_backup_is_named(path: str) -> None:
    connection = open_file(path)
    connection.execute("UPDATE items_2 SET sum = sum + 1 WHERE id = 2")
    connection.close()

    (problem,) = verify_tables(path, ignore_progress)
    assert problem == "the item {'id': 'o-1'} of the backup kept of Orders is damaged"
