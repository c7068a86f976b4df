"""Rows as they lie in the tables: read page by page, moved one by one, and summed up.

Read raw, because a row that its entity cannot read must be reported with its key, and not end the page it is on.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final, Generic, TypeAlias, TypeVar

import msgspec

from holdfast.errors import DeclarationError, HoldfastError
from holdfast.guarantees.migration.declaration import Migration
from holdfast.model import Entity, declaration_of
from holdfast.operations import numbers
from holdfast.operations import tables as requests
from holdfast.operations.tables.page import PageResult
from holdfast.operations.values import Item, Value, ordered, type_of
from holdfast.runtime import Stores

S = TypeVar("S", bound=Entity)
T = TypeVar("T", bound=Entity)

Address: TypeAlias = tuple[tuple[str, Value], ...]
# Awaited between pages: keeps the lease, or does nothing.
Pulse: TypeAlias = Callable[[], Awaitable[None]]

DIGEST_BYTES: Final = 16


async def no_pulse() -> None:
    """Nobody needs a sign of life."""


async def each_item(stores: Stores, entity: type[Entity], pulse: Pulse = no_pulse) -> AsyncIterator[Item]:
    """Every item of an entity's table."""
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
    table = declaration_of(entity).table
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
class Row(Generic[S, T]):
    """A row of the source, and what becomes of it."""

    key: Address
    version: int | None
    source: S
    target: T
    target_item: Item
    target_key: Address


def row_of(migration: Migration[S, T], item: Item) -> Row[S, T]:
    """A row moved; what the source's declaration does not know goes with it. DeclarationError if it cannot be."""
    key = address_of(migration.source, item)
    try:
        source = migration.source.from_item(item)
        target = migration.transform(source)
        declared = declaration_of(migration.target).by_stored_name
        kept = {name: value for name, value in source.unknown_attributes.items() if name not in declared}
        if kept:
            target.keep_unknown(kept)
        moved = target.to_item()
    except Exception as error:
        reason = error.message if isinstance(error, HoldfastError) else f"{type(error).__name__}: {error}"
        raise DeclarationError(
            f"The row {told(key)} of {migration.source.__name__} cannot be moved: {reason}"
        ) from error
    version = item.get(migration.version.attribute.stored)
    return Row(
        key,
        version if isinstance(version, int) else None,
        source,
        target,
        moved,
        address_of(migration.target, moved),
    )


def address_of(entity: type[Entity], item: Item) -> Address:
    return tuple(declaration_of(entity).key_of(item).items())


def told(address: Address) -> str:
    """A key as people read it."""
    return ", ".join(
        f"{name} = {value if isinstance(value, str) else repr(value)}" for name, value in address
    )


def digest(item: Item) -> int:
    """A number for an item's content: the same for the same attributes, in whatever order they come."""
    text = msgspec.json.encode(_tagged(item), order="deterministic")
    return int.from_bytes(blake2b(text, digest_size=DIGEST_BYTES).digest())


def checksum(total: int) -> str:
    """The sum of digests as it is kept: the order of the rows does not count, each row does, also the second of two."""
    return f"{total % 2 ** (8 * DIGEST_BYTES):0{2 * DIGEST_BYTES}x}"


def _tagged(value: Value) -> Any:
    """A value with its type, so that no two values look alike: text is the only one that goes without."""
    return value if isinstance(value, str) else [type_of(value), _plain(value)]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _tagged(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_tagged(inner) for inner in value]
    if isinstance(value, frozenset):
        return [_plain(element) for element in ordered(value)]
    if isinstance(value, bytes):
        return value.hex()
    return value if isinstance(value, (bool, str)) or value is None else numbers.text(value)
