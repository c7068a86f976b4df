"""Deep check of the rows of a queues file: every definition and message is decoded, and counted by queue."""

from __future__ import annotations

from typing import Any

import apsw
import msgspec

from holdfast.operations.queues import QueueDefinition
from holdfast.stores.sqlite.file_check import FileContents


def check_messages(connection: apsw.Connection) -> FileContents:
    """Read every queue and message."""
    counts: dict[str, int] = {}
    damages: list[str] = []
    queues: list[Any] = connection.execute("SELECT name, lot, definition FROM queues").fetchall()
    for name, lot, definition in queues:
        if not _can_decode(definition, QueueDefinition):
            damages.append(f"the definition of queue {name}")
        counts[name] = 0
        for id, attributes in connection.execute("SELECT id, attributes FROM messages WHERE lot = ?", (lot,)):
            counts[name] += 1
            if not _can_decode(attributes, dict):
                damages.append(f"the message {id} of {name}")
    return FileContents(counts, tuple(damages))


def _can_decode(blob: bytes, kind: type) -> bool:
    try:
        msgspec.json.decode(blob, type=kind)
    except (msgspec.MsgspecError, TypeError):
        return False
    return True
