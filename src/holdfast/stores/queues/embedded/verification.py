"""Verification of the messages of a queues file, for `holdfast doctor --deep` and backups."""

from __future__ import annotations

from typing import Any

import apsw
import msgspec

from holdfast.core.progress import Progress
from holdfast.stores.queues.embedded.storage import catalog, messages
from holdfast.stores.queues.embedded.storage.schema import SCHEMA
from holdfast.stores.sqlite.checksums import checksums_ignored
from holdfast.stores.sqlite.schema import is_blank
from holdfast.stores.sqlite.verification import damage_caught, open_snapshot, verify_file


def verify_queues(path: str, progress: Progress, *, is_in_use: bool = True) -> list[str]:
    """Return everything that is wrong with a queues file, one line each; nothing for a sound one."""
    return verify_file(path, SCHEMA, _verify_messages, progress, is_in_use=is_in_use)


def count_messages(path: str) -> dict[str, int]:
    """Return the number of messages of each queue in a file that no process uses."""
    with open_snapshot(path, SCHEMA, is_in_use=False) as connection:
        if is_blank(connection):
            return {}
        rows: list[Any] = connection.execute(
            "SELECT name, (SELECT count(*) FROM messages WHERE messages.lot = queues.lot) FROM queues"
        ).fetchall()
        return dict(rows)


def _verify_messages(connection: apsw.Connection, progress: Progress) -> list[str]:
    """Compare each message with its checksum."""
    problems: list[str] = []
    # A file of an older version has no checksums yet: it gets them at its next start.
    if connection.pragma("user_version") < SCHEMA.version:
        return problems
    with damage_caught(problems, "the catalog of the queues"):
        for name in catalog.list_names(connection, ""):
            try:
                queue = catalog.get_queue(connection, name)
            except msgspec.MsgspecError as error:
                problems.append(f"the definition of the queue {name} is unreadable ({error})")
                continue
            with damage_caught(problems, f"a message of the queue {name}, in an index,"):
                problems += _verify_queue(connection, queue, progress)
    return problems


def _verify_queue(connection: apsw.Connection, queue: catalog.QueueRow, progress: Progress) -> list[str]:
    """Find the messages of a queue in an index with verified pages, and read each by itself."""
    rows: list[Any] = connection.execute(
        "SELECT place FROM messages INDEXED BY messages_age WHERE lot = ? ORDER BY sent_at", (queue.lot,)
    ).fetchall()
    places: list[int] = [place for (place,) in rows]
    with checksums_ignored(connection):
        damaged = messages.find_damaged(connection, places)
    progress(f"{queue.name} (messages)", len(places), len(places))
    return [f"the message {place} of the queue {queue.name} is damaged" for place in damaged]
