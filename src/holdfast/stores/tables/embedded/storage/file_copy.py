"""Copy of a live tables file to a new file, at one point in time, without disturbing its users.

Experiments on the copy leave the original unchanged.
"""

from __future__ import annotations

import os
import sys

import apsw

from holdfast.stores.sqlite.checksums import register_checksum_vfs
from holdfast.stores.sqlite.connections import Tuning, open_reader, sync_to_disk
from holdfast.stores.sqlite.errors import map_error
from holdfast.stores.sqlite.log_damage import refuse_lost_database
from holdfast.stores.sqlite.schema import check_identity
from holdfast.stores.tables.embedded.storage.schema import SCHEMA


def copy_tables(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> bool:
    """Copy the tables of a file to a new file. Return False if the source does not exist or is empty."""
    path = os.path.realpath(source)
    refuse_lost_database(path)
    if not os.path.isfile(path) or os.path.getsize(path) == 0:
        return False
    try:
        reader = open_reader(path, Tuning())
        try:
            check_identity(reader, SCHEMA, path)
            _copy_at_once(reader, os.fspath(target))
        finally:
            reader.close()
    except apsw.Error as error:
        raise map_error(error, path) from error
    return True


def _copy_at_once(reader: apsw.Connection, target: str) -> None:
    """Copy in one step: a copy in several steps restarts whenever another process writes in between."""
    writer = apsw.Connection(target, vfs=register_checksum_vfs())
    try:
        sync_to_disk(writer, sys.platform)
        with writer.backup("main", reader, "main") as backup:
            backup.step(-1)
    finally:
        writer.close()
