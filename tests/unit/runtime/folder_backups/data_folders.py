"""A small data folder with something in every store that needs no server, and what it contains."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from holdfast.config.settings import Settings
from holdfast.operations import queues, tables
from holdfast.operations.objects import BucketDefinition, CreateBucket, GetObject, ListObjects, PutObject
from holdfast.operations.tables import KeyAttribute, KeySchema, TableDefinition
from holdfast.security.ciphers import open_file_cipher
from holdfast.stores.objects.local import LocalObjects, open_local_objects
from holdfast.stores.queues.embedded import EmbeddedQueues, open_queues
from holdfast.stores.tables.embedded import EmbeddedTables, open_tables

TABLE = TableDefinition("Notes", (KeyAttribute("id", "S"),), KeySchema("id"))
QUEUE = "work"
BUCKET = "archive"
ITEMS, MESSAGES, OBJECTS = 20, 4, 3


def build_settings(data: Path) -> Settings:
    """Return settings whose stores are all in this folder."""
    return Settings().in_folder(data)


def open_notes(data: Path) -> EmbeddedTables:
    return open_tables(data / "tables.db")


def open_work(data: Path) -> EmbeddedQueues:
    return open_queues(data / "queues.db")


def open_archive(data: Path) -> LocalObjects:
    return open_local_objects(data / "objects", open_file_cipher(data / "keys.json"))


def put_note(notes: EmbeddedTables, number: int, text: str = "a note") -> None:
    notes.run_blocking(tables.PutItem("Notes", {"id": f"n-{number}", "text": text * 50}))


def fill(data: Path) -> None:
    """Write items, messages, one of them received, and objects into a new data folder."""
    data.mkdir()
    with open_notes(data) as notes:
        notes.run_blocking(tables.CreateTable(TABLE))
        for number in range(ITEMS):
            put_note(notes, number)
    with open_work(data) as work:
        work.run_blocking(queues.CreateQueue(queues.QueueDefinition(name=QUEUE)))
        sent = tuple(queues.OutgoingMessage(body=f"message {number}") for number in range(MESSAGES))
        work.run_blocking(queues.SendMessages(QUEUE, sent))
        assert work.run_blocking(queues.ReceiveMessages(QUEUE))
    asyncio.run(_fill_archive(data))


async def _fill_archive(data: Path) -> None:
    archive = open_archive(data)
    await archive.run(CreateBucket(BucketDefinition(name=BUCKET)))
    for number in range(OBJECTS):
        await archive.run(PutObject(BUCKET, f"pages/{number}", f"page {number}".encode() * 100))


def read_all(data: Path) -> dict[str, Any]:
    """Return every item, message and object of a data folder."""
    with open_notes(data) as notes:
        items = notes.run_blocking(tables.Scan("Notes")).items or []
    with open_work(data) as work:
        messages = work.run_blocking(queues.Browse(QUEUE))
    return {
        "items": sorted(items, key=lambda item: str(item["id"])),
        "messages": sorted(each.body for each in messages),
        "objects": asyncio.run(_read_archive(data)),
    }


async def _read_archive(data: Path) -> dict[str, bytes]:
    archive = open_archive(data)
    listed = (await archive.run(ListObjects(BUCKET))).objects
    return {each.key: (await archive.run(GetObject(BUCKET, each.key))).body for each in listed}
