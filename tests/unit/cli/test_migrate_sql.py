"""`holdfast migrate` of a SQL schema on PostgreSQL: upgrade, status, printed SQL, statement checks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast import Rate, Schema, System, pattern
from holdfast.cli.app import main
from holdfast.model.sql import SqlRow, SqlRows
from tests.contract.sql.migrations.packages import BOOKS, LOANS, write_package
from tests.postgres import connect, create_database


class Book(SqlRow):
    id: int
    title: str


def make_library(package: str) -> System:
    """Build a system with one schema and one statement; `package` holds its migrations."""
    schema = Schema("library", migrations=package)

    @pattern("B1", "All books", rate=Rate(per="visit"))
    def all_books() -> SqlRows[Book]:
        return schema.rows(Book, "SELECT {columns} FROM library.books ORDER BY id")

    return System("library", "Books", patterns=[all_books], schemas=[schema])


@pytest.fixture(autouse=True)
def _a_library_with_two_revisions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the library with two revisions, and work in an empty folder."""
    monkeypatch.chdir(tmp_path)
    install(monkeypatch, make_library(write_package(tmp_path, {"0001": BOOKS, "0002": LOANS})))


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> str:
    """Create an empty database and return its URL."""
    made = create_database()
    monkeypatch.setenv("HOLDFAST_SQL", made)
    return made


def install(monkeypatch: pytest.MonkeyPatch, system: System) -> None:
    """Make the system the one that every command loads."""
    monkeypatch.setattr("holdfast.model.system.load_system", lambda name: system)


def migrate(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Run `holdfast migrate library` and return its exit code, standard output and standard error."""
    with pytest.raises(SystemExit) as ended:
        main(["migrate", "library", *words])
    output = capsys.readouterr()
    return int(ended.value.code or 0), output.out, output.err


def run_migrate_json(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    """Run `holdfast migrate library --json`, which must exit with 0, and return its answer."""
    code, out, err = migrate(capsys, *words, "--json")
    assert code == 0, err
    return json.loads(out)


@pytest.mark.usefixtures("url")
def test_json_of_status_sql_and_upgrade_before_and_after_the_upgrade(
    capsys: pytest.CaptureFixture[str],
) -> None:
    revisions = ["0001 0001 of the library", "0002 0002 of the library"]
    behind = {"schema": "library", "current": None, "target": "0002"}
    assert run_migrate_json(capsys, "--status") == [behind | {"pending": revisions}]
    (shown,) = run_migrate_json(capsys, "--dry-run")
    assert shown == behind | {"sql": shown["sql"]}
    assert any(BOOKS in each for each in shown["sql"])
    assert run_migrate_json(capsys) == [behind | {"done": revisions}]
    now = behind | {"current": "0002"}
    assert run_migrate_json(capsys) == [now | {"done": []}]
    assert run_migrate_json(capsys, "--status") == [now | {"pending": []}]
    assert run_migrate_json(capsys, "--plan") == [now | {"sql": []}]


@pytest.mark.usefixtures("url")
def test_prints_the_old_and_new_revision(capsys: pytest.CaptureFixture[str]) -> None:
    output = [migrate(capsys, *words) for words in (("--status",), ("--dry-run",), (), (), ("--status",))]
    assert [code for code, _, _ in output] == [0] * 5, output
    status, sql, first, second, now = (out for _, out, _ in output)
    assert status.splitlines()[0] == "library: nothing → 0002, 2 pending"
    assert sql.splitlines()[0] == "-- library: nothing → 0002"
    assert first.splitlines() == [
        "library: nothing → 0002",
        "  0001 0001 of the library",
        "  0002 0002 of the library",
    ]
    assert second == now == "library: up to date at 0002\n"


def test_printed_sql_upgrades_the_database_when_run(capsys: pytest.CaptureFixture[str], url: str) -> None:
    _, sql, _ = migrate(capsys, "--dry-run")
    with connect(url) as connection:
        connection.execute(sql.encode())
    assert run_migrate_json(capsys, "--status")[0]["current"] == "0002"


@pytest.mark.usefixtures("url")
def test_statement_check_requires_an_upgraded_schema(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, _, err = migrate(capsys, "--check")
    assert (code, err) == (
        1,
        "holdfast: The schema library is out of date (library: nothing → 0002): "
        "run `holdfast migrate library` first.\n",
    )
    migrate(capsys)
    assert run_migrate_json(capsys, "--check") == []
    assert "every statement matches its row" in migrate(capsys, "--check")[1]


@pytest.mark.usefixtures("url")
def test_reports_a_statement_that_does_not_match_its_row_and_exits_1(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loose = BOOKS.replace("title TEXT NOT NULL", "title TEXT")
    install(monkeypatch, make_library(write_package(tmp_path, {"0001": loose})))
    migrate(capsys)
    code, out, _ = migrate(capsys, "--check", "--json")
    (misfit,) = json.loads(out)
    assert (code, misfit["pattern"], misfit["column"]) == (1, "B1", "title")
    code, out, _ = migrate(capsys, "--check")
    assert (code, out.startswith("B1, title: the column may be null")) == (1, True)


@pytest.mark.usefixtures("url")
def test_rejects_a_database_newer_than_the_code_in_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    migrate(capsys)
    install(monkeypatch, make_library(write_package(tmp_path, {"0001": BOOKS})))
    code, _, err = migrate(capsys)
    assert (code, err.count("\n")) == (1, 1)
    assert "The schema library is at revision 0002, and the newest revision of this code is 0001" in err


def test_mutually_exclusive_options_are_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    misuses = {
        ("--check", "--plan"): "--plan and --check exclude each other",
        ("--status", "--dry-run"): "--plan and --status exclude each other",
        ("books-v2", "--check"): "--check and NAME exclude each other",
        ("--until", "verify"): "need the NAME of a migration",
    }
    for words, expected in misuses.items():
        code, _, err = migrate(capsys, *words)
        assert (code, expected in err) == (2, True), err


def test_a_system_without_a_schema_has_no_statements_to_check(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, System("library", "Books"))
    code, _, err = migrate(capsys, "--check")
    assert (code, "has no SQL schema" in err) == (1, True)
    assert migrate(capsys)[:2] == (0, "library declares no migrations.\n")
