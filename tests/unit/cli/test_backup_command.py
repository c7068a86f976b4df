"""`holdfast backup` on embedded tables: back up a table or a system, list the backups, refusals."""

from __future__ import annotations

import json
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from holdfast import open_stores
from holdfast.cli import main
from holdfast.core import installed_systems
from holdfast.runtime import create_tables
from tests.unit.guarantees.privacy.help_desk import HELP_DESK, Note


@pytest.fixture(autouse=True)
async def _with_a_help_desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in an empty folder with the help desk as the only system and one note in its tables."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOLDFAST_ENVIRONMENT", "dev")
    point = EntryPoint(
        "helpdesk", "tests.unit.guarantees.privacy.help_desk:SYSTEM", installed_systems.ENTRY_POINT_GROUP
    )
    monkeypatch.setattr(installed_systems, "find_entry_points", lambda: {"helpdesk": point})

    async with open_stores(HELP_DESK) as stores:
        await create_tables(stores, HELP_DESK.tables)
        await stores.run(Note.put(Note(conversation_id="c-1", note_id="n1")))


def backup(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """Run `holdfast backup` and return its exit code and output."""
    with pytest.raises(SystemExit) as exited:
        main(["backup", *arguments])
    output = capsys.readouterr()
    return int(exited.value.code or 0), output.out + output.err


def test_backs_up_a_table_under_a_name_and_lists_it(capsys: pytest.CaptureFixture[str]) -> None:
    code, output = backup(capsys, "Notes", "--name", "before", "--json")

    (made,) = json.loads(output)
    assert code == 0
    assert (made["table"], made["name"], made["status"]) == ("Notes-dev", "before", "AVAILABLE")
    assert made["backup"].startswith("Notes-dev/backup/")
    assert made["created_at"].endswith("Z")
    assert made["bytes"] > 0
    assert json.loads(backup(capsys, "--list", "--json")[1]) == [made]
    assert json.loads(backup(capsys, "Notes-dev", "--list", "--json")[1]) == [made]
    assert json.loads(backup(capsys, "Counters", "--list", "--json")[1]) == []


def test_backs_up_every_table_of_a_system_and_prints_a_table(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, output = backup(capsys, "helpdesk")

    assert code == 0
    for table in HELP_DESK.tables:
        assert f"{table.name}-dev/backup/" in output
    assert "holdfast restore TABLE --from-backup BACKUP" in output
    listed = backup(capsys, "helpdesk", "--list")[1]
    assert listed.count("AVAILABLE") == len(HELP_DESK.tables)


def test_says_when_there_are_no_backups(capsys: pytest.CaptureFixture[str]) -> None:
    assert backup(capsys, "--list") == (0, "There are no backups.\n")


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        ((), 2, "Give --to DIR, or a SYSTEM or a TABLE"),
        (("Notes", "--list", "--name", "before"), 2, "--name and --list exclude each other"),
        (("Nowhere",), 1, "Table Nowhere does not exist"),
        (("Notes", "--name", "?"), 1, "letters, digits"),
    ],
)
def test_invalid_backup_commands_exit_with_a_reason_in_one_line(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], code: int, reason: str
) -> None:
    result = backup(capsys, *arguments)

    assert result[0] == code
    assert reason in result[1]
    assert result[1].count("\n") == 1


def test_rejects_in_memory_stores(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_TABLES", "sqlite::memory:")

    assert "nothing to back up" in backup(capsys, "helpdesk")[1]
