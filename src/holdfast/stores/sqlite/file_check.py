"""Deep check of a SQLite file that no process uses: every page is read, and every structure is compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import apsw
import msgspec

from holdfast.core.errors import DataDamaged
from holdfast.stores.sqlite.connections import open_unused
from holdfast.stores.sqlite.errors import map_error
from holdfast.stores.sqlite.schema import Schema, check_identity

MAX_DAMAGES_SHOWN: Final = 5


class FileContents(msgspec.Struct, frozen=True):
    """What a file holds: the number of rows of each table or queue by its name, and what is damaged."""

    counts: dict[str, int]
    damages: tuple[str, ...] = ()


def check_unused_file(
    path: str, schema: Schema, check_rows: Callable[[apsw.Connection], FileContents], *, subject: str
) -> dict[str, int]:
    """Read the whole file and return its counts.

    Raise `DataDamaged`, which says what is damaged and names the file as `subject`.
    """
    with _open(path, subject) as connection:
        check_identity(connection, schema, subject)
        found = [str(line) for (line,) in connection.execute("PRAGMA integrity_check")]
        is_blank = connection.execute("SELECT count(*) FROM sqlite_schema").get == 0
        contents = FileContents({}) if is_blank else check_rows(connection)
    damages = contents.damages if found == ["ok"] else (*contents.damages, *found)
    if damages:
        raise DataDamaged(f"{subject} is damaged: {format_damages(damages)}")
    return contents.counts


def format_damages(damages: tuple[str, ...]) -> str:
    """Return the first damages as one text, and how many more there are."""
    shown = "; ".join(damages[:MAX_DAMAGES_SHOWN])
    more = len(damages) - MAX_DAMAGES_SHOWN
    return f"{shown}; and {more:,} more." if more > 0 else f"{shown}."


@contextmanager
def _open(path: str, subject: str) -> Iterator[apsw.Connection]:
    """Open the file, and map the driver's errors."""
    try:
        connection = open_unused(path)
        try:
            yield connection
        finally:
            connection.close()
    except apsw.Error as error:
        raise map_error(error, subject) from error
