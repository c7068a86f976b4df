"""A data folder with copies of earlier states and of another folder, and the damages to its files."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

from holdfast.core.store_marker import get_marker_path
from tests.faults.stores.damage.contents import STORES, Folder
from tests.processes import Process

EARLY, ITEMS, RECENT = 6, 12, 18
"""What was written before the copy `earlier`, before the last checkpoint, and before the copy `recent`."""
LAST: Final = 24
CLOSED, KILLED, ONE, TWO = "closed", "killed", "open by one", "open by two"
USERS: Final = {CLOSED: 0, KILLED: 0, ONE: 1, TWO: 2}
"""The number of processes that use the folder in each state."""
STATES: Final = tuple(USERS)
STATE_FILES: Final = ("tables.db", "queues.db")
COMPANIONS: Final = ("-wal", "-shm", "-turn", "-next")


def list_targets() -> list[str]:
    """Return what is damaged, as paths in a data folder. A path that ends with `*` is a file with those next
    to it, but not its marker.
    """
    databases = [f"{name}{suffix}" for name in STATE_FILES for suffix in ("", *COMPANIONS, "*")]
    objects = [f"objects/files/objects/letters/{number}@" for number in (1, ITEMS + 1)]
    folders = ["objects", "objects/files", "objects/files/objects"]
    marked = [*STATE_FILES, "keys.json", *folders]
    markers = [os.path.relpath(get_marker_path(name)) for name in marked]
    return [
        *databases,
        *objects,
        *folders,
        "objects/files/bucket.json",
        "objects/files/lock",
        "keys.json",
        *markers,
    ]


def flip(file: Path, random: Random) -> None:
    """Change one bit."""
    with file.open("r+b", buffering=0) as opened:
        offset = random.randrange(max(1, file.stat().st_size))
        opened.seek(offset)
        found = opened.read(1) or b"\0"
        opened.seek(offset)
        opened.write(bytes([found[0] ^ (1 << random.randrange(8))]))


def zero(file: Path) -> None:
    with file.open("r+b") as opened:
        opened.write(bytes(file.stat().st_size))


def remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def replace(path: Path, source: Path) -> None:
    """Put a copy of `source` in the place of `path`; leave what is there if there is no source."""
    if not source.exists():
        return
    fresh = path.with_name(f"{path.name}.fresh")
    shutil.copytree(source, fresh) if source.is_dir() else shutil.copy(source, fresh)
    if path.is_dir():
        shutil.rmtree(path)
    os.replace(fresh, path)


def overwrite(path: Path, source: Path) -> None:
    """Write the content of `source` into the file, which stays the same one."""
    if source.exists():
        path.write_bytes(source.read_bytes())


# Each gets the path and random numbers. Folders are only removed and replaced.
FILE_DAMAGES: Final[dict[str, Callable[[Path, Random], object]]] = {
    "removed": lambda path, random: remove(path),
    "emptied": lambda path, random: path.write_bytes(b""),
    "halved": lambda path, random: os.truncate(path, path.stat().st_size // 2),
    "shortened": lambda path, random: os.truncate(path, random.randrange(path.stat().st_size + 1)),
    "zeroed": lambda path, random: zero(path),
    "flipped": flip,
}
SOURCES: Final = ("earlier", "recent", "other")
COPIES: Final[dict[str, Callable[[Path, Path], object]]] = {
    "replaced by": replace,
    "overwritten by": overwrite,
}
KINDS: Final = (*FILE_DAMAGES, *(f"{how} {source}" for how in COPIES for source in SOURCES))
FOLDER_KINDS: Final = ("removed", *(f"replaced by {source}" for source in SOURCES))


class DataFolder:
    """A data folder in use or not, with its copies `earlier`, `recent` and `other` next to it."""

    def __init__(self, root: Path) -> None:
        self._root, self.path = root, root / "now"

    def damage(self, target: str, kind: str, random: Random) -> None:
        """Damage what is at the target, as far as it is there."""
        for name in self._expand(target):
            path = self.path / name
            if not path.exists() or (path.is_dir() and kind not in FOLDER_KINDS):
                continue
            if kind in FILE_DAMAGES:
                FILE_DAMAGES[kind](path, random)
            else:
                how, _, source = kind.rpartition(" ")
                COPIES[how](path, self._root / source / name)

    def _expand(self, target: str) -> list[str]:
        name = target.removesuffix("*")
        return [name] if name == target else [name, *(f"{name}{suffix}" for suffix in COMPANIONS)]


class Client:
    """A process with the stores open. One that was killed by what it read has refused."""

    def __init__(self, path: Path) -> None:
        self._process = Process("tests.faults.stores.damage.process", str(path))
        self.errors: list[str] = []

    def put(self, number: int) -> list[str]:
        """Write under a number in every store; return the stores that acknowledged it."""
        return [store for store in STORES if self._ask(f"put {store} {number}")[0] == "acknowledged"]

    def read(self, store: str, numbers: Sequence[int]) -> str:
        """Return a letter for each number; none if the process has ended."""
        answer = self._ask(f"read {store} {' '.join(map(str, numbers))}")
        if answer[0] == "refused":
            return ""
        self.errors += answer[1] if len(answer) > 1 else []
        return str(answer[0])

    def move_logs(self) -> None:
        self._ask("move")

    def end(self, *, killed: bool) -> None:
        """End the process, unless it has ended."""
        if not (killed or self._process.stdin.closed):
            self._ask("close")
        self._process.close()

    def _ask(self, command: str) -> list[Any]:
        """Send a command and return its answer; an empty text from a process that has ended."""
        try:
            self._process.send_line(command)
            line = self._process.stdout.readline()
        except OSError:
            line = ""
        if not line:
            return self._require_killed_by_the_system()
        answer: list[Any] = json.loads(line)
        if answer[0] == "refused":
            self.errors.append(answer[1])
        return answer

    def _require_killed_by_the_system(self) -> list[Any]:
        """Return an empty answer if the system has killed the process, for a file that was cut under its map.

        Raise `AssertionError` if it has ended in another way.
        """
        code = self._process.wait()
        assert code < 0, self._process.read_log()[-4000:]
        return [""]


def build_templates(root: Path) -> dict[str, Path]:
    """Return a folder for `DataFolder` of each state, without processes."""
    closed, killed = root / CLOSED, root / KILLED
    for name in ("now", "other"):
        _write(closed / name, range(EARLY))
    shutil.copytree(closed / "now", closed / "earlier")
    _write(closed / "now", range(EARLY, ITEMS))
    shutil.copytree(closed, killed)
    for template, is_killed in ((closed, False), (killed, True)):
        client = Client(template / "now")
        _put_all(client, range(ITEMS, RECENT))
        _copy_files(template / "now", template / "recent")
        _put_all(client, range(RECENT, LAST))
        client.end(killed=is_killed)
    return {CLOSED: closed, KILLED: killed}


def _write(path: Path, numbers: Sequence[int]) -> None:
    """Write under the numbers into a folder, which is created if it is missing, and close its stores."""
    is_new = not path.exists()
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = Folder(path)
    if is_new:
        folder.create()
    for number in numbers:
        for store in STORES:
            folder.put(store, number)
    folder.close()


def _put_all(client: Client, numbers: Sequence[int]) -> None:
    for number in numbers:
        assert client.put(number) == list(STORES), client.errors


def _copy_files(source: Path, target: Path) -> None:
    """Copy a folder that is in use."""
    shutil.copytree(source, target)


def find_store(target: str) -> str:
    """Return the store that a target belongs to."""
    name = target.removeprefix(".")
    return name.partition(".")[0] if name.startswith(STATE_FILES) else "objects"


def is_object(target: str) -> bool:
    """Return whether the target is the file of an object."""
    return target.endswith("@")
