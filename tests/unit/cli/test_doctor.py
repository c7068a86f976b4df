"""`holdfast doctor` on tables: healthy, missing, foreign and damaged files, and a DynamoDB endpoint."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from holdfast import Queue, System, Table
from holdfast.cli import main
from holdfast.core.errors import DeclarationError
from holdfast.operations.tables import CreateTable, KeyAttribute, KeySchema, TableDefinition
from holdfast.stores.tables.embedded import open_tables
from holdfast.stores.tables.embedded.storage.schema import APPLICATION_ID, INITIAL
from holdfast.stores.tables.port import Tables
from holdfast.wire.http.server import start_server
from tests.sqlite_files import open_file
from tests.unit.mcp.harbour import SYSTEM, ships

ORDERS = TableDefinition(
    "orders", (KeyAttribute("pk", "S"),), KeySchema("pk"), billing_mode="PAY_PER_REQUEST"
)


class Letter(BaseModel):
    text: str


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in an empty folder without installed systems, whose missing tables would be reported too."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("holdfast.model.system.load_systems", dict)


@pytest.fixture
def harbour(monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the harbour and no other system."""
    monkeypatch.setattr("holdfast.model.system.load_systems", lambda: {"harbour": SYSTEM})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Create a tables file with some content at its configured path."""
    path = tmp_path / "data" / "tables.db"
    path.parent.mkdir(mode=0o700)
    path.touch(mode=0o600)
    connection = open_file(path)
    connection.execute(INITIAL)
    connection.executemany("INSERT INTO jobs (record) VALUES (zeroblob(?))", [(3000,)] * 50)
    connection.pragma("application_id", APPLICATION_ID)
    connection.pragma("user_version", 1)
    connection.close()
    return path


def run_doctor(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, list[dict[str, Any]]]:
    """Run `holdfast doctor --json` and return its exit code and its rows."""
    with pytest.raises(SystemExit) as exited:
        main(["doctor", "--json", *words])
    assert isinstance(exited.value.code, int)
    return exited.value.code, json.loads(capsys.readouterr().out)


def test_a_healthy_file_is_ok(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, [health] = run_doctor(capsys)

    assert code == 0
    assert health == {
        "store": "tables",
        "engine": "sqlite",
        "ok": True,
        "detail": f"data/tables.db, 0 tables, {file.stat().st_size:,} bytes",
    }


def test_missing_file_is_healthy_and_is_not_created(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, [health] = run_doctor(capsys)

    assert (code, health["ok"]) == (0, True)
    assert "data/tables.db does not exist yet" in health["detail"]
    assert list(tmp_path.iterdir()) == []


def test_rejects_a_missing_folder(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        main(["doctor", "--data", "shpo"])

    assert exited.value.code == 1
    assert capsys.readouterr().err == (
        "holdfast: The data folder shpo does not exist: give an existing folder with --data.\n"
    )


def test_folder_without_a_tables_file_is_healthy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "shop").mkdir()

    code, [health] = run_doctor(capsys, "--data", "shop")

    assert code == 0
    assert "shop/tables.db does not exist yet" in health["detail"]


def test_reports_an_empty_file_and_does_not_change_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tables.db").touch()

    code, [health] = run_doctor(capsys, "--data", ".")

    assert code == 0
    assert "tables.db is empty" in health["detail"]
    assert [(path.name, path.stat().st_size) for path in tmp_path.iterdir()] == [("tables.db", 0)]


def test_file_with_only_a_header_has_no_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    connection = open_file(tmp_path / "tables.db")
    connection.pragma("journal_mode", "wal")
    connection.close()

    code, [health] = run_doctor(capsys, "--data", ".")

    assert code == 0
    assert "tables.db, 0 tables" in health["detail"]


def test_folder_at_the_files_path_is_unhealthy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tables.db").mkdir()

    code, [health] = run_doctor(capsys, "--data", ".")

    assert code == 1
    assert "tables.db is a folder" in health["detail"]


def test_counts_tables_while_a_process_has_them_open(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_tables(tmp_path / "tables.db") as tables:
        tables.run_blocking(CreateTable(ORDERS))
        code, [health] = run_doctor(capsys, "--data", ".")

    assert code == 0
    assert "tables.db, 1 table," in health["detail"]


@pytest.mark.parametrize(
    ("harm", "complaint"),
    [
        ("UPDATE tables SET record = x'c1'", "the record of table orders is unreadable"),
        ("UPDATE tables SET record = x'80'", "the record of table orders is unreadable"),
        ("UPDATE tables SET record = 'a text'", "the record of table orders is unreadable"),
        ("DROP TABLE items_1", "the items of table orders are missing"),
    ],
)
def test_file_whose_tables_cannot_be_loaded_is_unhealthy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], harm: str, complaint: str
) -> None:
    with open_tables(tmp_path / "tables.db") as tables:
        tables.run_blocking(CreateTable(ORDERS))
    connection = open_file(tmp_path / "tables.db")
    connection.execute(harm)
    connection.close()

    code, [health] = run_doctor(capsys, "--data", ".")

    assert (code, health["ok"]) == (1, False)
    assert complaint in health["detail"]


def test_in_memory_tables_are_healthy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOLDFAST_TABLES", "sqlite::memory:")

    code, [health] = run_doctor(capsys)

    assert (code, health["engine"]) == (0, "memory")


def test_foreign_file_is_unhealthy_and_unchanged(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text("a diary, not a database" * 100, encoding="utf-8")
    before = file.read_bytes()

    code, [health] = run_doctor(capsys)

    assert (code, health["ok"]) == (1, False)
    assert "is not a Holdfast file" in health["detail"]
    assert file.read_bytes() == before


def test_empty_file_with_data_in_its_log_is_unhealthy_and_unchanged(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_bytes(b"")
    log = file.with_name("tables.db-wal")
    log.write_bytes(b"what was committed")

    code, [health] = run_doctor(capsys)

    assert (code, health["ok"]) == (1, False)
    assert "write-ahead log" in health["detail"]
    assert log.read_bytes() == b"what was committed"


def test_damaged_file_is_unhealthy(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damaged = bytearray(file.read_bytes())
    damaged[-20_000:] = bytes(20_000)
    file.write_bytes(damaged)

    code, [health] = run_doctor(capsys)

    assert (code, health["ok"]) == (1, False)
    assert "damaged" in health["detail"]


@pytest.mark.usefixtures("file")
def test_prints_text_for_people_without_json(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        main(["doctor"])

    assert exited.value.code == 0
    assert "tables" in (said := capsys.readouterr().out)
    assert "ok" in said


def create_table(tables: Tables, definition: TableDefinition) -> None:
    asyncio.run(tables.run(CreateTable(definition)))


@pytest.mark.usefixtures("harbour")
def test_reports_missing_tables_of_a_system_as_healthy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOLDFAST_ENVIRONMENT", "prod")
    with open_tables(tmp_path / "tables.db") as tables:
        create_table(tables, ORDERS)

    code, [health] = run_doctor(capsys, "--data", ".")

    assert (code, health["ok"]) == (0, True)
    assert health["detail"].endswith("bytes; harbour has not created the table Ships-prod yet")


@pytest.mark.usefixtures("harbour")
def test_reports_a_missing_index_and_how_to_add_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_tables(tmp_path / "tables.db") as tables:
        create_table(tables, ships.definition("Ships", indexes=()))

    code, [health] = run_doctor(capsys, "--data", ".")

    assert (code, health["ok"]) == (0, True)
    assert health["detail"].endswith(
        "; harbour lacks the index Ships.by-berth (`holdfast indexes add harbour`)"
    )


@pytest.mark.usefixtures("harbour")
def test_does_not_mention_a_system_whose_tables_and_indexes_exist(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_tables(tmp_path / "tables.db") as tables:
        create_table(tables, ships.definition("Ships"))

    _, [health] = run_doctor(capsys, "--data", ".")

    assert "harbour" not in health["detail"]


def test_reports_a_system_that_cannot_be_loaded_and_examines_the_others(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    letters = Queue("letters", Letter)
    office = System("office", "Sorts letters", tables=[ships], queues=[letters])

    def load(name: str = "harbour") -> System:
        if name == "harbour":
            raise DeclarationError("The system harbour cannot be loaded.")
        return office

    monkeypatch.setattr("holdfast.model.system.load_systems", load)
    monkeypatch.setattr("holdfast.model.system.load_system", load)
    monkeypatch.setattr("holdfast.model.system.list_system_names", lambda: ("harbour", "office"))

    code, found = run_doctor(capsys)

    assert (code, [health["store"] for health in found]) == (0, ["tables", "queues"])
    assert all(health["ok"] for health in found)
    assert found[0]["detail"].endswith(
        "; office has not created the table Ships yet; The system harbour cannot be loaded."
    )

    file.unlink()
    _, found = run_doctor(capsys)
    assert found[0]["detail"].endswith("created on first use; The system harbour cannot be loaded.")


def test_reports_a_system_without_any_table_in_one_phrase(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    office = System("office", "Sorts letters", tables=[ships, Table("Letters", "id")])
    monkeypatch.setattr("holdfast.model.system.load_systems", lambda: {"office": office})

    _, [health] = run_doctor(capsys)

    assert health["detail"].endswith("; office: 2 tables not created yet (it has not run here)")


@pytest.mark.usefixtures("harbour")
def test_reachable_endpoint_is_healthy_and_reports_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_tables(None) as tables, start_server(tables=tables) as url:
        create_table(tables, ORDERS)
        create_table(tables, ships.definition("Ships", indexes=()))
        monkeypatch.setenv("HOLDFAST_TABLES", f"dynamodb+{url}")
        code, [health] = run_doctor(capsys)

    assert code == 0
    assert health == {
        "store": "tables",
        "engine": "dynamodb",
        "ok": True,
        "detail": (
            f"{url}, reachable, 2 tables; harbour lacks the index Ships.by-berth (`holdfast indexes add "
            "harbour`)"
        ),
    }


def test_unreachable_endpoint_is_unhealthy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    monkeypatch.setenv("HOLDFAST_TABLES", f"dynamodb+http://127.0.0.1:{port}")

    code, [health] = run_doctor(capsys)

    assert (code, health["ok"], health["engine"]) == (1, False, "dynamodb")
    assert health["detail"].startswith(f"http://127.0.0.1:{port}: ")
