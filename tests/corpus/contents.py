"""Find stored data that the current code does not know: a renamed attribute or field shows up here.

A missing attribute has its default, and a struct ignores members that it does not know. So a rename can lose
data without an error; these functions check every item and every record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from holdfast import Entity, Stores, Table
from holdfast.core.errors import ItemUnreadable
from holdfast.model.entities import get_declaration
from holdfast.operations.tables import Scan
from holdfast.operations.values import Item


async def read_items(stores: Stores, table: Table) -> list[Item]:
    """Return every item of a table as it is stored, including expired ones."""
    found: list[Item] = []
    start: Item | None = None
    while True:
        page = await stores.tables.run(Scan(stores.physical_name(table), start_key=start))
        found += page.items or ()
        start = page.last_key
        if start is None:
            return found


async def find_unknown_attributes(stores: Stores, tables: Iterable[Table]) -> list[str]:
    """Return the stored attributes, and members of documents, that the tables' entities do not know."""
    unknown: set[str] = set()
    for table in tables:
        for item in await read_items(stores, table):
            unknown.update(f"{table.name}: {each}" for each in _find_unknown_in(table, item))
    return sorted(unknown)


async def find_unused_attributes(stores: Stores, tables: Iterable[Table]) -> list[str]:
    """Return the attributes that no stored item has: a rename of these would go unnoticed."""
    unused: list[str] = []
    for table in tables:
        stored = {name for item in await read_items(stores, table) for name in item}
        for entity in table.entities:
            names = {each.stored_name for each in get_declaration(entity).attributes.values()}
            unused += [f"{entity.__name__}.{name}" for name in sorted(names - stored)]
    return unused


def find_unknown_members(stored: Any, understood: Any, where: str = "") -> Iterator[str]:
    """Yield the paths in a stored record that are missing or different in `understood`.

    `understood` is the same record after a read and a write by the current code.
    """
    if isinstance(stored, Mapping) and isinstance(understood, Mapping):
        for name, value in stored.items():
            if name not in understood:
                yield f"{where}.{name}"
            else:
                yield from find_unknown_members(value, understood[name], f"{where}.{name}")
    elif isinstance(stored, list) and isinstance(understood, list) and len(stored) == len(understood):
        for one, other in zip(stored, understood, strict=True):
            yield from find_unknown_members(one, other, f"{where}[]")
    elif stored != understood:
        yield where


def _find_unknown_in(table: Table, item: Item) -> list[str]:
    """Find the item's unknown attributes, by the entity of the table that knows most of them."""
    judged, reasons = [], []
    for entity in table.entities:
        try:
            judged.append(_find_unknown_to(entity.from_item(item)))
        except ItemUnreadable as error:
            reasons.append(f"unreadable: {error.reason}")
    return min(judged, key=len, default=reasons)


def _find_unknown_to(read: Entity) -> list[str]:
    """Return the attributes and members that the entity's class does not declare."""
    members = (_find_undeclared(getattr(read, name), name) for name in type(read).model_fields)
    return [*read.unknown_attributes, *(each for found in members for each in found)]


def _find_undeclared(value: Any, where: str) -> Iterator[str]:
    """Yield the members of nested documents that their classes do not declare."""
    if isinstance(value, BaseModel):
        yield from (f"{where}.{name}" for name in value.model_extra or ())
        value = {name: getattr(value, name) for name in type(value).model_fields}
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _find_undeclared(inner, f"{where}.{name}")
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _find_undeclared(inner, f"{where}[]")
