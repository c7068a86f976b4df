"""A file whose first page is damaged, next to a log with acknowledged writes: nothing may be changed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from holdfast.cli import main
from holdfast.core.errors import StoreFileError
from holdfast.operations.tables import CreateTable, GetItem, KeyAttribute, KeySchema, PutItem, TableDefinition
from holdfast.stores.tables.embedded import open_tables

NOTES = TableDefinition("Notes", (KeyAttribute("id", "S"),), KeySchema("id"))


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """Return a copy of a folder with a write in its log, as a killed process leaves it."""
    live = tmp_path / "live"
    live.mkdir()
    with open_tables(live / "tables.db") as tables:
        tables.run_blocking(CreateTable(NOTES))
    with open_tables(live / "tables.db") as tables:
        tables.run_blocking(PutItem("Notes", {"id": "n-1"}))
        shutil.copytree(live, tmp_path / "killed")
    assert (tmp_path / "killed" / "tables.db-wal").stat().st_size > 0
    return tmp_path / "killed"


def read_files(folder: Path) -> dict[str, bytes]:
    """Return the content of the database and of its log."""
    return {name: (folder / name).read_bytes() for name in ("tables.db", "tables.db-wal")}


@pytest.mark.parametrize(
    ("at", "content"),
    [(0, b"X"), (0, b"\0" * 4096), (68, b"\0" * 4)],
    ids=["one byte", "zeros", "application id"],
)
@pytest.mark.parametrize("by", ["open", "doctor", "doctor --deep"])
def test_keeps_the_log_next_to_a_damaged_first_page(killed: Path, at: int, content: bytes, by: str) -> None:
    with (killed / "tables.db").open("r+b") as file:
        file.seek(at)
        whole = file.read(len(content))
        file.seek(at)
        file.write(content)
    before = read_files(killed)

    if by == "open":
        with pytest.raises(StoreFileError):
            open_tables(killed / "tables.db")
    else:
        with pytest.raises(SystemExit) as ended:
            main([*by.split(), "--data", str(killed)])
        assert ended.value.code == 1

    assert read_files(killed) == before
    with (killed / "tables.db").open("r+b") as file:
        file.seek(at)
        file.write(whole)
    with open_tables(killed / "tables.db") as tables:
        assert tables.run_blocking(GetItem("Notes", {"id": "n-1"})).item == {"id": "n-1"}
