"""Stored data of every version: the current code knows every attribute, member and field in it."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.operations.objects import BucketDefinition, ObjectInfo
from holdfast.operations.queues import QueueDefinition
from holdfast.security.ciphers import KeyFile
from holdfast.stores.queues.embedded import EmbeddedQueues
from holdfast.stores.tables.embedded.records import BackupRecord, Job, StreamRecord, TableRecord
from tests.corpus.contents import find_unknown_attributes, find_unknown_members, find_unused_attributes

from . import moves
from .conftest import Library
from .system import SYSTEM

pytestmark = pytest.mark.anyio

TABLES = (*SYSTEM.tables, *moves.TARGETS)
# An object's file: eight magic bytes, the length and the checksum of its attributes, the attributes.
OBJECT_HEAD = struct.Struct(">8sII")
# Attributes that were added after the latest archive was written. Empty the list with the next archive.
ADDED_ATTRIBUTES = [
    *("EffectRecord.lease_s", "Letter.heldSince", "Letter.leaseS", "LeaseItem.lease_s"),
    *("MigrationWork.lease_s", "Trip.flow_history", "Execution.due_set_at"),
]


async def test_every_attribute_of_every_item_is_known(library: Library) -> None:
    unknown = await find_unknown_attributes(library.stores, TABLES)

    # One trip was spoilt on purpose.
    assert [each for each in unknown if not each.startswith("Trips: unreadable: version")] == []
    assert len(unknown) == 1


async def test_the_archive_has_every_attribute_at_least_once(library: Library) -> None:
    if not library.is_latest:
        pytest.skip("only for the latest archive: an older one lacks attributes that were added later")

    assert await find_unused_attributes(library.stores, TABLES) == ADDED_ATTRIBUTES


@pytest.mark.parametrize(
    ("table", "kind"),
    [("tables", TableRecord), ("streams", StreamRecord), ("backups", BackupRecord), ("jobs", Job)],
    ids=["tables", "streams", "backups", "jobs"],
)
async def test_every_field_of_the_catalog_is_known(library: Library, table: str, kind: Any) -> None:
    with library.tables.database.snapshot() as connection:
        records = [record for (record,) in connection.execute(f"SELECT record FROM {table}")]

    assert records
    for record in records:
        understood = msgspec.msgpack.encode(msgspec.msgpack.decode(record, type=kind))
        stored = msgspec.msgpack.decode(record)
        assert list(find_unknown_members(stored, msgspec.msgpack.decode(understood))) == []


async def test_every_field_of_queues_buckets_objects_and_keys_is_known(library: Library) -> None:
    for kind, record in _load_documents(library):
        understood = msgspec.json.encode(msgspec.json.decode(record, type=kind))
        assert list(find_unknown_members(msgspec.json.decode(record), msgspec.json.decode(understood))) == []


def _load_documents(library: Library) -> Iterator[tuple[Any, bytes]]:
    """Yield each stored JSON document of queues, keys, objects and buckets, with its class."""
    queues = library.stores.engines.get("queues")
    assert isinstance(queues, EmbeddedQueues)
    with queues.database.snapshot() as connection:
        for (definition,) in connection.execute("SELECT definition FROM queues"):
            yield QueueDefinition, definition
    yield KeyFile, (library.folder / "keys.json").read_bytes()
    for path in (library.folder / "objects").rglob("*"):
        if path.name.endswith("@"):
            yield ObjectInfo, _read_attributes(path)
        elif path.suffix == ".json":
            yield BucketDefinition, path.read_bytes()


def _read_attributes(path: Path) -> bytes:
    """Return the JSON of an object's attributes from its file."""
    content = path.read_bytes()
    _, length, _ = OBJECT_HEAD.unpack_from(content)
    return content[OBJECT_HEAD.size : OBJECT_HEAD.size + length]
