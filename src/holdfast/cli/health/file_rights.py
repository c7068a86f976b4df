"""Access rights of a store's files, for `holdfast doctor`: Holdfast makes them for their owner alone."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

OTHERS_MASK: Final = 0o077
SQLITE_SUFFIXES: Final = ("", "-wal", "-shm", "-turn", "-next", "-waiting")


def list_database_files(file: Path) -> Iterator[Path]:
    """Yield the paths of a database, of the files next to it, and of its folder."""
    from holdfast.core.store_marker import get_marker_path

    yield from (file.with_name(file.name + suffix) for suffix in SQLITE_SUFFIXES)
    yield Path(get_marker_path(file))
    yield file.parent


def describe_exposed(paths: Iterable[Path]) -> str:
    """Return which of the paths other users may use, with what to do; empty if none.

    Only files of this user are looked at. They are not changed: somebody may rely on them.
    """
    exposed = [path for path in paths if _is_exposed(path)]
    if not exposed:
        return ""
    names = ", ".join(str(path) for path in exposed)
    return f"; other users have access to {names} (`chmod go= {' '.join(map(str, exposed))}`)"


def _is_exposed(path: Path) -> bool:
    """Return whether a path of this user may be read or written by others."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return found.st_uid == os.geteuid() and bool(found.st_mode & OTHERS_MASK)
