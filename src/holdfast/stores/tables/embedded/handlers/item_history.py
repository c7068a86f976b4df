"""Handlers of ListItemChanges and GetItemAt in the embedded engine.

An item at a time is what its first later change replaced, or what it is now. The change log has no index by
item, so each request examines a bounded span of it.
"""

from __future__ import annotations

from typing import Final

from holdfast.core.errors import InvalidRequest
from holdfast.operations.tables import GetItemAt, ItemAt, ItemChange, ItemChanges, ListItemChanges
from holdfast.operations.tables.streams import EventName
from holdfast.operations.values import Item
from holdfast.stores.tables.embedded.handlers.recovery import require_recoverable
from holdfast.stores.tables.embedded.storage import codec, counts, log_records, streams
from holdfast.stores.tables.embedded.storage.log_records import ItemLogRecord
from holdfast.stores.tables.embedded.storage.reader import Reader, read_item_in_snapshot
from holdfast.stores.tables.embedded.table import KeyBytes, Table
from holdfast.stores.tables.embedded.validate.keys import validate_key

# Examined in 20 to 100 ms, by the size of the records.
MAX_EXAMINED_CHANGES: Final = 50_000
MAX_LISTED_CHANGES: Final = 100

_EVENTS: Final[tuple[EventName, ...]] = ("INSERT", "MODIFY", "REMOVE")


def get_item_at(operation: GetItemAt, reader: Reader) -> ItemAt:
    """Find the first change after the time; without one, the item is as it was."""
    table = reader.get_table(operation.table)
    record = table.record
    require_recoverable(record, operation.at, reader.now)
    key_bytes = validate_key(table, operation.key)
    last = counts.read_last_sequence(reader.connection, table.number)
    first = operation.start
    if first is None:
        found = streams.find_first_after(reader.connection, table.number, int(operation.at * 1000), last)
        first = max(found, record.recovery_from)
    until = min(last, first + MAX_EXAMINED_CHANGES - 1)
    changes = log_records.read_of_item(reader.connection, table.number, key_bytes, (first, until), 1)
    if changes:
        change = changes[0]
        return ItemAt(_decode(change.old), change.at_ms / 1000, is_known=_has_before(change))
    if until < last:
        return ItemAt(None, next=until + 1)
    return ItemAt(read_item_in_snapshot(reader, table, key_bytes)[0])


def list_item_changes(operation: ListItemChanges, reader: Reader) -> ItemChanges:
    """Return a page of the item's changes, newest first. Raise `InvalidRequest` for an invalid limit."""
    if not 1 <= operation.limit <= MAX_LISTED_CHANGES:
        raise InvalidRequest(
            f"Invalid limit {operation.limit} of ListItemChanges: expected 1 to {MAX_LISTED_CHANGES}."
        )
    table = reader.get_table(operation.table)
    key_bytes = validate_key(table, operation.key)
    last = counts.read_last_sequence(reader.connection, table.number)
    newest = last if operation.start is None else min(last, operation.start)
    oldest = max(1, newest - MAX_EXAMINED_CHANGES + 1)
    found = log_records.read_of_item(
        reader.connection, table.number, key_bytes, (oldest, newest), operation.limit, newest_first=True
    )
    reached = found[-1].seq if len(found) == operation.limit else oldest
    position = log_records.read_first(reader.connection, table.number, reached)
    begin = log_records.read_first(reader.connection, table.number, 1)
    is_start = position is None or begin is None or reached <= begin[0]
    return ItemChanges(
        _build_changes(found, _find_after(table, key_bytes, newest, last, reader)),
        None if is_start else reached - 1,
        None if position is None else position[1] / 1000,
    )


def _find_after(
    table: Table, key_bytes: KeyBytes, newest: int, last: int, reader: Reader
) -> tuple[Item | None, bool]:
    """Return the item after the newest change of the page, and whether that is known: it is the current item,
    unless newer changes were on earlier pages.
    """
    span = (newest + 1, min(last, newest + MAX_EXAMINED_CHANGES))
    newer = log_records.read_of_item(reader.connection, table.number, key_bytes, span, 1)
    if newer:
        return _decode(newer[0].old), _has_before(newer[0])
    if span[1] < last:
        return None, False
    return read_item_in_snapshot(reader, table, key_bytes)[0], True


def _build_changes(found: list[ItemLogRecord], latest: tuple[Item | None, bool]) -> tuple[ItemChange, ...]:
    """Return the changes, each with the item before and after it. `latest` is the item after the first."""
    changes: list[ItemChange] = []
    after, is_after_known = latest
    for each in found:
        if each.new is not None:
            after, is_after_known = codec.decode(each.new), True
        elif _EVENTS[each.event] == "REMOVE":
            after, is_after_known = None, True
        before, is_before_known = _decode(each.old), _has_before(each)
        changes.append(
            ItemChange(
                each.seq,
                _EVENTS[each.event],
                each.at_ms / 1000,
                bool(each.by_service),
                before,
                after,
                is_before_known,
                is_after_known,
            )
        )
        after, is_after_known = before, is_before_known
    return tuple(changes)


def _has_before(change: ItemLogRecord) -> bool:
    """Return whether the log says what the item was before the change. Erased images are gone."""
    return change.old is not None or _EVENTS[change.event] == "INSERT"


def _decode(image: bytes | None) -> Item | None:
    return None if image is None else codec.decode(image)
