"""`holdfast doctor`: what it says of a healthy, an absent, a foreign and a damaged file."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path
from typing import Any

import apsw
import pytest
from pydantic import BaseModel

from holdfast import Queue, System, Table
from holdfast.cli import main
from holdfast.core.errors import DeclarationError
from holdfast.operations.tables import CreateTable, KeyAttribute, KeySchema, TableDefinition
from holdfast.stores.tables.embedded import open_tables
from holdfast.stores.tables.embedded.storage.schema import APPLICATION_ID, INITIAL
from holdfast.stores.tables.port import Tables
from holdfast.wire.server import running_server
from tests.unit.mcp.harbour import SYSTEM, ships

ORDERS = TableDefinition(
    "orders", (KeyAttribute("pk", "S"),), KeySchema("pk"), billing_mode="PAY_PER_REQUEST"
)


class Letter(BaseModel):
    text: str


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And without systems, whose absent tables would be told of too."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("holdfast.model.system.load_systems", dict)


@pytest.fixture
def harbour(monkeypatch: pytest.MonkeyPatch) -> None:
    """The harbour is installed, and no other system."""
    monkeypatch.setattr("holdfast.model.system.load_systems", lambda: {"harbour": SYSTEM})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A tables file with some content, at its configured place."""
    path = tmp_path / "data" / "tables.db"
    path.parent.mkdir()
    connection = apsw.Connection(str(path))
    connection.execute(INITIAL)
    connection.executemany("INSERT INTO jobs (record) VALUES (zeroblob(?))", [(3000,)] * 50)
    connection.pragma("application_id", APPLICATION_ID)
    connection.pragma("user_version", 1)
    connection.close()
    return path


def examined(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, list[dict[str, Any]]]:
    with pytest.raises(SystemExit) as exited:
        main(["doctor", "--json", *words])
    assert isinstance(exited.value.code, int)
    return exited.value.code, json.loads(capsys.readouterr().out)


