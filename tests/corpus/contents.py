"""Find what is stored and unknown to the current code: a renamed attribute or field shows up here.

An attribute that is absent has its default, and a struct ignores members that it does not know. So a rename can lose
data without an error; these functions look at every item and every record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from holdfast import Entity, Stores, Table, get_declaration
from holdfast.core.errors import ItemUnreadable
from holdfast.operations.tables import Scan
from holdfast.operations.values import Item


async def items_of(stores: Stores, table: Table) -> list[Item]:
    """Return every item of a table as it is stored, those at the end of their life too."""
    found: list[Item] = []
    start: Item | None = None
    while True:
        page = await stores.tables.run(Scan(stores.physical_name(table), start_key=start))
        found += page.items or ()
        start = page.last_key
        if start is None:
            return found


async def unknown_attributes(stores: Stores, tables: Iterable[Table]) -> list[str]:
    """Return what the entities of the tables do not know of their items, members of documents included."""
    unknown: set[str] = set()
    for table in tables:
        for item in await items_of(stores, table):
            unknown.update(f"{table.name}: {each}" for each in _unknown_in(table, item))
    return sorted(unknown)


async def unused_attributes(stores: Stores, tables: Iterable[Table]) -> list[str]:
    """Return the attributes that no item of their entity has: of those, a rename would not be noticed."""
    unused: list[str] = []
    for table in tables:
        stored = {name for item in await items_of(stores, table) for name in item}
        for entity in table.entities:
            names = {each.stored_name for each in get_declaration(entity).attributes.values()}
            unused += [f"{entity.__name__}.{name}" for name in sorted(names - stored)]
    return unused


def unknown_members(stored: Any, understood: Any, where: str = "") -> Iterator[str]:
    """Yield the members of a stored record that are not in it, or are different, once it was read and written again."""
    if isinstance(stored, Mapping) and isinstance(understood, Mapping):
        for name, value in stored.items():
            if name not in understood:
                yield f"{where}.{name}"
            else:
                yield from unknown_members(value, understood[name], f"{where}.{name}")
    elif isinstance(stored, list) and isinstance(understood, list) and len(stored) == len(understood):
        for one, other in zip(stored, understood, strict=True):
            yield from unknown_members(one, other, f"{where}[]")
    elif stored != understood:
        yield where


def _unknown_in(table: Table, item: Item) -> list[str]:
    """Judge the item by that of the table's entities which knows most of it."""
    judged, reasons = [], []
    for entity in table.entities:
        try:
            judged.append(_unknown_to(entity.from_item(item)))
        except ItemUnreadable as error:
            reasons.append(f"unreadable: {error.reason}")
    return min(judged, key=len, default=reasons)


def _unknown_to(read: Entity) -> list[str]:
    members = (_strangers(getattr(read, name), name) for name in type(read).model_fields)
    return [*read.unknown_attributes, *(each for found in members for each in found)]


def _strangers(value: Any, where: str) -> Iterator[str]:
    """Yield the members of documents inside a value that their classes do not declare."""
    if isinstance(value, BaseModel):
        yield from (f"{where}.{name}" for name in value.model_extra or ())
        value = {name: getattr(value, name) for name in type(value).model_fields}
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _strangers(inner, f"{where}.{name}")
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _strangers(inner, f"{where}[]")
