"""`holdfast restore` on embedded tables: to a time or from a backup, to a new table or in place, refusals."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from holdfast import Stores, open_stores
from holdfast.cli import main
from holdfast.core import installed_systems
from holdfast.core.clock import RunClock
from holdfast.core.concurrency import gather_or_cancel
from holdfast.operations import tables as requests
from holdfast.runtime import create_tables
from holdfast.runtime.recovery import restore_in_place
from tests.unit.guarantees.privacy.help_desk import HELP_DESK

START = 1_770_166_815.0  # 2026-02-04T01:00:15Z
BEFORE = "2026-02-04T01:00:15Z"


@pytest.fixture
def clock(tmp_path: Path) -> RunClock:
    return RunClock(tmp_path / "clock", start=START)


@pytest.fixture(autouse=True)
async def _with_a_help_desk(tmp_path: Path, clock: RunClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write two notes; ten seconds later delete one, change one and add a third."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOLDFAST_ENVIRONMENT", "dev")
    monkeypatch.setenv("HOLDFAST_RUN_CLOCK", "clock")
    point = EntryPoint(
        "helpdesk", "tests.unit.guarantees.privacy.help_desk:SYSTEM", installed_systems.ENTRY_POINT_GROUP
    )
    monkeypatch.setattr(installed_systems, "find_entry_points", lambda: {"helpdesk": point})

    async with open_stores(HELP_DESK) as stores:
        await create_tables(stores, HELP_DESK.tables)
        await _put(stores, "n1", "n2")
        clock.advance(10)
        await stores.tables.run(requests.DeleteItem("Notes-dev", {"conversationId": "c-1", "noteId": "n1"}))
        await _put(stores, "n2", "n3", text="later")


async def _put(stores: Stores, *ids: str, text: str = "first") -> None:
    """Put notes with these ids and this text."""
    for id in ids:
        await stores.tables.run(
            requests.PutItem("Notes-dev", {"conversationId": "c-1", "noteId": id, "text": text})
        )


def restore(capsys: pytest.CaptureFixture[str], *arguments: str, command: str = "restore") -> tuple[int, str]:
    """Run `holdfast restore`, or another `command`, and return its exit code and output."""
    with pytest.raises(SystemExit) as exited:
        main([command, *arguments])
    output = capsys.readouterr()
    return int(exited.value.code or 0), output.out + output.err


def read_notes(table: str = "Notes-dev") -> dict[str, Any]:
    """Return the texts of the notes in a table, by note id."""

    async def scan() -> Iterable[dict[str, Any]]:
        async with open_stores(HELP_DESK) as stores:
            return (await stores.tables.run(requests.Scan(table))).items or ()

    return {item["noteId"]: item["text"] for item in asyncio.run(scan())}


def list_table_names() -> set[str]:
    async def list_all() -> set[str]:
        async with open_stores(HELP_DESK) as stores:
            return set((await stores.tables.run(requests.ListTables())).names)

    return asyncio.run(list_all())


THEN = {"n1": "first", "n2": "first"}
NOW = {"n2": "later", "n3": "later"}


def test_restores_into_a_new_table_of_the_given_name(capsys: pytest.CaptureFixture[str]) -> None:
    code, output = restore(capsys, "Notes", "--at", BEFORE, "--into", "Old", "--json")

    assert code == 0
    assert json.loads(output) == {
        "table": "Notes-dev",
        "at": BEFORE,
        "backup": None,
        "dry_run": False,
        "into": "Old",
        "items": 2,
    }
    assert read_notes("Old") == THEN
    assert read_notes() == NOW


def test_reports_the_name_of_the_new_table(capsys: pytest.CaptureFixture[str]) -> None:
    code, output = restore(capsys, "Notes-dev", "--at", "-10s")

    assert code == 0
    assert f"Notes-dev as of {BEFORE} is in Notes-dev-restored-20260204T010015Z." in output
    assert "no point-in-time recovery until you enable them" in output
    assert read_notes("Notes-dev-restored-20260204T010015Z") == THEN


def test_restores_in_place_and_undoes_it_at_the_reported_time(
    capsys: pytest.CaptureFixture[str], clock: RunClock
) -> None:
    clock.advance(10)
    code, output = restore(capsys, "Notes", "--at", BEFORE, "--in-place", "--yes", "--json")

    done = json.loads(output)
    counts = {name: done[name] for name in ("restored", "missing", "different", "deleted", "unchanged")}
    assert code == 0
    assert counts == {"restored": 2, "missing": 1, "different": 1, "deleted": 1, "unchanged": 0}
    assert read_notes() == THEN
    assert list_table_names() == {f"{table.name}-dev" for table in HELP_DESK.tables}

    clock.advance(10)
    code, output = restore(capsys, "Notes", "--at", done["undo_at"], "--in-place", "--yes")
    assert code == 0
    assert "undoes this restore" in output
    assert "Restored delayed actions may have run since" in output
    assert read_notes() == NOW


def test_dry_run_reports_differences_and_changes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    code, output = restore(capsys, "Notes", "--at", BEFORE, "--in-place", "--dry-run")

    assert code == 0
    assert "to restore, missing" in output
    assert "missing: {'conversationId': 'c-1', 'noteId': 'n1'}" in output
    assert "extra: {'conversationId': 'c-1', 'noteId': 'n3'}" in output
    assert "delayed actions" not in output
    assert read_notes() == NOW
    assert list_table_names() == {f"{table.name}-dev" for table in HELP_DESK.tables}


def test_dry_run_creates_no_new_table(capsys: pytest.CaptureFixture[str]) -> None:
    code, output = restore(capsys, "Notes", "--at", BEFORE, "--into", "Old", "--dry-run")

    assert (code, output) == (0, f"Notes-dev can be restored to {BEFORE}, into Old.\n")
    assert "Old" not in list_table_names()


@pytest.mark.parametrize(
    "spelling", ["{backup}", "{id}", "arn:aws:dynamodb:eu-west-1:000000000000:table/{backup}"]
)
def test_restores_a_listed_backup_by_id_or_arn(capsys: pytest.CaptureFixture[str], spelling: str) -> None:
    (made,) = json.loads(restore(capsys, "Notes", "--json", command="backup")[1])
    named = spelling.format(backup=made["backup"], id=made["backup"].rpartition("/")[2])
    code, output = restore(capsys, "Notes", "--from-backup", named, "--into", "Old", "--json")

    assert code == 0, output
    assert json.loads(output)["at"] is None
    assert read_notes("Old") == NOW


def test_reports_concurrent_writes_and_how_to_resume(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Write note n2 from another process between the comparison and the restore's write."""
    is_done = False

    async def meddle(writes: Any) -> Any:
        nonlocal is_done
        if not is_done:
            is_done = True
            async with open_stores(HELP_DESK) as theirs:
                await _put(theirs, "n2", text="meanwhile")
        return await gather_or_cancel(writes)

    monkeypatch.setattr(restore_in_place, "gather_or_cancel", meddle)
    code, output = restore(capsys, "Notes", "--at", "-10s", "--in-place", "--yes")

    assert code == 1
    assert "items not restored, because they were written at the same time: 1." in output
    assert f"run the command again with --at {BEFORE}" in output
    assert read_notes() == {"n1": "first", "n2": "meanwhile"}


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (("Notes",), 2, "Give either --at TIME or --from-backup BACKUP"),
        (("Notes", "--at", BEFORE, "--from-backup", "b"), 2, "Give either --at TIME or --from-backup BACKUP"),
        (("Notes", "--at", BEFORE, "--into", "Old", "--in-place"), 2, "exclude each other"),
        (("Notes", "--at", BEFORE, "--in-place"), 2, "add --yes, or preview it with --dry-run"),
        (("Notes", "--at", "2026-02-04T01:00:15"), 2, "the time zone is missing"),
        (("Notes", "--from-backup", "a/b/c"), 2, "Invalid backup 'a/b/c'"),
        (
            ("Notes", "--at", "-35d"),
            1,
            "a time from 2026-02-04T01:00:15Z to 2026-02-04T01:00:25Z, or a backup.",
        ),
        (("Notes", "--at", "2026-02-04T01:00:26Z"), 1, "a time from"),
        (("Counters", "--at", BEFORE), 1, "recovery is off for Counters-dev"),
        (("Notes", "--at", BEFORE, "--into", "Counters"), 1, "Table Counters-dev exists already"),
        (("Notes", "--at", BEFORE, "--into", "No/such"), 1, "letters, digits"),
        (("Nowhere", "--at", BEFORE), 1, "Table Nowhere does not exist"),
        (("Nowhere", "--at", BEFORE, "--in-place", "--yes"), 1, "Table Nowhere does not exist"),
        (("helpdesk", "--at", BEFORE), 1, "several tables: give one of Conversations, Notes"),
        (("Notes", "--from-backup", "0177"), 1, "`holdfast backup --list` lists the backups"),
    ],
)
def test_invalid_restore_commands_exit_with_a_reason_and_change_nothing(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], code: int, reason: str
) -> None:
    there = list_table_names()
    result = restore(capsys, *arguments)

    assert result[0] == code
    assert reason in result[1]
    assert result[1].count("\n") == 1
    assert list_table_names() == there
    assert read_notes() == NOW


def test_rejects_in_memory_stores(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_TABLES", "sqlite::memory:")

    assert "nothing to restore" in restore(capsys, "Notes", "--at", BEFORE)[1]
