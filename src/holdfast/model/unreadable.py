"""Items that their entity cannot read, left out and told, where one of them must not deny the answer to all others.

Reading an item that was written under another declaration raises ItemUnreadable, as a rule: nobody then takes part of
the data for all of it. Who can say in the answer what is missing reads inside `leaving_out_unreadable`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from holdfast.errors import ItemUnreadable
from holdfast.operations.values import Item


@dataclass(frozen=True)
class LeftOut:
    """An item as it is stored, and why it could not be read."""

    item: Item
    error: ItemUnreadable

    @property
    def table(self) -> str:
        return self.error.table

    def __str__(self) -> str:
        key = ", ".join(f"{name} {value}" for name, value in self.error.key.items())
        return f"{self.table}, {key}: {self.error.reason}"


_COLLECTING: ContextVar[list[LeftOut] | None] = ContextVar("left_out", default=None)


@contextmanager
def leaving_out_unreadable() -> Iterator[list[LeftOut]]:
    """Queries, scans and batches inside leave out what they cannot read, and it stands in the list.

    A single get still raises: there is nothing else that it could answer.
    """
    found: list[LeftOut] = []
    token = _COLLECTING.set(found)
    try:
        yield found
    finally:
        _COLLECTING.reset(token)


def leave_out(item: Item, error: ItemUnreadable) -> None:
    """Notes an item, or raises its error where nobody is prepared for it."""
    collecting = _COLLECTING.get()
    if collecting is None:
        raise error
    collecting.append(LeftOut(item, error))
