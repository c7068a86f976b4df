"""ListItemChanges and GetItemAt: what one item was, read from the change log of its table.

DynamoDB has neither: there a whole table is restored to a time. Both read a bounded part of the log; `next`
says where the rest begins.
"""

from __future__ import annotations

import msgspec

from holdfast.operations.tables.operation import Operation
from holdfast.operations.tables.streams import EventName
from holdfast.operations.values import Item


class ItemChange(msgspec.Struct, frozen=True):
    """One change of an item: the item before and after it, None where it did not exist.

    An image that the log does not have (a stream without it, or an erased one) is not `known`.
    """

    sequence_number: int
    event: EventName
    at: float
    by_service: bool
    before: Item | None
    after: Item | None
    is_before_known: bool = True
    is_after_known: bool = True


class ItemChanges(msgspec.Struct, frozen=True):
    """Changes of an item, newest first. `next` continues with older ones; None at the start of the log.

    `reached` is the time of the oldest record of the log that was examined; None for an empty log.
    """

    changes: tuple[ItemChange, ...]
    next: int | None = None
    reached: float | None = None


class ListItemChanges(Operation[ItemChanges], frozen=True):
    """Return the logged changes of an item, newest first. `start` is the previous page's `next`."""

    table: str
    key: Item
    start: int | None = None
    limit: int = 25


class ItemAt(msgspec.Struct, frozen=True):
    """An item as it was: None if it did not exist. `changed_at` is its first change since; None without one.

    With `next`, the log was not examined to its end, and nothing else is known yet. Without `is_known`, the
    image was erased from the log.
    """

    item: Item | None
    changed_at: float | None = None
    next: int | None = None
    is_known: bool = True


class GetItemAt(Operation[ItemAt], frozen=True):
    """Return an item as it was at a time, in epoch seconds. `start` is the previous result's `next`.

    Raise `RecoveryUnavailable` without point-in-time recovery, `InvalidRestoreTime` outside its window.
    """

    table: str
    key: Item
    at: float
    start: int | None = None
