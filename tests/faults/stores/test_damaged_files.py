"""Files of a store that are removed, truncated, zeroed, replaced or changed, in use or not.

Whatever happens to one of them, each acknowledged write is read back, or the store refuses. It never returns
something else, and never leaves something out.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from holdfast.core.errors import StoreFileError
from holdfast.core.store_marker import get_marker_path
from holdfast.operations.queues import (
    CreateQueue,
    OutgoingMessage,
    QueueDefinition,
    ReceiveMessages,
    SendMessages,
)
from holdfast.operations.tables import PutItem
from holdfast.stores.queues.embedded import open_queues
from holdfast.stores.tables.embedded import open_tables
from tests.faults.stores.damaged_files_process import MISSING, WRONG, build_item, create, read_items
from tests.processes import Process, preload

preload("tests.faults.stores.damaged_files_process")

SOAK = os.environ.get("HOLDFAST_SOAK") == "1"
EARLY, ITEMS = 20, 40
SEED = int.from_bytes(os.urandom(4), "big")
FILES: dict[str, Callable[[Path], Path]] = {
    "database": lambda path: path,
    "log": lambda path: path.with_name(path.name + "-wal"),
    "index": lambda path: path.with_name(path.name + "-shm"),
    "lock": lambda path: path.with_name(path.name + "-turn"),
    "queue": lambda path: path.with_name(path.name + "-next"),
    "marker": lambda path: Path(get_marker_path(path)),
}


def flip(file: Path, random: Random) -> None:
    """Change one bit."""
    with file.open("r+b") as opened:
        offset = random.randrange(max(1, file.stat().st_size))
        opened.seek(offset)
        found = opened.read(1) or b"\0"
        opened.seek(offset)
        opened.write(bytes([found[0] ^ (1 << random.randrange(8))]))


def zero(file: Path) -> None:
    with file.open("r+b") as opened:
        opened.write(bytes(file.stat().st_size))


# Each gets the file, a file of an earlier time, the file of another store, and random numbers.
DAMAGES: dict[str, Callable[[Path, Path, Path, Random], object]] = {
    "removed": lambda file, earlier, other, random: file.unlink(missing_ok=True),
    "emptied": lambda file, earlier, other, random: file.write_bytes(b""),
    "halved": lambda file, earlier, other, random: os.truncate(file, file.stat().st_size // 2),
    "zeroed": lambda file, earlier, other, random: zero(file),
    "flipped": lambda file, earlier, other, random: flip(file, random),
    "older": lambda file, earlier, other, random: os.replace(shutil.copy(earlier, f"{file}.x"), file),
    "overwritten by older": lambda file, earlier, other, random: file.write_bytes(earlier.read_bytes()),
    "foreign": lambda file, earlier, other, random: os.replace(shutil.copy(other, f"{file}.x"), file),
    "overwritten by foreign": lambda file, earlier, other, random: file.write_bytes(other.read_bytes()),
}


class Store:
    """The files of a store in a folder, with copies of an earlier state and of another store."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "now" / "tables.db"
        self._earlier, self._other = folder / "earlier" / "tables.db", folder / "other" / "tables.db"

    def damage(self, file: str, kind: str, random: Random) -> None:
        """Damage one of the files."""
        places = [FILES[file](each) for each in (self.path, self._earlier, self._other)]
        if places[0].exists():
            DAMAGES[kind](places[0], places[1], places[2], random)


