"""docs/guides/upgrading_a_data_file.md: messages are as written, and an older folder passes the steps."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from holdfast import Schema
from holdfast.core.errors import HoldfastError
from holdfast.operations.tables import ListTables
from holdfast.security.ciphers import FILE_VERSION, open_file_cipher
from holdfast.stores.objects.local.object_file import MAGIC
from holdfast.stores.queues.embedded.storage import schema as queues_schema
from holdfast.stores.sql.postgres import EmbeddedServer, open_postgres
from holdfast.stores.sql.postgres.programs import MAJOR_VERSION
from holdfast.stores.tables.embedded import open_tables
from holdfast.stores.tables.embedded.storage import schema as tables_schema
from tests.corpus.archive import SUFFIX, list_releases_with, unpack
from tests.docs import pages
from tests.postgres import connect, create_database
from tests.sqlite_files import open_file

PAGE: Final = pages.DOCS / "guides" / "upgrading_a_data_file.md"
SECTIONS: Final = pages.split_sections(PAGE, 2)
MESSAGES: Final = [row[0].strip("` ") for row in pages.parse_rows(SECTIONS["What is rejected"])]

Reject = Callable[[Path], None]


def make_tables_file(folder: Path) -> Path:
    path = folder / "tables.db"
    open_tables(path).close()
    return path


def set_version(path: Path) -> None:
    """Write the number of a newer version into a SQLite file."""
    with closing(open_file(path)) as file:
        file.execute("PRAGMA user_version = 3")


def open_newer_file(folder: Path) -> None:
    path = make_tables_file(folder)
    set_version(path)
    open_tables(path)


def write_after_the_upgrade(folder: Path) -> None:
    from holdfast.operations.tables import CreateTable, KeyAttribute, KeySchema, TableDefinition

    path = make_tables_file(folder)
    notes = TableDefinition("Notes", (KeyAttribute("id", "S"),), KeySchema("id"))
    with open_tables(path) as tables:
        set_version(path)
        tables.run_blocking(CreateTable(notes))


def open_foreign_file(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "other.db")) as file:
        file.execute("CREATE TABLE other (x)")
    open_tables(folder / "other.db")


def open_lost_file(folder: Path) -> None:
    (folder / "tables.db-wal").write_bytes(b"a log")
    open_tables(folder / "tables.db")


def open_newer_keys(folder: Path) -> None:
    path = folder / "keys.json"
    open_file_cipher(path)
    keys = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(keys | {"version": FILE_VERSION + 1}), encoding="utf-8")
    open_file_cipher(path)


def open_changed_keys(folder: Path) -> None:
    path = folder / "keys.json"
    key = open_file_cipher(path).current_key_id
    keys = json.loads(path.read_text(encoding="utf-8"))
    changed = {key: keys["keys"][key].swapcase()}
    path.write_text(json.dumps(keys | {"keys": changed}), encoding="utf-8")
    open_file_cipher(path)


def open_other_postgres(folder: Path) -> None:
    (folder / "server").mkdir()
    (folder / "server" / "PG_VERSION").write_text("15\n", encoding="utf-8")
    EmbeddedServer(folder).find_running()


def open_newer_schema(folder: Path) -> None:
    surgery = Schema("surgery", migrations="tests.unit.reports.surgery_migrations")
    url = create_database(surgery)
    with connect(url) as connection:
        connection.execute("UPDATE surgery.alembic_version SET version_num = '0009'")
    with closing(open_postgres(url)) as engine:
        asyncio.run(engine.migrate(surgery.name, surgery.migrations))


REJECTED: Final[tuple[Reject, ...]] = (
    open_newer_file,
    write_after_the_upgrade,
    open_foreign_file,
    open_lost_file,
    open_newer_keys,
    open_changed_keys,
    open_other_postgres,
    open_newer_schema,
)


@pytest.mark.parametrize(("message", "reject"), list(zip(MESSAGES, REJECTED, strict=True)))
def test_message_is_as_the_page_says(message: str, reject: Reject, tmp_path: Path) -> None:
    with pytest.raises(HoldfastError) as rejected:
        reject(tmp_path)

    pattern = ".*".join(re.escape(part) for part in message.split("…"))
    assert re.fullmatch(pattern, rejected.value.message), rejected.value.message


def test_format_numbers_are_those_of_the_page() -> None:
    numbers = [row[2] for row in pages.parse_rows(SECTIONS["What has a format number"])][:5]

    assert MAGIC.startswith(b"HFOB1")
    assert numbers == [
        str(tables_schema.SCHEMA.version),
        str(queues_schema.SCHEMA.version),
        "1",
        str(FILE_VERSION),
        str(MAJOR_VERSION),
    ]


@pytest.mark.parametrize(
    "release", list_releases_with("library_killed"), ids=lambda release: str(release.name)
)
def test_steps_of_the_page_work_on_a_folder_that_was_left_by_a_kill(release: Path, tmp_path: Path) -> None:
    unpack(release / f"library_killed{SUFFIX}", tmp_path / "data")
    shutil.copytree(tmp_path / "data", tmp_path / "data-before-upgrade")

    assert _check_health(tmp_path, "data") == _check_health(tmp_path, "data-before-upgrade")
    with open_tables(tmp_path / "data" / "tables.db") as tables:
        opened = tables.run_blocking(ListTables()).names
    with open_tables(tmp_path / "data-before-upgrade" / "tables.db") as tables:
        assert tables.run_blocking(ListTables()).names == opened
    assert opened


def test_doctor_rejects_a_newer_file_and_leaves_it_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    path = make_tables_file(tmp_path / "data")
    set_version(path)
    before = path.read_bytes()

    with pytest.raises(AssertionError, match="was written by a newer Holdfast"):
        _check_health(tmp_path, "data")
    assert path.read_bytes() == before


def _check_health(folder: Path, data: str) -> list[str]:
    """Run `holdfast doctor` on a data folder and return the names of the stores; fail if one is unhealthy."""
    command = [sys.executable, "-m", "holdfast", "doctor", "--data", data, "--json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return [health["store"] for health in json.loads(done.stdout)]
