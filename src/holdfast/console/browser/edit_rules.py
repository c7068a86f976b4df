"""Whether an item may be edited or deleted in the browser, and why not.

Three kinds of items are refused whatever the user's role: entries of a history, which are only ever appended;
records that a guarantee or a flow owns, because it relies on what it wrote; and records with encrypted
content, which cannot be seen and so not be judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, Final

from holdfast.console.masking import is_secret
from holdfast.core.errors import HoldfastError
from holdfast.guarantees import AuditEntry
from holdfast.model.entities import Delete, Entity, Put, Update
from holdfast.model.entities.declaration import Declaration
from holdfast.model.operations import Operation
from holdfast.model.system import System
from holdfast.operations.expressions import nodes
from holdfast.operations.values import Item

__all__ = ["ALL_REFUSED", "explain_refusal", "find_version_attribute", "list_append_only"]

ALL_REFUSED: Final = (
    'Edits are off. The administrator of this console turns them on with the setting console_edits = "on".'
)
_HOLDFAST: Final = "holdfast."
# A condition takes 300 operators; each attribute needs two.
MAX_CHECKED_ATTRIBUTES: Final = 100


def explain_refusal(system: System, declaration: Declaration | None, item: Item) -> str:
    """Return why the item may not be edited or deleted, and what to do instead; empty if it may."""
    if len(item) > MAX_CHECKED_ATTRIBUTES:
        return (
            f"This item has {len(item)} attributes, and a write can check at most "
            f"{MAX_CHECKED_ATTRIBUTES} for changes. Change it with a pattern of the system."
        )
    if any(_contains_secret(name, value) for name, value in item.items()):
        return "This record has encrypted content, which the console does not see. Change it with the system."
    if declaration is None:
        return ""
    entity = declaration.entity
    if issubclass(entity, AuditEntry) or entity in list_append_only(system):
        return (
            f"{entity.__name__} is append-only: the system adds these records, and none of its patterns "
            "changes them."
        )
    if owner := _find_owner(entity):
        return (
            f"A guarantee of Holdfast ({owner}) owns this {entity.__name__}, and relies on what it wrote. "
            "Use the pages under Work, or a command of the system."
        )
    return ""


@lru_cache(maxsize=64)
def list_append_only(system: System) -> frozenset[type[Entity]]:
    """Return the entities that the system's patterns only create: none updates, replaces or deletes them."""
    created: set[type[Entity]] = set()
    changed: set[type[Entity]] = set()
    for each in _list_writes(system):
        declaration = getattr(each, "declaration", None)
        if declaration is not None:
            is_new = isinstance(each, Put) and _is_creation(each, declaration)
            (created if is_new else changed).add(declaration.entity)
    return frozenset(created - changed)


@lru_cache(maxsize=256)
def find_version_attribute(system: System, entity: type[Entity]) -> str | None:
    """Return the stored name of the attribute with the item's version, which each write counts up; None if
    the system's patterns check none.
    """
    for each in _list_writes(system):
        declaration = getattr(each, "declaration", None)
        if declaration is None or declaration.entity is not entity:
            continue
        if isinstance(each, Put) and each.expected_version is not None:
            return each.expected_version[0]
        if isinstance(each, Update) and (name := _find_counted(each)) is not None:
            return name
    attribute = entity.__declaration__.attributes.get("version")  # type: ignore[attr-defined]
    return attribute.stored_name if attribute is not None and attribute.annotation is int else None


def _list_writes(system: System) -> Iterator[Operation[Any]]:
    """Yield an example of each write of the system, and of each part of a transaction."""
    for pattern in system.patterns:
        try:
            example = pattern.build_example()
        except (HoldfastError, ImportError):
            # What it needs is not installed here.
            continue
        yield from (each for each in _flatten((example,)) if isinstance(each, Put | Update | Delete))


def _flatten(operations: Iterable[Operation[Any]]) -> Iterator[Operation[Any]]:
    for each in operations:
        yield each
        yield from _flatten(each.parts or ())


def _is_creation(put: Put[Any], declaration: Declaration) -> bool:
    """Return whether a put requires that there is no item under its key."""
    absent = nodes.Not(nodes.AttributeExists(nodes.Path(declaration.table.partition)))
    same = nodes.AttributeNotExists(nodes.Path(declaration.table.partition))
    return any(each in (absent, same) for each in _split(put.condition))


def _find_counted(update: Update[Any]) -> str | None:
    """Return the attribute that an update compares with a number, and sets to the next."""
    compared = {
        each.left.root: each.right.value
        for each in _split(update.condition)
        if isinstance(each, nodes.Compare)
        and each.operator == "="
        and isinstance(each.left, nodes.Path)
        and isinstance(each.right, nodes.Literal)
        and isinstance(each.right.value, int)
    }
    for action in update.actions:
        if isinstance(action, nodes.SetAction) and isinstance(action.operand, nodes.Literal):
            before = compared.get(action.path.root)
            if before is not None and action.operand.value == before + 1 and not action.path.steps:
                return action.path.root
    return None


def _split(condition: nodes.Condition | None) -> Iterator[nodes.Condition]:
    """Yield the conditions that must all hold."""
    if isinstance(condition, nodes.And):
        for each in condition.conditions:
            yield from _split(each)
    elif condition is not None:
        yield condition


def _find_owner(entity: type[Entity]) -> str:
    """Return the class of Holdfast that the entity is or derives from; empty for the system's own."""
    for each in entity.__mro__:
        if each is Entity:
            return ""
        if each.__module__.startswith(_HOLDFAST):
            return each.__name__
    return ""


def _contains_secret(name: str, value: Any) -> bool:
    """Return whether the value, or one inside it, is encrypted."""
    if isinstance(value, dict):
        return any(_contains_secret(inner, each) for inner, each in value.items())
    if isinstance(value, list):
        return any(_contains_secret(name, each) for each in value)
    return is_secret(name, value)
