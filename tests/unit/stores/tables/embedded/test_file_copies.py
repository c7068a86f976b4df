"""Copies of a live tables file: they contain every commit, and writes to one do not reach the original."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.core.errors import StoreFileError
from holdfast.operations import tables as requests
from holdfast.operations.tables import CreateTable, KeyAttribute, KeySchema, TableDefinition
from holdfast.stores.tables.embedded import open_tables
from holdfast.stores.tables.embedded.storage.file_copy import copy_tables

ORDERS = TableDefinition("orders", (KeyAttribute("pk", "S"),), KeySchema("pk"))


def test_copy_contains_the_commits_of_a_running_process(tmp_path: Path) -> None:
    with open_tables(tmp_path / "tables.db") as live:
        live.run_blocking(CreateTable(ORDERS))
        live.run_blocking(requests.PutItem("orders", {"pk": "a"}))

        assert copy_tables(tmp_path / "tables.db", tmp_path / "copy.db")

        with open_tables(tmp_path / "copy.db") as copy:
            assert copy.run_blocking(requests.GetItem("orders", {"pk": "a"})).item == {"pk": "a"}


def test_writes_to_the_copy_do_not_reach_the_original(tmp_path: Path) -> None:
    with open_tables(tmp_path / "tables.db") as live:
        live.run_blocking(CreateTable(ORDERS))
        copy_tables(tmp_path / "tables.db", tmp_path / "copy.db")
        with open_tables(tmp_path / "copy.db") as copy:
            copy.run_blocking(requests.PutItem("orders", {"pk": "b"}))

        assert live.run_blocking(requests.GetItem("orders", {"pk": "b"})).item is None
        live.run_blocking(requests.PutItem("orders", {"pk": "c"}))


def test_absent_or_empty_file_is_not_copied(tmp_path: Path) -> None:
    (tmp_path / "empty.db").touch()

    assert not copy_tables(tmp_path / "none.db", tmp_path / "copy.db")
    assert not copy_tables(tmp_path / "empty.db", tmp_path / "copy.db")
    assert not (tmp_path / "copy.db").exists()
    assert not (tmp_path / "none.db").exists()


def test_foreign_file_is_refused_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "notes.db").write_bytes(b"these are notes, and no database" * 50)

    with pytest.raises(StoreFileError, match="notes.db"):
        copy_tables(tmp_path / "notes.db", tmp_path / "copy.db")
