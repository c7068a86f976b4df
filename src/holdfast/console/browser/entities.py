"""Which entity an item is, and what its keys are built from.

A table may hold items of several entities, told apart by the constants of their keys.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.console.browser.item_masker import ItemMasker
from holdfast.core.errors import HoldfastError
from holdfast.model.entities import get_declaration
from holdfast.model.entities.declaration import Declaration, KeyDeclaration
from holdfast.model.entities.key_templates import Template
from holdfast.model.tables import Index, Table
from holdfast.operations.tables import KeySchema
from holdfast.operations.values import Item

__all__ = [
    "IndexPlace",
    "KeyExplanation",
    "explain_keys",
    "extract_key",
    "find_declaration",
    "find_index_places",
    "format_template",
    "get_key_names",
    "list_key_hints",
]


def find_declaration(table: Table, item: Mapping[str, Any]) -> Declaration | None:
    """Return the entity whose key an item has; None if no declared one matches.

    Of several, the one with the most constant text in its key, then the one that can read the item.
    """
    found = [each for each in map(get_declaration, table.entities) if _matches(each.primary, item)]
    if len(found) <= 1:
        return found[0] if found else None
    most = max(map(_count_constants, found))
    best = [each for each in found if _count_constants(each) == most]
    readable = [each for each in best if _can_read(each, item)]
    return max(readable or best, key=lambda each: len(each.attributes))


def _matches(key: KeyDeclaration, item: Mapping[str, Any]) -> bool:
    return all(_fits(template, item.get(name)) for name, template in key.templates)


def _fits(template: Template, value: Any) -> bool:
    """Return whether a key's template could have built the value."""
    if template.sole_attribute is not None or (len(template.pieces) == 1 and template.slots):
        return value is not None
    if not isinstance(value, str):
        return False
    return _build_expression(template).fullmatch(value) is not None


def _build_expression(template: Template) -> re.Pattern[str]:
    """Return the expression that a template's texts match: values have no separator."""
    inner = f"[^{re.escape(template.separator)}]*"
    parts = (re.escape(each) if isinstance(each, str) else inner for each in template.pieces)
    return re.compile("".join(parts), re.DOTALL)


def _count_constants(declaration: Declaration) -> int:
    pieces = [piece for _, template in declaration.primary.templates for piece in template.pieces]
    return sum(len(each) for each in pieces if isinstance(each, str))


def _can_read(declaration: Declaration, item: Mapping[str, Any]) -> bool:
    try:
        declaration.from_item(dict(item))
    except HoldfastError:
        return False
    return True


# --- keys ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class KeyExplanation:
    """One key attribute: its value as it may be shown, and the template that builds it."""

    index: str
    name: str
    value: Any
    template: str


@dataclass(frozen=True)
class IndexPlace:
    """An index that an item is in, with its key there; without a key, the item is not in it."""

    index: Index
    key: Item | None


def explain_keys(declaration: Declaration, item: Item, masker: ItemMasker) -> list[KeyExplanation]:
    """Return every key attribute of the table and its indexes, with the template that builds it."""
    shown = masker.mask_all(item)
    return [
        KeyExplanation(
            "" if key.index is None else key.index.name, name, shown.get(name), format_template(each)
        )
        for key in (declaration.primary, *declaration.indexes)
        for name, each in key.templates
    ]


def format_template(template: Template) -> str:
    """Return a template as text, such as `EVENT#{created_at}#{id}`."""
    return "".join(
        each if isinstance(each, str) else f"{{{each.attribute.name}}}" for each in template.pieces
    )


def list_key_hints(table: Table, index: Index | None) -> list[tuple[str, str, str]]:
    """Return how each entity's key in the table or index is built: its name, and the texts of both parts."""
    hints = []
    for declaration in map(get_declaration, table.entities):
        keys = declaration.indexes if index is not None else (declaration.primary,)
        for key in (each for each in keys if each.index is index):
            sort = format_template(key.sort) if key.sort is not None else ""
            hints.append((declaration.entity.__name__, format_template(key.partition), sort))
    return hints


def find_index_places(table: Table, item: Item) -> list[IndexPlace]:
    """Return every index of the table with the item's key there."""
    return [IndexPlace(each, _extract(item, (each.partition, each.sort))) for each in table.indexes]


def extract_key(keys: KeySchema | Table, item: Mapping[str, Any]) -> Item:
    """Return the primary key of an item."""
    return {name: item[name] for name in (keys.partition, keys.sort) if name is not None}


def get_key_names(table: Table) -> frozenset[str]:
    """Return the stored names of all key attributes: the table's and its indexes'."""
    schemas: Sequence[Table | Index] = (table, *table.indexes)
    return frozenset(name for each in schemas for name in (each.partition, each.sort) if name is not None)


def _extract(item: Item, names: tuple[str | None, ...]) -> Item | None:
    key = {name: item[name] for name in names if name is not None and name in item}
    return key if len(key) == sum(name is not None for name in names) else None
