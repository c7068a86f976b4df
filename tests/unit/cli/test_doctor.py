"""`holdfast doctor`: what it says of a healthy, an absent, a foreign and a damaged file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import apsw
import pytest

from holdfast.cli import main
from holdfast.stores.tables.embedded.storage.schema import APPLICATION_ID, INITIAL


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


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
        "detail": f"data/tables.db, {file.stat().st_size:,} bytes",
    }


def test_a_file_that_is_not_there_is_no_illness_and_is_not_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, [health] = examined(capsys, "--data", "shop")

    assert (code, health["ok"]) == (0, True)
    assert "not there yet" in health["detail"]
    assert list(tmp_path.iterdir()) == []


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