class Client:
    """A process with the store open. One that was killed by what it read has refused."""

    def __init__(self, path: Path) -> None:
        self._process = Process("tests.faults.stores.damaged_files_process", str(path))
        self.is_open = self._ask(None) == "open"

    def put(self, number: int) -> bool:
        """Write an item and return whether that was acknowledged."""
        return self.is_open and self._ask(f"put {number}") == "acknowledged"

    def read(self, numbers: list[int]) -> str:
        """Return what `read_items` does; nothing if the process refused to open the store."""
        return self._ask(f"read {' '.join(map(str, numbers))}") if self.is_open else ""

    def ask(self, command: str) -> None:
        if self.is_open:
            self._ask(command)

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
        self._process.close()

    def _ask(self, command: str | None) -> str:
        """Send a command and return the first word of the answer; nothing from a process that has ended."""
        try:
            if command is not None:
                self._process.send_line(command)
            answer = self._process.stdout.readline().split(" ")[0].strip()
        except OSError:
            answer = ""
        self.is_open = self.is_open and answer != "" if command else answer == "open"
        return answer


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return two folders for `Store`: one that was closed, and one whose process was killed."""
    closed, killed = tmp_path_factory.mktemp("closed"), tmp_path_factory.mktemp("killed")
    for name in ("now", "other"):
        (closed / name).mkdir()
        with create(str(closed / name / "tables.db")) as tables:
            for number in range(EARLY):
                tables.run_blocking(PutItem("Rows", build_item(number)))
    shutil.copytree(closed / "now", closed / "earlier")
    shutil.copytree(closed, killed, dirs_exist_ok=True)
    with open_tables(closed / "now" / "tables.db") as tables:
        for number in range(EARLY, ITEMS):
            tables.run_blocking(PutItem("Rows", build_item(number)))
    client = Client(killed / "now" / "tables.db")
    assert all(client.put(number) for number in range(EARLY, ITEMS))
    client.kill()
    client.close()
    return {"closed": closed, "killed": killed}


@pytest.fixture
def random(request: pytest.FixtureRequest, record_property: Callable[[str, object], None]) -> Random:
    record_property("seed", SEED)
    return Random(f"{SEED} {request.node.name}")


@pytest.mark.parametrize("kind", DAMAGES)
@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("state", ["closed", "killed"])
def test_store_that_is_not_in_use_is_right_or_refuses(
    templates: dict[str, Path], state: str, file: str, kind: str, tmp_path: Path, random: Random
) -> None:
    shutil.copytree(templates[state], tmp_path, dirs_exist_ok=True)
    store = Store(tmp_path)
    store.damage(file, kind, random)
    acknowledged = list(range(ITEMS))
    for _ in range(2):
        try:
            with open_tables(store.path) as tables:
                assert_right(read_items(tables, acknowledged))
                number = ITEMS + len(acknowledged)
                tables.run_blocking(PutItem("Rows", build_item(number)))
                acknowledged.append(number)
                assert_right(read_items(tables, acknowledged))
        except StoreFileError:
            continue


@pytest.mark.parametrize("kind", DAMAGES)
@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("ends", ["closed", "killed"] if SOAK else ["either"])
@pytest.mark.parametrize("has_log", [True, False] if SOAK else [None])
def test_store_in_use_by_processes_is_right_or_refuses(
    templates: dict[str, Path],
    has_log: bool | None,
    ends: str,
    file: str,
    kind: str,
    tmp_path: Path,
    random: Random,
) -> None:
    shutil.copytree(templates["closed"], tmp_path, dirs_exist_ok=True)
    store = Store(tmp_path)
    acknowledged = list(range(ITEMS))
    one = Client(store.path)
    acknowledged += [number for number in range(100, 110) if one.put(number)]
    if has_log is False or (has_log is None and random.random() < 0.5):
        one.ask("quiet")
    store.damage(file, kind, random)
    # A changed bit in the log is noticed when the log is moved into the file, a second after the last write.
    check = (lambda letters: None) if (file, kind) == ("log", "flipped") else assert_right
    if random.random() < 0.5:
        # A write brings the pages that it changes from the memory of its process.
        acknowledged += [number for number in (110,) if one.put(number)]
    check(one.read(acknowledged))
    other = Client(store.path)
    check(other.read(acknowledged))
    acknowledged += [number for number in (111,) if other.put(number)]
    check(one.read(acknowledged))
    acknowledged += [number for number in (112,) if one.put(number)]
    check(other.read(acknowledged))
    for client in (one, other):
        if ends == "killed" or (ends == "either" and random.random() < 0.5):
            client.kill()
        client.ask("close")
        client.close()
    last = Client(store.path)
    assert_right(last.read(acknowledged))
    last.close()


def assert_right(letters: str) -> None:
    """Check what `read_items` found."""
    assert MISSING not in letters, (SEED, letters)
    assert WRONG not in letters, (SEED, letters)


@pytest.mark.parametrize("kind", DAMAGES)
@pytest.mark.parametrize("file", ["database", "log", "marker"])
def test_queues_are_right_or_refuse(file: str, kind: str, tmp_path: Path, random: Random) -> None:
    for name in ("other", "now"):
        (tmp_path / name).mkdir()
        with open_queues(tmp_path / name / "tables.db") as queues:
            queues.run_blocking(CreateQueue(QueueDefinition(name="jobs")))
    shutil.copytree(tmp_path / "now", tmp_path / "earlier")
    store, bodies = Store(tmp_path), {f"job {number}" for number in range(8)}
    with open_queues(store.path) as queues:
        queues.run_blocking(SendMessages("jobs", tuple(OutgoingMessage(body=body) for body in bodies)))
    store.damage(file, kind, random)
    try:
        with open_queues(store.path) as queues:
            found = queues.run_blocking(ReceiveMessages("jobs", 10))
            if len(found) < len(bodies):
                queues.run_blocking(ReceiveMessages("jobs", 10))
                pytest.fail(f"{len(bodies) - len(found)} messages are missing, seed {SEED}")
            assert {each.body for each in found} == bodies
    except StoreFileError:
        return
