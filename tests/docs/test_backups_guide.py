"""docs/guides/backups.md: its commands work in their order, and its errors are as it says."""

from __future__ import annotations

import re
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from holdfast.runtime.folder_backups import backup
from holdfast.runtime.folder_backups.staged_folder import stage_folder
from holdfast.security.ciphers import open_file_cipher
from tests.docs import pages
from tests.sqlite_files import open_file
from tests.unit.runtime.folder_backups.data_folders import fill, read_all

PAGE: Final = pages.DOCS / "guides" / "backups.md"
SECTIONS: Final = pages.split_sections(PAGE, 2)
MESSAGES: Final = [row[0].strip("`") for row in pages.parse_rows(SECTIONS["Schedule it"])]
SMALL_BYTES: Final = 16_384

Case = Callable[[Path], str]


def run(folder: Path, *arguments: str, max_bytes: int = resource.RLIM_INFINITY) -> str:
    """Run a command in a folder and return what it prints on standard error."""
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (max_bytes, max_bytes)),
    )
    return done.stderr


def test_commands_of_the_page_work_in_their_order(tmp_path: Path) -> None:
    fill(tmp_path / "data")
    before = read_all(tmp_path / "data")
    (tmp_path / "keys.json").write_bytes((tmp_path / "data" / "keys.json").read_bytes())
    (tmp_path / "keys.json").chmod(0o600)
    (block,) = (
        each.text for each in pages.parse_blocks(PAGE) if "--dry-run" in each.text and "$ " in each.text
    )
    lines = [line.removeprefix("$ holdfast ") for line in block.splitlines()]

    for line in lines:
        assert run(tmp_path, *line.replace("/mnt/backups", "backups").split()) == ""
    assert read_all(tmp_path / "data-restored") == before


# --- its errors ---------------------------------------------------------------------------------------------


def back_up_into_the_data(folder: Path) -> str:
    return run(folder, "backup", "--to", "data/backup")


def back_up_into_a_full_folder(folder: Path) -> str:
    return run(folder, "backup", "--to", ".")


def back_up_twice_at_once(folder: Path) -> str:
    with stage_folder(folder / "b", backup.STAGING_KIND):
        return run(folder, "backup", "--to", "b")


def restore_on_a_full_disk(folder: Path) -> str:
    run(folder, "backup", "--to", "b")
    return run(folder, "restore", "--from", "b", "--data", "r", max_bytes=SMALL_BYTES)


def back_up_damaged_items(folder: Path) -> str:
    connection = open_file(folder / "data" / "tables.db")
    connection.execute("UPDATE items_1 SET sum = sum + 1")
    connection.close()
    return run(folder, "backup", "--to", "b")


def restore_another_folder(folder: Path) -> str:
    return run(folder, "restore", "--from", "data", "--data", "r")


def restore_changed_file(folder: Path) -> str:
    run(folder, "backup", "--to", "b")
    content = bytearray((folder / "b" / "queues.db").read_bytes())
    content[-1] ^= 1
    (folder / "b" / "queues.db").write_bytes(content)
    return run(folder, "restore", "--from", "b", "--data", "r")


def restore_newer_backup(folder: Path) -> str:
    run(folder, "backup", "--to", "b")
    path = folder / "b" / "manifest.json"
    path.write_text(path.read_text().replace('"format": 1', '"format": 2'))
    return run(folder, "restore", "--from", "b", "--data", "r")


def restore_with_other_keys(folder: Path) -> str:
    run(folder, "backup", "--to", "b")
    open_file_cipher(folder / "other.json")
    return run(folder, "restore", "--from", "b", "--data", "r", "--keys", "other.json")


CASES: Final[tuple[Case, ...]] = (
    back_up_into_the_data,
    back_up_into_a_full_folder,
    back_up_twice_at_once,
    restore_on_a_full_disk,
    back_up_damaged_items,
    restore_another_folder,
    restore_changed_file,
    restore_newer_backup,
    restore_with_other_keys,
)


@pytest.mark.parametrize(("message", "case"), list(zip(MESSAGES, CASES, strict=True)))
def test_message_is_as_the_page_says(message: str, case: Case, tmp_path: Path) -> None:
    fill(tmp_path / "data")
    said = case(tmp_path)

    pattern = ".*".join(re.escape(part) for part in message.split("…"))
    assert re.search(pattern, said), said
