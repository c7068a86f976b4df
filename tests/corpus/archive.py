"""Pack data folders into archives, unpack them, and list the archives of every released version.

The same folder always gives the same archive: names are sorted, and times, owners and modes are fixed.
"""

from __future__ import annotations

import json
import stat
import tarfile
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

import apsw

from holdfast.stores.sqlite.checksums import register_checksum_vfs
from holdfast.stores.sqlite.commit_record import CommitRecord

CORPUS: Final = Path(__file__).parent
SUFFIX: Final = ".tar.xz"
SQLITE_HEADER: Final = b"SQLite format 3\x00"
# Where the header has `user_version`, four bytes.
SCHEMA_VERSION_AT: Final = 60


def pack(folder: Path, archive: Path, *, checkpoint: bool = True) -> None:
    """Pack the contents of `folder` into `archive`.

    `checkpoint` first moves the write-ahead log of every SQLite file into the file. Without it the archive
    keeps the logs, as `kill -9` leaves them. The folder must not be in use.
    """
    if checkpoint:
        for path in _list_files(folder):
            if path.exists() and _is_sqlite(path):
                _checkpoint(path)
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive, "w:xz", preset=9, format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(folder.rglob("*")):
            # A -shm file is rebuilt from the log; a socket belongs to a process.
            if path.name.endswith("-shm") or stat.S_ISSOCK(path.lstat().st_mode):
                continue
            entry = _remove_traces(tar.gettarinfo(path, str(path.relative_to(folder))))
            if entry.isfile():
                with path.open("rb") as content:
                    tar.addfile(entry, content)
            else:
                tar.addfile(entry)


def unpack(archive: Path, folder: Path) -> None:
    """Unpack `archive` into `folder`, which is created if it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive, "r:xz") as tar:
        tar.extractall(folder, filter="data")


def list_release_folders() -> list[Path]:
    """Return the folder of every released version, oldest first."""
    folders = [path for path in CORPUS.glob("v*_*") if path.is_dir()]
    return sorted(folders, key=lambda path: tuple(map(int, path.name[1:].split("_"))))


def list_releases_with(name: str) -> list[Path]:
    """Return the folders of the versions that have the archive `name`, oldest first."""
    return [folder for folder in list_release_folders() if (folder / f"{name}{SUFFIX}").exists()]


def load_notes(release: Path, name: str) -> Any:
    """Return what the generator of the archive `name` noted for the test: cursors, tokens, ids, the time."""
    return json.loads((release / f"{name}.json").read_text())


def save_notes(folder: Path, name: str, notes: Any) -> None:
    """Write the notes of the archive `name`, for `load_notes`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(
        json.dumps(notes, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    )


def read_schema_version(archive: Path, file: str) -> int | None:
    """Return the schema version of a SQLite file in an archive, or None if the archive has no such file."""
    with tarfile.open(archive, "r:xz") as tar:
        found = next((each for each in tar if each.name == file), None)
        content = None if found is None else tar.extractfile(found)
        return None if content is None else int.from_bytes(content.read(64)[SCHEMA_VERSION_AT:], "big")


RELEASES: Final = tuple(folder.name for folder in list_release_folders())


def _list_files(folder: Path) -> list[Path]:
    """Return the regular files below the folder, sorted."""
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def _is_sqlite(path: Path) -> bool:
    with path.open("rb") as content:
        return content.read(len(SQLITE_HEADER)) == SQLITE_HEADER


def _checkpoint(path: Path) -> None:
    """Move the write-ahead log into the file. Raise `RuntimeError` if the file is in use."""
    with suppress(FileNotFoundError), closing(CommitRecord(str(path))) as record:
        record.write(record.read()._replace(frames=0))
    with apsw.Connection(str(path), vfs=register_checksum_vfs()) as connection:
        busy, _, _ = next(connection.execute("PRAGMA wal_checkpoint(TRUNCATE)"))
    # Closing the last connection removes the log, once everything in it is in the file.
    connection.close()
    if busy or path.with_name(f"{path.name}-wal").exists():
        raise RuntimeError(f"{path} is in use: stop every process that has it open, then pack again")


def _remove_traces(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Fix the time, owner and mode of an entry, so that archives are equal on every machine."""
    entry.mtime = 0
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mode = 0o700 if entry.isdir() else 0o600
    entry.pax_headers = {}
    return entry
