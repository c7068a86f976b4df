"""Stores' SQLite files, opened as Holdfast does, for tests that look into a file or change it."""

from __future__ import annotations

import os

import apsw

from holdfast.stores.sqlite.checksums import register_checksum_vfs


def open_file(path: str | os.PathLike[str]) -> apsw.Connection:
    """Open a file with the checksums of its pages: what is written is not damage.

    If no store has it open, closing the connection moves the log into the file.
    """
    return apsw.Connection(os.fspath(path), vfs=register_checksum_vfs())
