"""Deep checks of stores that no process uses: everything is read, compared with its checksums and counted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.config.settings import FILE_SCHEME, Settings
from holdfast.core.errors import DataDamaged, KeyUnavailable
from holdfast.core.progress import Progress, ignore_progress
from holdfast.runtime.folder_backups.sources import QUEUES, TABLES

if TYPE_CHECKING:
    from holdfast.security.ciphers import Cipher
    from holdfast.stores.objects.local.folder_check import FolderContents
    from holdfast.stores.sqlite import Schema


class FileKind(NamedTuple):
    """A kind of database file: its schema, and the function that reads its rows."""

    schema: Schema
    check_rows: Any


def get_file_kind(store: str) -> FileKind:
    """Return the kind of file of the tables or queues."""
    if store == TABLES:
        from holdfast.stores.tables.embedded.storage.row_check import check_items
        from holdfast.stores.tables.embedded.storage.schema import SCHEMA as TABLES_SCHEMA

        return FileKind(TABLES_SCHEMA, check_items)
    assert store == QUEUES
    from holdfast.stores.queues.embedded.storage.row_check import check_messages
    from holdfast.stores.queues.embedded.storage.schema import SCHEMA as QUEUES_SCHEMA

    return FileKind(QUEUES_SCHEMA, check_messages)


def check_file(store: str, path: Path, *, subject: Path) -> dict[str, int]:
    """Read a database file and return its counts. Raise `DataDamaged`, which names it as `subject`."""
    from holdfast.stores.sqlite.file_check import check_unused_file

    kind = get_file_kind(store)
    return check_unused_file(str(path), kind.schema, kind.check_rows, subject=str(subject))


def check_objects_folder(
    folder: Path, cipher: Cipher | None, *, subject: Path, progress: Progress = ignore_progress
) -> FolderContents:
    """Read a folder of objects, decrypted by `cipher`. Raise `DataDamaged` or `KeyUnavailable`."""
    from holdfast.stores.objects.local.folder_check import check_objects
    from holdfast.stores.sqlite.file_check import format_damages

    found = check_objects(folder, cipher, lambda done, total: progress("objects (read)", done, total))
    if found.damages:
        raise DataDamaged(f"{subject} is damaged: {format_damages(tuple(found.damages))}")
    for id, reason in found.missing_keys.items():
        raise KeyUnavailable(f"{found.keys[id]:,} objects in {subject} cannot be decrypted: {reason}")
    return found


def open_check_cipher(settings: Settings) -> Cipher | None:
    """Return the cipher of a key file that exists; None for keys in a service, which bills each use."""
    from holdfast.security.ciphers import FileCipher

    return FileCipher(settings.keys_file) if settings.keys.startswith(FILE_SCHEME) else None
