"""The manifest of a backup: when and of what it was made, and the size and hash of every file in it.

It is written last, so a folder without one is not a backup.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec

from holdfast import __version__
from holdfast.core.disk import open_private, sync
from holdfast.core.errors import DataDamaged, StoreFileError
from holdfast.core.progress import Progress, ignore_progress
from holdfast.runtime.folder_backups.sources import SkippedStore

FORMAT: Final = 1
MANIFEST_NAME: Final = "manifest.json"
READ_BYTES: Final = 1024 * 1024
NO_HASH: Final = "0" * 64
_HASH_AT_END: Final = re.compile(rb'("sha256": ")[0-9a-f]{64}("\s*\}\s*)\Z')


class FileEntry(msgspec.Struct, frozen=True):
    """A file of a backup."""

    bytes: int
    sha256: str


class StoreEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A store of a backup.

    `counts` has the number of items, messages, objects or rows by table, queue, bucket or SQL table. `schema`
    is the version of a database file, `version` that of PostgreSQL, `databases` the dump of each database.
    """

    engine: str
    path: str
    counts: dict[str, int]
    id: str | None = None
    schema: int | None = None
    version: str | None = None
    databases: dict[str, str] = {}


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a backup contains. `keys` has the number of objects that each encryption key encrypts; `key_file`
    and `run_clock` are the names of those files, if they are in the backup. `key_file_id` is the id of the
    key file, also if it is not in the backup.
    """

    format: int = FORMAT
    holdfast: str = __version__
    created_at: str
    stores: dict[str, StoreEntry]
    skipped: tuple[SkippedStore, ...] = ()
    keys: dict[str, int] = {}
    key_file: str | None = None
    key_file_id: str | None = None
    run_clock: str | None = None
    files: dict[str, FileEntry] = {}
    sha256: str = NO_HASH
    """The hash of the manifest itself, with zeros in its place. The last field."""

    @property
    def bytes(self) -> int:
        return sum(each.bytes for each in self.files.values())

    def list_files(self, folder: str) -> Iterator[str]:
        """Yield the paths of the files in a folder of the backup, or the file itself."""
        yield from (path for path in self.files if path == folder or path.startswith(f"{folder}/"))


def format_created_at(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def seal_files(folder: Path, progress: Progress = ignore_progress) -> dict[str, FileEntry]:
    """Sync every file of a folder, and return the entries by path."""
    paths = sorted(path for path in folder.rglob("*") if not path.is_dir())
    entries: dict[str, FileEntry] = {}
    for done, path in enumerate(paths, start=1):
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            sync(file.fileno())
            entries[path.relative_to(folder).as_posix()] = FileEntry(file.tell(), digest)
        progress("syncing", done, len(paths))
    return entries


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest as the last file of a backup, with its own hash."""
    unsealed = msgspec.structs.replace(manifest, sha256=NO_HASH)
    content = _set_hash(msgspec.json.format(msgspec.json.encode(unsealed), indent=1) + b"\n")
    with open(folder / MANIFEST_NAME, "xb", opener=open_private) as file:
        file.write(content)
        file.flush()
        sync(file.fileno())


def read_manifest(folder: Path) -> Manifest:
    """Read and check the manifest of a backup.

    Raise `StoreFileError` if the folder is not a backup, or one of a newer version; `DataDamaged` if the
    manifest was changed.
    """
    path = folder / MANIFEST_NAME
    try:
        content = path.read_bytes()
    except OSError as error:
        raise StoreFileError(
            f"{folder} is not a backup: {path} is missing or unreadable ({error.strerror}). Name a folder "
            "that `holdfast backup --to` has written to its end."
        ) from error
    manifest = _decode(content, path)
    if not _HASH_AT_END.search(content) or _set_hash(content) != content:
        raise DataDamaged(f"{path} is damaged or was edited: it does not match its hash. Use another backup.")
    for name in manifest.files:
        _check_path(name, path)
    return manifest


def _decode(content: bytes, path: Path) -> Manifest:
    """Decode a manifest of a known format."""
    try:
        found = msgspec.json.decode(content)["format"]
        if isinstance(found, int) and found > FORMAT:
            raise StoreFileError(
                f"{path} was written by a newer Holdfast (format {found}; this one supports up to {FORMAT}). "
                "Upgrade Holdfast."
            )
        return msgspec.json.decode(content, type=Manifest)
    except (msgspec.MsgspecError, LookupError, TypeError) as error:
        raise DataDamaged(f"{path} is damaged: {error}. Use another backup.") from error


def _check_path(name: str, manifest: Path) -> None:
    """Raise `StoreFileError` for a path that would leave the folder."""
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts or re.search(r"[\\\0]", name):
        raise StoreFileError(
            f"{manifest} names the file {name!r}, which is not in the backup. Do not use it."
        )


def _set_hash(content: bytes) -> bytes:
    """Return the text of a manifest with its own hash at the end: that of the text with zeros instead.

    The hash is that of the text and not of its fields: a later version may have more of them.
    """
    zeroed = _HASH_AT_END.sub(rb"\g<1>" + NO_HASH.encode() + rb"\g<2>", content)
    digest = hashlib.sha256(zeroed).hexdigest().encode()
    return _HASH_AT_END.sub(rb"\g<1>" + digest + rb"\g<2>", zeroed)


def read_verified(folder: Path, name: str, expected: FileEntry) -> Iterator[bytes]:
    """Yield the content of a file of a backup.

    Raise `DataDamaged`, at the latest after the last byte, if it is not the file that was written.
    """
    path = folder / name
    digest, size = hashlib.sha256(), 0
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise DataDamaged(
            f"{path} is missing or not a file ({error.strerror}). Use another backup."
        ) from error
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        while block := file.read(READ_BYTES):
            size += len(block)
            digest.update(block)
            yield block
    if size != expected.bytes:
        raise DataDamaged(f"{path} has {size:,} bytes instead of {expected.bytes:,}. Use another backup.")
    if digest.hexdigest() != expected.sha256:
        raise DataDamaged(
            f"{path} is damaged: it does not match its hash in the manifest. Use another backup."
        )
