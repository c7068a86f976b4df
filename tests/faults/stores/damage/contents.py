"""What the tests write into the stores of a data folder, and whether the stores still return it.

Every store has the same numbers: an item, a message and an object for each. A read returns one letter for
each number, the worst that any way to read it shows, and the errors.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from holdfast.config.settings import Settings
from holdfast.core.clock import SYSTEM_CLOCK
from holdfast.core.errors import HoldfastError, InternalError, NotFound
from holdfast.operations.expressions.key_conditions import KeyTest
from holdfast.operations.objects import (
    BucketDefinition,
    CreateBucket,
    GetObject,
    ListObjects,
    PutObject,
)
from holdfast.operations.queues import (
    Browse,
    ChangeVisibility,
    CreateQueue,
    OutgoingMessage,
    QueueDefinition,
    ReceiveMessages,
    SendMessages,
)
from holdfast.operations.tables import (
    CreateTable,
    GetItem,
    IndexDefinition,
    IndexProjection,
    KeyAttribute,
    KeySchema,
    PutItem,
    Query,
    TableDefinition,
)
from holdfast.operations.values import Item
from holdfast.runtime.factory import open_objects_engine, open_queues_engine, open_tables_engine

RIGHT, REFUSED, MISSING, WRONG = "rxMW"
_RANKS: Final = (RIGHT, REFUSED, MISSING, WRONG)
# The places of damaged messages, in an error.
_PLACES: Final = re.compile(r"^Messages? ([0-9, ]+) of the queue")
STORES: Final = ("tables", "queues", "objects")
TABLE: Final = TableDefinition(
    "Rows",
    (KeyAttribute("pk", "S"), KeyAttribute("sk", "N"), KeyAttribute("colour", "S")),
    KeySchema("pk", "sk"),
    global_indexes=(IndexDefinition("by-colour", KeySchema("colour", "sk"), IndexProjection()),),
)
QUEUE: Final = QueueDefinition(name="jobs")
BUCKET: Final = BucketDefinition(name="files")


def build_item(number: int) -> Item:
    return {"pk": "one", "sk": number, "colour": "red", "text": f"<{number:05d}>" * 60}


def build_body(number: int) -> str:
    return f"message {number} " * 20


def _is_whole(body: str) -> bool:
    """Return whether a body is that of any number. A send that was not acknowledged may have been stored."""
    found = re.match(r"message (\d+) ", body)
    return found is not None and body == build_body(int(found[1]))


def build_key(number: int) -> str:
    return f"letters/{number}"


def build_object(number: int) -> bytes:
    return b"object %d " % number * 20


class Folder:
    """The open stores of a data folder. One that refused to open refuses everything, with the same error."""

    def __init__(self, path: Path) -> None:
        self._settings = make_settings(path)
        self._engines: dict[str, Any] = {}
        self._refusals: dict[str, HoldfastError] = {}
        self.open()

    def open(self) -> None:
        """Open the stores."""
        openers: dict[str, Callable[..., Any]] = {
            "tables": open_tables_engine,
            "queues": open_queues_engine,
            "objects": open_objects_engine,
        }
        for store, open_engine in openers.items():
            try:
                self._engines[store] = open_engine(self._settings, SYSTEM_CLOCK)
            except HoldfastError as error:
                self._refusals[store] = error

    def run(self, store: str, operation: Any) -> Any:
        if store in self._refusals:
            raise self._refusals[store]
        return asyncio.run(self._engines[store].run(operation))

    def create(self) -> None:
        """Create the table, the queue and the bucket."""
        self.run("tables", CreateTable(TABLE))
        self.run("queues", CreateQueue(QUEUE))
        self.run("objects", CreateBucket(BUCKET))

    def put(self, store: str, number: int) -> None:
        """Write the item, the message or the object of a number. Raise if that was not acknowledged."""
        match store:
            case "tables":
                self.run(store, PutItem("Rows", build_item(number)))
            case "queues":
                self.run(store, SendMessages("jobs", (OutgoingMessage(body=build_body(number)),)))
            case "objects":
                put = PutObject(bucket="files", key=build_key(number), body=build_object(number))
                self.run(store, put)

    def read(self, store: str, numbers: Sequence[int]) -> tuple[str, list[str]]:
        """Return a letter for each number, and the errors."""
        readers = {"tables": self._read_items, "queues": self._read_messages, "objects": self._read_objects}
        reading = Reading(numbers)
        readers[store](reading)
        return "".join(reading.found.values()), reading.errors

    def move_logs(self) -> None:
        """Move the logs of tables and queues into their files, as after a quiet moment."""
        for store in ("tables", "queues"):
            if store not in self._refusals:
                self._engines[store].database.compact(rewrite=False)

    def close(self) -> None:
        for engine in self._engines.values():
            engine.close()

    def _read_items(self, reading: Reading) -> None:
        for number in reading.found:
            with reading.errors_noted([number]):
                found = self.run("tables", GetItem("Rows", {"pk": "one", "sk": number})).item
                reading.judge(number, found, build_item(number))
        for condition, index in (
            (KeyTest("pk", "=", ("one",)), None),
            (KeyTest("colour", "=", ("red",)), "by-colour"),
        ):
            with reading.errors_noted():
                items = {item["sk"]: item for item in self._query(condition, index)}
                for number in reading.found:
                    reading.judge(number, items.get(number), build_item(number))

    def _query(self, condition: KeyTest, index: str | None) -> Iterator[Item]:
        start: Item | None = None
        while True:
            page = self.run("tables", Query("Rows", (condition,), index, start_key=start))
            yield from page.items or []
            start = page.last_key
            if start is None:
                return

    def _read_messages(self, reading: Reading) -> None:
        """Receive all messages and release them again; look at those that another process has received.

        Damaged messages are left out as long as others are due, then their places are named.
        """
        bodies: list[str] = []
        receipts: list[str] = []
        named = 0
        try:
            while received := self.run("queues", ReceiveMessages("jobs", 10, visibility_s=3600.0)):
                bodies += [each.body for each in received]
                receipts += [each.receipt for each in received]
        except HoldfastError as error:
            places = _PLACES.search(error.message)
            named = len(reading.found) if places is None else len(places.group(1).split(", "))
            reading.note(error)
        with reading.errors_noted():
            self._release(receipts)
            bodies += [each.body for each in self.run("queues", Browse("jobs", 1000))]
        expected = {build_body(number): number for number in reading.found}
        absent = expected.keys() - set(bodies)
        for body in absent:
            reading.raise_to(expected[body], REFUSED if len(absent) <= named else MISSING)
        if not all(map(_is_whole, bodies)):
            reading.raise_to(next(iter(reading.found)), WRONG)

    def _release(self, receipts: list[str]) -> None:
        for start in range(0, len(receipts), 10):
            self.run("queues", ChangeVisibility("jobs", tuple(receipts[start : start + 10]), 0.0))

    def _read_objects(self, reading: Reading) -> None:
        for number in reading.found:
            with reading.errors_noted([number]):
                try:
                    found = self.run("objects", GetObject("files", build_key(number))).body
                except NotFound:
                    found = None
                reading.judge(number, found, build_object(number))
        with reading.errors_noted():
            page = self.run("objects", ListObjects("files", count=1000))
            keys = {each.key for each in page.objects}
            for number in reading.found:
                if build_key(number) not in keys:
                    reading.raise_to(number, MISSING)


class Reading:
    """What one read of a store found: a letter for each number, the worst, and the errors."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self.found = dict.fromkeys(numbers, RIGHT)
        self.errors: list[str] = []

    def judge(self, number: int, found: object, expected: object) -> None:
        """Note what was found under a number."""
        self.raise_to(number, MISSING if found is None else RIGHT if found == expected else WRONG)

    def raise_to(self, number: int, letter: str) -> None:
        self.found[number] = max(self.found[number], letter, key=_RANKS.index)

    def note(self, error: HoldfastError) -> None:
        """Note a refusal. Raise it if it blames Holdfast itself."""
        if isinstance(error, InternalError):
            raise error
        if error.message not in self.errors:
            self.errors.append(error.message)

    @contextmanager
    def errors_noted(self, numbers: Sequence[int] = ()) -> Iterator[None]:
        """Note a refusal of the block, of these numbers."""
        try:
            yield
        except HoldfastError as error:
            self.note(error)
            for number in numbers:
                self.raise_to(number, REFUSED)


def make_settings(path: Path) -> Settings:
    """Return the settings of a data folder."""
    return Settings().in_folder(path)
