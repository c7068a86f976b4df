"""`holdfast backup --to` and `holdfast restore --from`: what they print, their JSON, and how they refuse."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.cli import main
from tests.unit.runtime.folder_backups.data_folders import ITEMS, fill, read_all


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder with a filled data folder, where the settings expect it."""
    monkeypatch.chdir(tmp_path)
    fill(tmp_path / "data")
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """Run a command and return its exit code and output."""
    with pytest.raises(SystemExit) as exited:
        main(list(arguments))
    output = capsys.readouterr()
    return int(exited.value.code or 0), output.out + output.err


def test_says_what_was_backed_up_what_was_not_and_what_needs_the_keys(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, output = run(capsys, "backup", "--to", "backups/first")

    assert code == 0
    assert [line.split()[0] for line in output.splitlines()[:4]] == ["store", "tables", "queues", "objects"]
    assert f"{ITEMS} items" in output and "4 messages" in output and "3 objects" in output
    assert "Not included: sql (embedded) has no data yet." in output
    assert "It does not contain the keys: without them, 3 objects and everything else" in output
    assert "`holdfast restore --from backups/first --verify --dry-run` proves" in output


def test_says_that_the_backup_contains_the_keys(capsys: pytest.CaptureFixture[str]) -> None:
    assert "It contains the keys (keys.json)" in run(capsys, "backup", "--to", "b", "--with-keys")[1]


def test_answers_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    made = json.loads(run(capsys, "backup", "--to", "b", "--json")[1])
    done = json.loads(run(capsys, "restore", "--from", "b", "--data", "r", "--verify", "--json")[1])

    assert made["backup"] == "b" and made["has_keys"] is False and made["encrypted_objects"] == 3
    assert [each["store"] for each in made["stores"]] == ["tables", "queues", "objects"]
    assert made["stores"][0]["counts"] == [{"name": "Notes", "count": ITEMS}]
    assert made["skipped"] == [{"store": "sql", "engine": "embedded", "reason": "has no data yet"}]
    assert done["data"] == "r" and done["verified"] is True and done["is_readable"] is False
    assert done["stores"] == made["stores"]


def test_restores_where_the_settings_expect_the_data(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    run(capsys, "backup", "--to", "b", "--with-keys")
    (folder / "data").rename(folder / "before")
    code, output = run(capsys, "restore", "--from", "b", "--verify")

    assert code == 0
    assert "is restored into data, and everything in it was read and counted." in output
    assert "review delayed actions before you start the workers" in output
    assert read_all(folder / "data") == read_all(folder / "before")


def test_dry_run_says_that_the_backup_can_be_restored(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    run(capsys, "backup", "--to", "b")
    code, output = run(capsys, "restore", "--from", "b", "--verify", "--dry-run")

    assert code == 0
    assert "can be restored, and everything in it was read and counted." in output
    assert sorted(path.name for path in folder.iterdir()) == ["b", "data"]


def test_restore_without_keys_says_what_is_unreadable(capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "backup", "--to", "b")
    output = run(capsys, "restore", "--from", "b", "--data", "r")[1]

    assert "without them, 3 objects and everything else that a system encrypts are unreadable." in output
    assert "Restore with --keys FILE" in output
    output = run(capsys, "restore", "--from", "b", "--data", "r2", "--keys", "data/keys.json")[1]
    assert "unreadable" not in output


def test_backs_up_another_data_folder(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    (folder / "data").rename(folder / "other")

    assert run(capsys, "backup", "--data", "other", "--to", "b")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (("backup", "Notes", "--to", "b"), 2, "it excludes SYSTEM, TABLE, --name and --list"),
        (("backup", "--list", "--to", "b"), 2, "it excludes SYSTEM, TABLE, --name and --list"),
        (("backup", "--with-keys"), 2, "--data and --with-keys need --to DIR"),
        (("backup", "--to", "data/b"), 1, "is in the data folder"),
        (("backup", "--to", "data"), 1, "is in the data folder"),
        (("backup", "--to", "."), 1, "is not empty"),
        (("backup", "--data", "none", "--to", "b"), 1, "The data folder none does not exist"),
        (("backup", "--data", "data/tables.db", "--to", "b"), 1, "is not a folder"),
        (("restore",), 2, "Give --from DIR, or a TABLE"),
        (("restore", "Notes", "--from", "b"), 2, "--from DIR excludes TABLE"),
        (("restore", "--from", "b", "--in-place", "--at", "-1h"), 2, "--from DIR excludes --at, --in-place"),
        (("restore", "Notes", "--at", "-1h", "--verify"), 2, "Without --from DIR there is no --verify"),
        (("restore", "--from", "none", "--data", "r"), 1, "none is not a backup"),
        (("restore", "--from", "data", "--data", "r"), 1, "data is not a backup"),
    ],
)
def test_invalid_commands_exit_with_a_reason_in_one_line(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], code: int, reason: str
) -> None:
    result = run(capsys, *arguments)

    assert result[0] == code
    assert reason in result[1]
    assert result[1].count("\n") == 1


def test_restore_refuses_the_folder_of_the_settings_while_it_holds_data(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    before = read_all(folder / "data")
    run(capsys, "backup", "--to", "b")

    code, output = run(capsys, "restore", "--from", "b")
    assert code == 1 and "data is not empty, and nothing in it was changed" in output
    assert read_all(folder / "data") == before


@pytest.mark.parametrize(
    "arguments", [("backup", "--to", "b"), ("restore", "--from", "whole", "--data", "r")]
)
def test_disk_without_space_is_one_line_and_leaves_nothing(
    capsys: pytest.CaptureFixture[str], folder: Path, arguments: tuple[str, ...]
) -> None:
    """A limit on the size of files stops the writes in the middle, as a full disk does."""
    run(capsys, "backup", "--to", "whole")
    before = sorted(path.name for path in folder.iterdir())

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (16_384, 16_384))

    command = [sys.executable, "-m", "holdfast", *arguments]
    done = subprocess.run(command, preexec_fn=limit, capture_output=True, text=True, check=False)

    assert done.returncode == 1, done.stderr
    assert done.stderr.startswith("holdfast: ") and done.stderr.count("\n") == 1
    assert sorted(path.name for path in folder.iterdir()) == before


@pytest.mark.parametrize(
    "words",
    [
        ("backup", "--to", ""),
        ("backup", "--to", "b", "--data", ""),
        ("restore", "--from", ""),
        ("restore", "--from", "b", "--data", ""),
    ],
)
def test_empty_name_is_not_taken_for_the_current_folder(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    code, output = run(capsys, *words)

    assert (code, "Invalid folder '': expected a path." in output) == (2, True)
