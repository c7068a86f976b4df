"""The quick check of a SQLite file, for `holdfast doctor`. Nothing is created, migrated or repaired."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.cli.health.file_rights import describe_exposed, list_database_files
from holdfast.core.errors import StoreBusy, StoreFileError

if TYPE_CHECKING:
    from holdfast.stores.sqlite import Connection, Schema

# A transaction holds the write lock for milliseconds. Only a rewrite of the file takes longer.
NOTABLE_HOLD_S: Final = 1.0
UNHEALTHY_HOLD_S: Final = 30.0


class CheckedFile(NamedTuple):
    """A file without damage: a connection to it, and remarks that do not make it unhealthy."""

    connection: Connection
    is_blank: bool
    remarks: str


def describe_absent_file(file: Path, content: str) -> str | None:
    """Return the description of a file that is missing or empty; None if it has content.

    Raise `StoreFileError` if it held data, or if it is a folder.
    """
    from holdfast.stores.sqlite.store_files import refuse_missing_database

    refuse_missing_database(os.path.realpath(file) if file.is_symlink() else str(file))
    if not file.exists():
        return f"{file} does not exist yet: it is created on first use"
    if file.is_dir():
        raise StoreFileError(f"{file} is a folder, but must be a file: move it")
    return f"{file} is empty: it has no {content} yet" if file.stat().st_size == 0 else None


@contextmanager
def open_checked_file(file: Path, schema: Schema) -> Iterator[CheckedFile]:
    """Check the file, its log, its marker and its write lock, and open it for reading.

    Raise `HoldfastError` if one of them is not as it must be.
    """
    from holdfast.stores.sqlite.connections import Tuning, open_reader
    from holdfast.stores.sqlite.errors import map_error
    from holdfast.stores.sqlite.log_damage import refuse_damaged_log
    from holdfast.stores.sqlite.schema import check_identity, is_blank
    from holdfast.stores.sqlite.store_files import check_files

    # The files next to it are next to the file that a link names.
    path = os.path.realpath(file) if file.is_symlink() else str(file)
    check_files(path)
    remarks = _describe_holder(path) + describe_exposed(list_database_files(file))
    try:
        with closing(open_reader(path, Tuning())) as connection:
            check_identity(connection, schema, path)
            refuse_damaged_log(connection, path)
            found = [str(line) for (line,) in connection.execute("PRAGMA quick_check")]
            if found != ["ok"]:
                raise StoreFileError(f"{path} is damaged: {'; '.join(found)}")
            yield CheckedFile(connection, is_blank(connection), remarks)
    except Exception as error:
        raise map_error(error, path) from error


def _describe_holder(path: str) -> str:
    """Return which process holds the write lock, if it has held it for a while.

    Raise `StoreBusy` if no other process can write: the holder is stopped, or has the lock for too long.
    """
    from holdfast.stores.sqlite.write_lock import find_holder

    holder = find_holder(path)
    if holder is None:
        return ""
    if holder.is_stopped or (holder.age_s or 0) > UNHEALTHY_HOLD_S:
        raise StoreBusy(f"{path}: {holder}, and no other can write. Continue or end that process.")
    is_notable = holder.age_s is None or holder.age_s > NOTABLE_HOLD_S
    return f"; the write lock is taken: {holder}" if is_notable else ""
