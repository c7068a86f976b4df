"""Parcels that travel through every store, as systems do it with an outbox, and what must hold at any moment.

A sender puts a document, writes the parcel that names it, sends a message, and notes that it was sent. A
receiver writes that the parcel is done, takes the document's name off the parcel, deletes the document, and
deletes the message. With SQL, a second message is announced by a row and recorded by another row.

At any moment, as a power failure would leave it: a named document exists, and what was sent is on its way or
done.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from holdfast.operations import queues, tables
from holdfast.operations.objects import (
    BucketDefinition,
    CreateBucket,
    DeleteObject,
    GetObject,
    ListObjects,
    PutObject,
)
from holdfast.operations.sql import Statement
from holdfast.operations.tables import KeyAttribute, KeySchema, TableDefinition
from holdfast.security.ciphers import open_file_cipher
from holdfast.stores.objects.local import open_local_objects
from holdfast.stores.queues.embedded import open_queues
from holdfast.stores.sql.postgres import open_embedded_postgres
from holdfast.stores.tables.embedded import open_tables
from tests.sqlite_files import open_file

QUEUE, BUCKET = "parcels", "documents"
BY_SQL = "sql:"
CREATE_SQL = (
    "CREATE TABLE parcels (id text PRIMARY KEY, sent bool NOT NULL)",
    "CREATE TABLE done (id text PRIMARY KEY)",
)


class Depot:
    """The stores of a data folder, with or without SQL."""

    def __init__(self, data: Path, *, with_sql: bool) -> None:
        data.mkdir(exist_ok=True)
        self.data = data
        self.tables = open_tables(data / "tables.db")
        self.queues = open_queues(data / "queues.db")
        self.objects = open_local_objects(data / "objects", open_file_cipher(data / "keys.json"))
        self.sql = open_embedded_postgres(data / "postgres") if with_sql else None

    async def create(self) -> None:
        """Create the tables, the queue, the bucket and the SQL tables."""
        for name in ("Parcels", "Sent", "Done"):
            definition = TableDefinition(name, (KeyAttribute("id", "S"),), KeySchema("id"))
            await self.tables.run(tables.CreateTable(definition))
        await self.queues.run(queues.CreateQueue(queues.QueueDefinition(name=QUEUE)))
        await self.objects.run(CreateBucket(BucketDefinition(name=BUCKET)))
        for text in CREATE_SQL if self.sql else ():
            await self._run_sql(text)

    async def send(self, id: str) -> None:
        """Take one parcel from its document to its messages."""
        await self.objects.run(PutObject(BUCKET, id, build_body(id), create_only=True))
        await self._put("Parcels", {"id": id, "document": True})
        await self._send_message(id)
        await self._put("Sent", {"id": id})
        if self.sql is not None:
            await self._run_sql("INSERT INTO parcels VALUES (%(id)s, false)", id)
            await self._send_message(BY_SQL + id)
            await self._run_sql("UPDATE parcels SET sent = true WHERE id = %(id)s", id)

    async def receive(self) -> int:
        """Finish the parcels of some messages and return how many there were."""
        messages = await self.queues.run(queues.ReceiveMessages(QUEUE, count=10, wait_s=1))
        for message in messages:
            if message.body.startswith(BY_SQL):
                await self._run_sql("INSERT INTO done VALUES (%(id)s) ON CONFLICT DO NOTHING", message.body)
            else:
                await self._finish(message.body)
            await self.queues.run(queues.DeleteMessages(QUEUE, (message.receipt,)))
        return len(messages)

    async def close(self) -> None:
        self.tables.close()
        self.queues.close()
        if self.sql is not None:
            self.sql.close()

    async def read_all(self) -> dict[str, Any]:
        """Return everything that is stored: items, messages, objects and rows."""
        keys = [each async for each in self._list_objects()]
        stored: dict[str, Any] = {
            "parcels": {item["id"]: item["document"] for item in self._scan("Parcels")},
            "sent": {item["id"] for item in self._scan("Sent")},
            "done": {item["id"] for item in self._scan("Done")},
            "messages": _read_messages(self.data),
            "objects": {key: (await self.objects.run(GetObject(BUCKET, key))).body for key in keys},
        }
        if self.sql is not None:
            stored["sql_parcels"] = {
                row["id"]: row["sent"] for row in await self._fetch("SELECT * FROM parcels")
            }
            stored["sql_done"] = {row["id"] for row in await self._fetch("SELECT * FROM done")}
        return stored

    async def _finish(self, id: str) -> None:
        await self._put("Done", {"id": id})
        await self._put("Parcels", {"id": id, "document": False})
        await self.objects.run(DeleteObject(BUCKET, id))

    async def _put(self, table: str, item: dict[str, Any]) -> None:
        await self.tables.run(tables.PutItem(table, item))

    async def _send_message(self, body: str) -> None:
        await self.queues.run(queues.SendMessages(QUEUE, (queues.OutgoingMessage(body=body),)))

    async def _run_sql(self, text: str, id: str = "") -> None:
        assert self.sql is not None
        parameters = {"id": id} if "%(id)s" in text else {}
        await self.sql.run(Statement(text=text, parameters=parameters, writes=True))

    async def _fetch(self, text: str) -> Any:
        assert self.sql is not None
        return (await self.sql.run(Statement(text=text))).rows

    def _scan(self, table: str) -> Iterator[dict[str, Any]]:
        after = None
        while True:
            page = self.tables.run_blocking(tables.Scan(table, start_key=after))
            yield from page.items or []
            after = page.last_key
            if after is None:
                return

    async def _list_objects(self) -> AsyncIterator[str]:
        cursor = None
        while True:
            page = await self.objects.run(ListObjects(BUCKET, cursor=cursor))
            for each in page.objects:
                yield each.key
            cursor = page.cursor
            if cursor is None:
                return


def _read_messages(data: Path) -> list[str]:
    connection = open_file(data / "queues.db")
    bodies = [str(body) for (body,) in connection.execute("SELECT body FROM messages ORDER BY place")]
    connection.close()
    return bodies


def build_body(id: str) -> bytes:
    """Return a document of which any part shows whether it belongs to the rest."""
    return hashlib.sha256(id.encode()).digest() * 64


def check_consistency(stored: dict[str, Any]) -> None:
    """Check what must hold at any moment."""
    on_the_way = set(stored["messages"])
    named = {id for id, has_document in stored["parcels"].items() if has_document}
    assert named - stored["objects"].keys() == set(), "Documents are missing."
    assert all(body == build_body(id) for id, body in stored["objects"].items())
    assert stored["sent"] - on_the_way - stored["done"] == set(), "Messages are lost."
    assert stored["done"] | stored["sent"] <= stored["parcels"].keys()
    sent_by_sql = {BY_SQL + id for id, is_sent in stored.get("sql_parcels", {}).items() if is_sent}
    assert sent_by_sql - on_the_way - stored.get("sql_done", set()) == set(), "Messages of SQL are lost."
