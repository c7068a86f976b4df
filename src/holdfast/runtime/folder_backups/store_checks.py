"""Deep checks of the stores of a backup, as `holdfast doctor --deep` makes them, and their counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.config.settings import FILE_SCHEME, Settings
from holdfast.core.errors import DataDamaged
from holdfast.core.progress import Progress
from holdfast.runtime.folder_backups.sources import QUEUES, TABLES

if TYPE_CHECKING:
    from holdfast.security.ciphers import Cipher
    from holdfast.stores.objects.local.verification import ObjectsReport
    from holdfast.stores.sqlite import Schema

MAX_PROBLEMS_SHOWN: Final = 5


class FileKind(NamedTuple):
    """A kind of database file: its schema, and the functions that verify and count its rows."""

    schema: Schema
    verify: Callable[..., list[str]]
    count_rows: Callable[[str], dict[str, int]]


def get_file_kind(store: str) -> FileKind:
    """Return the kind of file of the tables or queues."""
    if store == TABLES:
        from holdfast.stores.tables.embedded.storage.schema import SCHEMA as TABLES_SCHEMA
        from holdfast.stores.tables.embedded.storage.verification import count_items, verify_tables

        return FileKind(TABLES_SCHEMA, verify_tables, count_items)
    assert store == QUEUES
    from holdfast.stores.queues.embedded.storage.schema import SCHEMA as QUEUES_SCHEMA
    from holdfast.stores.queues.embedded.verification import count_messages, verify_queues

    return FileKind(QUEUES_SCHEMA, verify_queues, count_messages)


def check_file(store: str, path: Path, subject: Path, progress: Progress) -> dict[str, int]:
    """Verify a database file that no process uses, and return its counts.

    Raise `DataDamaged`, which names the file as `subject`.
    """
    kind = get_file_kind(store)
    refuse_problems(subject, kind.verify(str(path), progress, is_in_use=False))
    return kind.count_rows(str(path))


def check_objects(folder: Path, cipher: Cipher | None, subject: Path, progress: Progress) -> ObjectsReport:
    """Verify a folder of objects, decrypted by `cipher`. Raise `DataDamaged`."""
    from holdfast.stores.objects.local.verification import verify_objects

    report = verify_objects(folder, cipher, progress)
    refuse_problems(subject, report.problems)
    return report


def refuse_problems(subject: Path, problems: Sequence[str]) -> None:
    """Raise `DataDamaged`, which says what is wrong with the subject, if anything is."""
    if not problems:
        return
    shown = "; ".join(problems[:MAX_PROBLEMS_SHOWN])
    more = len(problems) - MAX_PROBLEMS_SHOWN
    raise DataDamaged(f"{subject} is damaged: {shown}{f'; and {more:,} more' if more > 0 else ''}.")


def open_check_cipher(settings: Settings) -> Cipher | None:
    """Return the cipher of a key file; None for keys in a service, which bills each use."""
    from holdfast.security.ciphers import FileCipher

    return FileCipher(settings.keys_file) if settings.keys.startswith(FILE_SCHEME) else None
