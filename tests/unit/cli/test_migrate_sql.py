"""`holdfast migrate` of a system with a schema of SQL: brought to its newest, told, shown as SQL, its statements checked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast import Rate, Schema, SqlRow, SqlRows, System, pattern
from holdfast.cli.app import main
from tests.contract.sql_migrations.packages import BOOKS, LOANS, written
from tests.postgres import connected, fresh_database


class Book(SqlRow):
    id: int
    title: str


def library(package: str) -> System:
    schema = Schema("library", migrations=package)

    @pattern("B1", "All books", rate=Rate(per="visit"))
    def all_books() -> SqlRows[Book]:
        return schema.rows(Book, "SELECT {columns} FROM library.books ORDER BY id")

    return System("library", "Books", [], [all_books], schemas=[schema])


@pytest.fixture(autouse=True)
def _a_library_with_two_revisions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    install(monkeypatch, library(written(tmp_path, {"0001": BOOKS, "0002": LOANS})))


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> str:
    """An empty database."""
    made = fresh_database()
    monkeypatch.setenv("HOLDFAST_SQL", made)
    return made


def install(monkeypatch: pytest.MonkeyPatch, system: System) -> None:
    monkeypatch.setattr("holdfast.model.system.load_system", lambda name: system)


def migrate(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["migrate", "library", *words])
    told = capsys.readouterr()
    return int(ended.value.code or 0), told.out, told.err


def answered(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    code, out, err = migrate(capsys, *words, "--json")
    assert code == 0, err
    return json.loads(out)


@pytest.mark.usefixtures("url")
def test_a_schema_is_told_of_shown_as_sql_and_brought_to_its_newest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    revisions = ["0001 0001 of the library", "0002 0002 of the library"]
    behind = {"schema": "library", "current": None, "target": "0002"}
    assert answered(capsys, "--status") == [behind | {"pending": revisions}]
    (shown,) = answered(capsys, "--dry-run")
    assert shown == behind | {"sql": shown["sql"]}
    assert any(BOOKS in each for each in shown["sql"])
    assert answered(capsys) == [behind | {"done": revisions}]
    now = behind | {"current": "0002"}
    assert answered(capsys) == [now | {"done": []}]
    assert answered(capsys, "--status") == [now | {"pending": []}]
    assert answered(capsys, "--plan") == [now | {"sql": []}]


@pytest.mark.usefixtures("url")
def test_people_are_told_from_where_to_where_it_went(capsys: pytest.CaptureFixture[str]) -> None:
    told = [migrate(capsys, *words) for words in (("--status",), ("--dry-run",), (), (), ("--status",))]
    assert [code for code, _, _ in told] == [0] * 5, told
    status, sql, first, second, now = (out for _, out, _ in told)
    assert status.splitlines()[0] == "library: nothing → 0002, 2 pending"
    assert sql.splitlines()[0] == "-- library: nothing → 0002"
    assert first.splitlines() == [
        "library: nothing → 0002",
        "  0001 0001 of the library",
        "  0002 0002 of the library",
    ]
    assert second == now == "library: up to date at 0002\n"


def test_the_sql_that_is_shown_can_be_run_as_it_is(capsys: pytest.CaptureFixture[str], url: str) -> None:
    _, sql, _ = migrate(capsys, "--dry-run")
    with connected(url) as connection:
        connection.execute(sql.encode())
    assert answered(capsys, "--status")[0]["current"] == "0002"


@pytest.mark.usefixtures("url")
def test_the_check_of_statements_wants_a_schema_that_is_not_behind(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, _, err = migrate(capsys, "--check")
    assert (code, err) == (
        1,
        "holdfast: The schema library is out of date (library: nothing → 0002): "
        "run `holdfast migrate library` first.\n",
    )
    migrate(capsys)
    assert answered(capsys, "--check") == []
    assert "every statement matches its row" in migrate(capsys, "--check")[1]


@pytest.mark.usefixtures("url")
def test_a_statement_that_does_not_fit_its_row_is_told_with_exit_code_1(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loose = BOOKS.replace("title TEXT NOT NULL", "title TEXT")
    install(monkeypatch, library(written(tmp_path, {"0001": loose})))
    migrate(capsys)
    code, out, _ = migrate(capsys, "--check", "--json")
    (misfit,) = json.loads(out)
    assert (code, misfit["pattern"], misfit["column"]) == (1, "B1", "title")
    code, out, _ = migrate(capsys, "--check")
    assert (code, out.startswith("B1, title: the column may be null")) == (1, True)


@pytest.mark.usefixtures("url")
def test_a_database_that_is_newer_than_the_code_is_refused_in_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    migrate(capsys)
    install(monkeypatch, library(written(tmp_path, {"0001": BOOKS})))
    code, _, err = migrate(capsys)
    assert (code, err.count("\n")) == (1, 1)
    assert "The schema library is at revision 0002, and the newest that this code knows is 0001" in err


def test_what_excludes_each_other_is_misuse(capsys: pytest.CaptureFixture[str]) -> None:
    misuses = {
        ("--check", "--plan"): "--plan and --check exclude each other",
        ("--status", "--dry-run"): "--plan and --status exclude each other",
        ("books-v2", "--check"): "--check and NAME exclude each other",
        ("--until", "verify"): "need the NAME of a migration",
    }
    for words, told in misuses.items():
        code, _, err = migrate(capsys, *words)
        assert (code, told in err) == (2, True), err


def test_a_system_without_a_schema_has_no_statements_to_check(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, System("library", "Books", [], []))
    code, _, err = migrate(capsys, "--check")
    assert (code, "has no SQL schema" in err) == (1, True)
    assert migrate(capsys)[:2] == (0, "library declares no migrations.\n")
