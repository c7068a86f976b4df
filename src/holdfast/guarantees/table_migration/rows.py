"""Rows of a migration: stored items, read page by page, transformed into target rows, and digested.

Items are read raw, because a row that its entity cannot parse must be reported with its key, and not end its
page.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final, Generic, TypeAlias, TypeVar

import msgspec

from holdfast.core.errors import DeclarationError, HoldfastError
from holdfast.guarantees.table_migration.declaration import Migration
from holdfast.model.entities import Entity, get_declaration
from holdfast.operations import numbers
from holdfast.operations import tables as requests
from holdfast.operations.tables.page import PageResult
from holdfast.operations.values import Item, Value, get_type_tag, sort_elements
from holdfast.runtime import Stores

S = TypeVar("S", bound=Entity)
T = TypeVar("T", bound=Entity)

RowKey: TypeAlias = tuple[tuple[str, Value], ...]
# Awaited between pages: renews the lease, or does nothing.
Pulse: TypeAlias = Callable[[], Awaitable[None]]

DIGEST_BYTES: Final = 16


async def skip_pulse() -> None:
    """Do nothing: no lease to renew."""


async def iterate_items(
    stores: Stores, entity: type[Entity], pulse: Pulse = skip_pulse
) -> AsyncIterator[Item]:
    """Yield every item of an entity's table that has not expired; await `pulse` after each page."""
    start: Item | None = None
    while True:
        page = await read_page(stores, entity, start=start)
        for item in page.items or ():
            yield item
        start = page.last_key
        if start is None:
            return
        await pulse()


async def read_page(stores: Stores, entity: type[Entity], **members: Any) -> PageResult:
    """Read one page of the entity's table consistently, after the key `start`.

    `members` are those of `Scan`.
    """
    table = get_declaration(entity).table
    start = members.pop("start", None)
    return await stores.tables.run(
        requests.Scan(
            stores.physical_name(table),
            start_key=start,
            consistent=True,
            hide_expired=table.ttl is not None,
            **members,
        )
    )


@dataclass(frozen=True)
class SourceRow(Generic[S, T]):
    """A row of the source, and the target row that it becomes."""

    key: RowKey
    version: int | None
    source: S
    target: T
    target_item: Item
    target_key: RowKey


def move_row(migration: Migration[S, T], item: Item) -> SourceRow[S, T]:
    """Transform a source item into its target row. Attributes unknown to the source's declaration are kept.

    Raises `DeclarationError` with the row's key if that fails for any reason.
    """
    key = get_row_key(migration.source, item)
    try:
        source = migration.source.from_item(item)
        target = migration.transform(source)
        declared = get_declaration(migration.target).by_stored_name
        kept = {name: value for name, value in source.unknown_attributes.items() if name not in declared}
        if kept:
            target.keep_unknown(kept)
        moved = target.to_item()
    except Exception as error:
        reason = error.message if isinstance(error, HoldfastError) else f"{type(error).__name__}: {error}"
        raise DeclarationError(
            f"The row {format_row_key(key)} of {migration.source.__name__} cannot be moved: {reason}"
        ) from error
    version = item.get(migration.version.attribute.stored_name)
    return SourceRow(
        key,
        version if isinstance(version, int) else None,
        source,
        target,
        moved,
        get_row_key(migration.target, moved),
    )


def get_row_key(entity: type[Entity], item: Item) -> RowKey:
    """Return the names and values of the item's key."""
    return tuple(get_declaration(entity).extract_key(item).items())


def format_row_key(address: RowKey) -> str:
    """Format a key for people."""
    return ", ".join(
        f"{name} = {value if isinstance(value, str) else repr(value)}" for name, value in address
    )


def compute_digest(item: Item) -> int:
    """Return a 128-bit number for an item's content, independent of the order of its attributes."""
    text = msgspec.json.encode(_tag(item), order="deterministic")
    return int.from_bytes(blake2b(text, digest_size=DIGEST_BYTES).digest())


def format_checksum(total: int) -> str:
    """Return the sum of digests in hex: independent of the order of rows, but duplicates count."""
    return f"{total % 2 ** (8 * DIGEST_BYTES):0{2 * DIGEST_BYTES}x}"


def _tag(value: Value) -> Any:
    """Return a value with its type, so that no two different values are equal; only text has no tag."""
    return value if isinstance(value, str) else [get_type_tag(value), _to_plain(value)]


def _to_plain(value: Any) -> Any:
    """Return a value in a form that JSON can hold, the same for equal values."""
    if isinstance(value, dict):
        return {name: _tag(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_tag(inner) for inner in value]
    if isinstance(value, frozenset):
        return [_to_plain(element) for element in sort_elements(value)]
    if isinstance(value, bytes):
        return value.hex()
    return value if isinstance(value, (bool, str)) or value is None else numbers.to_text(value)
