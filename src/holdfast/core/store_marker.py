"""Markers of embedded stores: a small file next to a store that says which store belongs at that path.

A database file or a folder that was lost, truncated or replaced looks like a new, empty store. Its marker
says that data was here, so that the store refuses to start empty. The store keeps the same id inside. A
marker is written once the store exists, so a marker without a store always means a loss.

The name starts with a dot and not with the store's name, so that it survives `rm tables.db*`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from holdfast.core.disk import open_private, sync, sync_path
from holdfast.core.errors import StoreFileError, StoreFull, StoreIOError
from holdfast.core.rng import make_hex_token

_PREFIX: Final = b"holdfast store "
_SUFFIX: Final = ".identity"
ID_CHARACTERS: Final = 32
IDENTITY_BYTES: Final = len(_PREFIX) + ID_CHARACTERS + 1
"""The length of the first line, which holds the id. A store may keep more behind it."""


def get_marker_path(path: str | os.PathLike[str]) -> str:
    """Return the path of the marker of the store at `path`."""
    folder, name = os.path.split(os.fspath(path))
    return os.path.join(folder, f".{name}{_SUFFIX}")


def list_marked(folder: Path) -> list[Path]:
    """Return the paths in a folder at which a store belongs, whether it is there or not."""
    return sorted(
        folder / each.name.removeprefix(".").removesuffix(_SUFFIX) for each in folder.glob(f".*{_SUFFIX}")
    )


def read_marker(path: str | os.PathLike[str]) -> str | None:
    """Return the id of the store that belongs at `path`, or None without a marker."""
    marker = get_marker_path(path)
    try:
        with open(marker, "rb") as file:
            line = file.read(IDENTITY_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None
    text = line[len(_PREFIX) : -1].decode("ascii", "replace")
    if not line.startswith(_PREFIX) or len(line) != IDENTITY_BYTES or not text.isalnum():
        raise StoreFileError(
            f"{marker} is damaged: expected the id of the store {os.fspath(path)}. Check that the store is "
            f"whole, then remove {marker}."
        )
    return text


def read_marker_note(path: str | os.PathLike[str]) -> str:
    """Return what is noted behind the id in the marker of a store; empty without a marker or a note."""
    try:
        with open(get_marker_path(path), "rb") as file:
            return file.read()[IDENTITY_BYTES:].decode("ascii", "replace").rstrip()
    except (FileNotFoundError, NotADirectoryError):
        return ""


def write_marker(path: str | os.PathLike[str], store_id: str, note: str = "") -> None:
    """Write the marker of a store that exists, whole or not at all, readable by the owner only.

    `note` is a line about the store for `read_marker_note`.
    """
    marker = get_marker_path(path)
    fresh = f"{marker}.{make_hex_token(8)}"
    try:
        with open(fresh, "wb", opener=open_private) as file:
            file.write(_PREFIX + store_id.encode() + b"\n" + (note and f"{note}\n").encode())
            file.flush()
            sync(file.fileno())
        os.replace(fresh, marker)
    except OSError as error:
        with suppress(OSError):
            os.unlink(fresh)
        kind = StoreFull if error.errno in (errno.ENOSPC, errno.EDQUOT) else StoreIOError
        raise kind(
            f"The marker {marker} cannot be written ({error.strerror}), and without it a lost store would go "
            "unnoticed. Free some space on the disk, or check it, and retry."
        ) from error
    sync_path(os.path.dirname(marker) or ".")


def mark_store(path: str | os.PathLike[str]) -> None:
    """Write a marker with a new id for a store that has no id of its own, unless it has a marker."""
    if read_marker(path) is None:
        write_marker(path, make_hex_token(ID_CHARACTERS // 2))


def refuse_lost_store(path: str | os.PathLike[str], is_there: Callable[[], bool] = lambda: False) -> None:
    """Raise `StoreFileError` if a marker says that a store was at `path`, and there is none now.

    `is_there` looks for it, after the marker was read: another process may be creating both.
    """
    if read_marker(path) is None or is_there():
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
