"""The marker of an embedded PostgreSQL: which cluster belongs in the folder, and how far it has got.

PostgreSQL starts with any cluster that it finds, also with an older copy or that of another folder. The
marker holds the identifier that `initdb` gave the cluster, and its progress when the server was last started
or stopped: the position of its last checkpoint, which only grows, and whether it has run since.
"""

from __future__ import annotations

import re
import struct
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from holdfast.core.errors import StoreFileError
from holdfast.core.store_marker import (
    ID_CHARACTERS,
    get_marker_path,
    read_marker_note,
    refuse_lost_store,
    require_same_store,
    write_marker,
)

# The control file, in the machine's byte order: the identifier, two versions, the state, the time, and the
# position of the last checkpoint.
_CONTROL: Final = struct.Struct("<8sIIi4xqQ")
_STOPPED_STATES: Final = (1, 2)
_NOTE: Final = re.compile("checkpoint ([0-9a-f]{16}) (stopped|running)")


class _Progress(NamedTuple):
    """How far a cluster has got. One that has run since its last checkpoint is ahead of one that has not."""

    position: int = 0
    has_run: bool = False


def refuse_wrong_cluster(folder: Path) -> None:
    """Raise `StoreFileError` if the cluster in `folder` is lost, another one, or an older copy of itself."""
    data = folder / "server"
    refuse_lost_store(folder, (data / "PG_VERSION").is_file)
    if not (data / "PG_VERSION").is_file():
        return
    store_id, progress = _read_control_file(data)
    require_same_store(folder, store_id)
    if progress < _parse_note(read_marker_note(folder)):
        raise StoreFileError(
            f"{data} is an older copy of this PostgreSQL, without the last acknowledged transactions. "
            "Nothing was changed: put the newer folder back, restore a backup, or remove "
            f"{get_marker_path(folder)} to accept this one."
        )


def note_progress(folder: Path) -> None:
    """Write the marker with the progress of the cluster. The server was just started or stopped."""
    store_id, progress = _read_control_file(folder / "server")
    state = "running" if progress.has_run else "stopped"
    write_marker(folder, store_id, f"checkpoint {progress.position:016x} {state}")


def _read_control_file(data: Path) -> tuple[str, _Progress]:
    """Return the identifier and the progress of a cluster. Raise `StoreFileError` if its control file is
    missing or cut.
    """
    path = data / "global" / "pg_control"
    content = b""
    with suppress(FileNotFoundError), open(path, "rb") as file:
        content = file.read(_CONTROL.size)
    if len(content) < _CONTROL.size:
        raise StoreFileError(f"{path} is missing or cut. Restore {data.parent} from a backup.")
    store_id, _, _, state, _, position = _CONTROL.unpack(content)
    return store_id.hex().rjust(ID_CHARACTERS, "0"), _Progress(position, state not in _STOPPED_STATES)


def _parse_note(note: str) -> _Progress:
    """Return the noted progress; none if there is no note, as in a folder of an older version."""
    found = _NOTE.fullmatch(note)
    return _Progress() if found is None else _Progress(int(found[1], 16), found[2] == "running")
