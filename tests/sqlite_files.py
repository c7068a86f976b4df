"""Stores' SQLite files, opened as Holdfast does, for tests that look into a file or change it."""

from __future__ import annotations

import os

import apsw

from holdfast.stores.sqlite.checksums import register_checksum_vfs
from holdfast.stores.sqlite.connections import keep_log_on_close


def open_file(path: str | os.PathLike[str]) -> apsw.Connection:
    """Open a file with the checksums of its pages: what is written is not damage."""
    connection = apsw.Connection(os.fspath(path), vfs=register_checksum_vfs())
    keep_log_on_close(connection, True)
    return connection
