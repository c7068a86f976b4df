"""Verification of a tables file: tables, indexes and backups without damage, and a damaged backup."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import msgspec
import pytest

from holdfast.config.settings import Settings
from holdfast.core.progress import ignore_progress
from holdfast.operations.tables import (
    CreateTable,
    DeleteTable,
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


async def test_missing_page_at_the_end_is_found_although_no_row_is_on_it(tmp_path: Path) -> None:
    """SQLite reads an unused page only once it uses it again."""
    settings = Settings().in_folder(tmp_path / "data")
    copied = tmp_path / "copied"
    async with open_stores(settings=settings) as stores:
        await stores.tables.run(CreateTable(ORDERS))
        await stores.tables.run(CreateTable(msgspec.structs.replace(ORDERS, name="Letters")))
        for number in range(20):
            await stores.tables.run(PutItem("Letters", {"id": f"{number}", "day": "d", "text": "x" * 4_000}))
        await stores.tables.run(DeleteTable("Letters"))
        assert isinstance(stores.tables, EmbeddedTables)
        assert stores.tables.database.compact(rewrite=False)
        await stores.tables.run(PutItem("Orders", {"id": "o-1", "day": "Monday"}))
        shutil.copytree(tmp_path / "data", copied)
    path = copied / settings.tables_file.name
    assert verify_tables(str(path), ignore_progress) == []
    os.truncate(path, path.stat().st_size - 8_192)

    (problem,) = verify_tables(str(path), ignore_progress)
    assert "tables.db was truncated" in problem
