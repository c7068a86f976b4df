"""`skip_unreadable`: lets a block skip and collect stored items that their entity cannot decode.

Reading an item that was written under another declaration normally raises ItemUnreadable, so that partial
data is never taken for all of it. Callers that can report what is missing read inside `skip_unreadable`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from holdfast.core.errors import ItemUnreadable
from holdfast.operations.values import Item


@dataclass(frozen=True)
class SkippedItem:
    """A skipped item as it is stored, and why it could not be decoded."""

    item: Item
    error: ItemUnreadable

    @property
    def table(self) -> str:
        return self.error.table

    def __str__(self) -> str:
        key = ", ".join(f"{name} {value}" for name, value in self.error.key.items())
        return f"{self.table}, {key}: {self.error.reason}"


_SKIPPED: ContextVar[list[SkippedItem] | None] = ContextVar("skipped_items", default=None)


@contextmanager
def skip_unreadable() -> Iterator[list[SkippedItem]]:
    """Skip unreadable items in queries, scans and batches inside the `with`, and collect them in the list.

    A single get still raises: it has nothing else to return.
    """
    found: list[SkippedItem] = []
    token = _SKIPPED.set(found)
    try:
        yield found
    finally:
        _SKIPPED.reset(token)


def skip_or_raise(item: Item, error: ItemUnreadable) -> None:
    """Collect an unreadable item, or raise its error outside `skip_unreadable`."""
    collecting = _SKIPPED.get()
    if collecting is None:
        raise error
    collecting.append(SkippedItem(item, error))
