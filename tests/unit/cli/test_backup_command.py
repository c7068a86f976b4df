"""`holdfast backup`: of a table, of a system, under a name; and the list of those that there are."""

from __future__ import annotations

import asyncio
import json
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from holdfast import create_tables, open_stores
from holdfast.cli import main
from holdfast.model import system as systems
from tests.unit.guarantees.help_desk import HELP_DESK, Note


@pytest.fixture(autouse=True)
def _with_a_help_desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOLDFAST_ENVIRONMENT", "dev")
    point = EntryPoint("helpdesk", "tests.unit.guarantees.help_desk:SYSTEM", systems.ENTRY_POINT_GROUP)
    monkeypatch.setattr(systems, "_entry_points", lambda: {"helpdesk": point})

    async def filled() -> None:
        async with open_stores(HELP_DESK) as stores:
            await create_tables(stores, HELP_DESK.tables)
            await stores.run(Note.put(Note(conversation_id="c-1", note_id="n1")))

    asyncio.run(filled())


def backup(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as exited:
        main(["backup", *arguments])
    told = capsys.readouterr()
    return int(exited.value.code or 0), told.out + told.err


def test_a_table_is_backed_up_under_a_name_and_listed(capsys: pytest.CaptureFixture[str]) -> None:
    code, told = backup(capsys, "Notes", "--name", "before", "--json")

    (made,) = json.loads(told)
    assert code == 0
    assert (made["table"], made["name"], made["status"]) == ("Notes-dev", "before", "AVAILABLE")
    assert made["backup"].startswith("Notes-dev/backup/")
    assert made["created_at"].endswith("Z")
    assert made["bytes"] > 0
    assert json.loads(backup(capsys, "--list", "--json")[1]) == [made]
    assert json.loads(backup(capsys, "Notes-dev", "--list", "--json")[1]) == [made]
    assert json.loads(backup(capsys, "Counters", "--list", "--json")[1]) == []


def test_every_table_of_a_system_is_backed_up_and_shown_to_a_person(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, told = backup(capsys, "helpdesk")

    assert code == 0
    for table in HELP_DESK.tables:
        assert f"{table.name}-dev/backup/" in told
    assert "holdfast restore TABLE --from-backup BACKUP" in told
    listed = backup(capsys, "helpdesk", "--list")[1]
    assert listed.count("AVAILABLE") == len(HELP_DESK.tables)


def test_without_a_backup_the_list_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert backup(capsys, "--list") == (0, "There are no backups.\n")


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        ((), 2, "Give a SYSTEM or a TABLE"),
        (("Notes", "--list", "--name", "before"), 2, "--name and --list exclude each other"),
        (("Nowhere",), 1, "Table Nowhere does not exist"),
        (("Notes", "--name", "?"), 1, "letters, digits"),
    ],
)
def test_refuses_with_a_reason(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], code: int, reason: str
) -> None:
    told = backup(capsys, *arguments)

    assert told[0] == code
    assert reason in told[1]
    assert told[1].count("\n") == 1


def test_refuses_stores_that_end_with_the_process(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_TABLES", "sqlite::memory:")

    assert "nothing to back up" in backup(capsys, "helpdesk")[1]
