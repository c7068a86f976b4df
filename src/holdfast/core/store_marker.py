"""Markers of embedded stores: a small file next to a store that says which store belongs at that path.

A database file or a folder that was lost, truncated or replaced looks like a new, empty store. Its marker
says that data was here, so that the store refuses to start empty. The store keeps the same id inside. A
marker is written once the store exists, so a marker without a store always means a loss.

The name starts with a dot and not with the store's name, so that it survives `rm tables.db*`.
"""

from __future__ import annotations

import os
from typing import Final

from holdfast.core.disk import sync, sync_path
from holdfast.core.errors import StoreFileError

_PREFIX: Final = b"holdfast store "
ID_CHARACTERS: Final = 32
IDENTITY_BYTES: Final = len(_PREFIX) + ID_CHARACTERS + 1
"""The length of the first line, which holds the id. A store may keep more behind it."""


def get_marker_path(path: str | os.PathLike[str]) -> str:
    """Return the path of the marker of the store at `path`."""
    folder, name = os.path.split(os.fspath(path))
    return os.path.join(folder, f".{name}.identity")


def read_marker(path: str | os.PathLike[str]) -> str | None:
    """Return the id of the store that belongs at `path`, or None without a marker."""
    marker = get_marker_path(path)
    try:
        with open(marker, "rb") as file:
            line = file.read(IDENTITY_BYTES)
    except FileNotFoundError:
        return None
    text = line[len(_PREFIX) : -1].decode("ascii", "replace")
    if not line.startswith(_PREFIX) or len(line) != IDENTITY_BYTES or not text.isalnum():
        raise StoreFileError(
            f"{marker} is damaged: expected the id of the store {os.fspath(path)}. Check that the store is "
            f"whole, then remove {marker}."
        )
    return text


def write_marker(path: str | os.PathLike[str], store_id: str) -> None:
    """Write the marker of a store that exists, whole or not at all, readable by the owner only."""
    marker = get_marker_path(path)
    fresh = f"{marker}.{os.getpid()}"
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, _PREFIX + store_id.encode() + b"\n")
        sync(descriptor)
    finally:
        os.close(descriptor)
    os.replace(fresh, marker)
    sync_path(os.path.dirname(marker) or ".")


def refuse_lost_store(path: str | os.PathLike[str]) -> None:
    """Raise `StoreFileError` if a marker says that a store was at `path`. Call it if there is none now."""
    if read_marker(path) is None:
        return
    raise StoreFileError(
        f"{os.fspath(path)} is missing, empty or older, but {get_marker_path(path)} says that it held data. "
        f"Nothing was changed: restore it from a backup, or remove {get_marker_path(path)} to start with "
        "what is there."
    )


def require_same_store(path: str | os.PathLike[str], store_id: str) -> None:
    """Write the marker of this store if there is none. Raise `StoreFileError` if it names another store."""
    marked = read_marker(path)
    if marked is None:
        write_marker(path, store_id)
    elif marked != store_id:
        raise StoreFileError(
            f"{os.fspath(path)} was replaced by another store: its id is {store_id}, but "
            f"{get_marker_path(path)} names {marked}. Restore the original, or remove "
            f"{get_marker_path(path)} to accept this one."
        )