def test_a_healthy_file_is_ok(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, [health] = examined(capsys)

    assert code == 0
    assert health == {
        "store": "tables",
        "engine": "sqlite",
        "ok": True,
        "detail": f"data/tables.db, 0 tables, {file.stat().st_size:,} bytes",
    }


def test_a_file_that_is_not_there_is_no_illness_and_is_not_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, [health] = examined(capsys)

    assert (code, health["ok"]) == (0, True)
    assert "data/tables.db does not exist yet" in health["detail"]
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_named_and_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        main(["doctor", "--data", "shpo"])

    assert exited.value.code == 1
    assert capsys.readouterr().err == (
        "holdfast: The data folder shpo does not exist: give an existing folder with --data.\n"
    )


def test_a_folder_that_is_named_and_holds_no_tables_yet_is_ok(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "shop").mkdir()

    code, [health] = examined(capsys, "--data", "shop")

    assert code == 0
    assert "shop/tables.db does not exist yet" in health["detail"]


def test_an_empty_file_is_told_as_empty_and_left_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tables.db").touch()

    code, [health] = examined(capsys, "--data", ".")

    assert code == 0
    assert "tables.db is empty" in health["detail"]
    assert [(path.name, path.stat().st_size) for path in tmp_path.iterdir()] == [("tables.db", 0)]


def test_a_file_with_a_header_and_nothing_else_has_no_tables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    connection = apsw.Connection(str(tmp_path / "tables.db"))
    connection.pragma("journal_mode", "wal")
    connection.close()

    code, [health] = examined(capsys, "--data", ".")

    assert code == 0
    assert "tables.db, 0 tables" in health["detail"]


def test_a_folder_in_the_place_of_the_file_is_ill(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tables.db").mkdir()

    code, [health] = examined(capsys, "--data", ".")

    assert code == 1
    assert "tables.db is a folder" in health["detail"]


def test_tables_are_counted_also_while_a_process_has_them_open(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_tables(tmp_path / "tables.db") as tables:
        tables.run_blocking(CreateTable(ORDERS))
        code, [health] = examined(capsys, "--data", ".")

    assert code == 0
    assert "tables.db, 1 table," in health["detail"]


@pytest.mark.parametrize(
    ("harm", "complaint"),
    [
        ("UPDATE tables SET record = x'c1'", "what it says of table orders cannot be read"),
        ("UPDATE tables SET record = x'80'", "what it says of table orders cannot be read"),
        ("UPDATE tables SET record = 'a text'", "what it says of table orders cannot be read"),
        ("DROP TABLE items_1", "table orders is named in it, but its items are not there"),
    ],
)
def test_a_file_whose_tables_cannot_be_loaded_is_ill(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], harm: str, complaint: str
) -> None:
    with open_tables(tmp_path / "tables.db") as tables:
        tables.run_blocking(CreateTable(ORDERS))
    connection = apsw.Connection(str(tmp_path / "tables.db"))
    connection.execute(harm)
    connection.close()

    code, [health] = examined(capsys, "--data", ".")

    assert (code, health["ok"]) == (1, False)
    assert complaint in health["detail"]


def test_tables_in_memory_have_nothing_to_look_at(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOLDFAST_TABLES", "sqlite::memory:")

    code, [health] = examined(capsys)

    assert (code, health["engine"]) == (0, "memory")


def test_a_foreign_file_is_ill_and_left_as_it_was(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text("a diary, not a database" * 100, encoding="utf-8")
    before = file.read_bytes()

    code, [health] = examined(capsys)

    assert (code, health["ok"]) == (1, False)
    assert "is not a Holdfast file" in health["detail"]
    assert file.read_bytes() == before


def test_an_empty_file_whose_log_holds_the_data_is_ill_and_left_so(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_bytes(b"")
    log = file.with_name("tables.db-wal")
    log.write_bytes(b"what was committed")

    code, [health] = examined(capsys)

    assert (code, health["ok"]) == (1, False)
    assert "write-ahead log" in health["detail"]
    assert log.read_bytes() == b"what was committed"


def test_a_damaged_file_is_ill(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damaged = bytearray(file.read_bytes())
    damaged[-20_000:] = bytes(20_000)
    file.write_bytes(damaged)

    code, [health] = examined(capsys)

    assert (code, health["ok"]) == (1, False)
    assert "damaged" in health["detail"]


@pytest.mark.usefixtures("file")
def test_without_json_the_answer_is_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        main(["doctor"])

    assert exited.value.code == 0
    assert "tables" in (said := capsys.readouterr().out)
    assert "ok" in said


def made_in(tables: Tables, definition: TableDefinition) -> None:
    asyncio.run(tables.run(CreateTable(definition)))


@pytest.mark.usefixtures("harbour")
def test_tables_that_a_system_has_yet_to_be_given_are_told_and_no_illness(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOLDFAST_ENVIRONMENT", "prod")
    with open_tables(tmp_path / "tables.db") as tables:
        made_in(tables, ORDERS)

    code, [health] = examined(capsys, "--data", ".")

    assert (code, health["ok"]) == (0, True)
    assert health["detail"].endswith("bytes; harbour has not created the table Ships-prod yet")


@pytest.mark.usefixtures("harbour")
def test_an_index_that_a_system_lacks_is_told_with_how_to_add_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_tables(tmp_path / "tables.db") as tables:
        made_in(tables, ships.definition("Ships", indexes=()))

    code, [health] = examined(capsys, "--data", ".")

    assert (code, health["ok"]) == (0, True)
    assert health["detail"].endswith(
        "; harbour lacks the index Ships.by-berth (`holdfast indexes add harbour`)"
    )


@pytest.mark.usefixtures("harbour")
def test_a_system_that_has_all_it_declares_is_not_mentioned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_tables(tmp_path / "tables.db") as tables:
        made_in(tables, ships.definition("Ships"))

    _, [health] = examined(capsys, "--data", ".")

    assert "harbour" not in health["detail"]


def test_a_system_that_cannot_be_loaded_is_told_and_the_stores_of_the_others_are_looked_at(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    letters = Queue("letters", Letter)
    office = System("office", "Sorts letters", [ships], [], queues=[letters])

    def loaded(name: str = "harbour") -> System:
        if name == "harbour":
            raise DeclarationError("The system harbour cannot be loaded.")
        return office

    monkeypatch.setattr("holdfast.model.system.load_systems", loaded)
    monkeypatch.setattr("holdfast.model.system.load_system", loaded)
    monkeypatch.setattr("holdfast.model.system.list_system_names", lambda: ("harbour", "office"))

    code, found = examined(capsys)

    assert (code, [health["store"] for health in found]) == (0, ["tables", "queues"])
    assert all(health["ok"] for health in found)
    assert found[0]["detail"].endswith(
        "; office has not created the table Ships yet; The system harbour cannot be loaded."
    )


def test_a_system_that_has_not_run_here_is_told_in_a_few_words(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    office = System("office", "Sorts letters", [ships, Table("Letters", "id")], [])
    monkeypatch.setattr("holdfast.model.system.load_systems", lambda: {"office": office})

    _, [health] = examined(capsys)

    assert health["detail"].endswith("; office: 2 tables not created yet (it has not run here)")


@pytest.mark.usefixtures("harbour")
def test_an_endpoint_that_answers_is_well_and_tells_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_tables(None) as tables, running_server(tables=tables) as url:
        made_in(tables, ORDERS)
        made_in(tables, ships.definition("Ships", indexes=()))
        monkeypatch.setenv("HOLDFAST_TABLES", f"dynamodb+{url}")
        code, [health] = examined(capsys)

    assert code == 0
    assert health == {
        "store": "tables",
        "engine": "dynamodb",
        "ok": True,
        "detail": f"{url}, reachable, 2 tables; harbour lacks the index Ships.by-berth (`holdfast indexes add harbour`)",
    }


def test_an_endpoint_that_does_not_answer_is_ill(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    monkeypatch.setenv("HOLDFAST_TABLES", f"dynamodb+http://127.0.0.1:{port}")

    code, [health] = examined(capsys)

    assert (code, health["ok"], health["engine"]) == (1, False, "dynamodb")
    assert health["detail"].startswith(f"http://127.0.0.1:{port}: ")
