"""Rules about items: their size, their lifetime, the names of their attributes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeGuard

from holdfast.core.limits import KIB, MAX_ITEM_BYTES
from holdfast.model.entities.entity import get_declaration
from holdfast.model.entities.writes import Delete, Put, Update
from holdfast.operations.expressions import nodes
from holdfast.operations.expressions.reserved_words import is_reserved
from holdfast.reports.design.rules.base import Design, Finding, format_pattern, join_words

LARGE_ITEM_BYTES: Final = MAX_ITEM_BYTES // 2
# From this many new items per month, a missing lifetime is a warning.
MANY_CREATED_PER_MONTH: Final = 1_000_000

_NEVER_REMOVED: Final = "no pattern deletes them, and they have no lifetime."
_ADD_LIFETIME: Final = (
    "Declare Table(…, ttl='expires_at') with a Lifetime in the entity, or archive old items."
)


def find_oversized_items(design: Design) -> Iterator[Finding]:
    """Find tables whose items are declared to grow to at least half of the largest item size.

    Also find declared sizes for tables that the system does not have.
    """
    remedy = (
        "Store each entry as a separate item under the same partition key, or store the content as an object "
        "and keep its key in the item."
    )
    names = [table.name for table in design.system.tables]
    for table, size in design.load.max_item_bytes.items():
        growth = f"Its items grow to {size / KIB:,.0f} KB; an item may have {MAX_ITEM_BYTES // KIB} KB"
        if table not in names:
            yield design.error(
                table,
                "The load declares max_item_bytes for it, but the system has no table of that name.",
                f"Use the declared name: {', '.join(names)}.",
            )
        elif size > MAX_ITEM_BYTES:
            yield design.error(table, f"{growth}: writes will be refused.", remedy)
        elif size >= LARGE_ITEM_BYTES:
            yield design.warning(
                table, f"{growth}; at that size every write costs {-(-size // KIB)} units.", remedy
            )


def find_growing_collections(design: Design) -> Iterator[Finding]:
    """Find patterns that append to a list or set in a table without a declared maximum item size."""
    for pattern, update in design.find_parts(Update):
        grown = sorted({action.path.root for action in update.actions if _adds_elements(action)})
        if grown and update.table.name not in design.load.max_item_bytes:
            yield design.warning(
                format_pattern(pattern),
                f"It adds to {join_words(grown)} in {update.table.name}, whose maximum item size is not "
                "declared.",
                f"Store each entry as a separate item, or declare "
                f"Load(max_item_bytes={{{update.table.name!r}: bytes}}).",
            )


def find_items_never_removed(design: Design) -> Iterator[Finding]:
    """Find entities that only accumulate: created at a declared rate, never deleted, without a lifetime.

    Entities with very many new items get one warning each; the others share one info finding.
    """
    deleted = {part.declaration.entity for _, part in design.find_parts(Delete)}
    growing = {
        _format_entity(entity): created
        for table in design.system.tables
        for entity in table.entities
        if entity not in deleted and not _has_lifetime(entity)
        if (created := _count_created_per_month(design, entity))
    }
    for name, created in growing.items():
        if created >= MANY_CREATED_PER_MONTH:
            yield design.warning(
                name, f"There are up to {created:,.0f} new items a month, {_NEVER_REMOVED}", _ADD_LIFETIME
            )
    if few := [
        f"{name} ({created:,.0f})" for name, created in growing.items() if created < MANY_CREATED_PER_MONTH
    ]:
        message = f"Items accumulate (at most this many per month): {join_words(few)}; {_NEVER_REMOVED}"
        yield design.info(
            design.system.name, message, f"{_ADD_LIFETIME} No action if the items are meant to be kept."
        )


def find_entities_without_lifetime(design: Design) -> Iterator[Finding]:
    """Find entities without a lifetime in a system where every table declares a TTL attribute."""
    tables = design.system.tables
    if not tables or any(table.ttl is None for table in tables):
        return
    for entity in (each for table in tables for each in table.entities):
        if not _has_lifetime(entity):
            yield design.warning(
                _format_entity(entity),
                "Every table of the system has a TTL attribute, but these items never get a value for it.",
                "Declare a Lifetime in the entity. No action if the items are meant to be kept.",
            )


def find_reserved_words(design: Design) -> Iterator[Finding]:
    """Find attributes named like a reserved word of DynamoDB's expressions.

    Holdfast uses placeholders for all names; other tools fail on them.
    """
    for table in design.system.tables:
        names = {
            attribute.stored_name
            for each in table.entities
            for attribute in get_declaration(each).attributes.values()
        }
        names |= {key.name for index in table.indexes for key in index.key_attributes}
        names |= {key.name for key in table.key_attributes}
        if reserved := sorted(name for name in names if is_reserved(name)):
            verb = "is a reserved word" if len(reserved) == 1 else "are reserved words"
            yield design.info(
                table.name,
                f"{join_words(reserved)} {verb} of DynamoDB's expressions.",
                "No action in Holdfast, which uses a placeholder for every name. In expressions written by "
                "hand use #name, or store the attribute under another name with attr('…').",
            )


def _adds_elements(action: nodes.UpdateAction) -> bool:
    """Return True if the update action appends to a list or adds to a set."""
    match action:
        case nodes.SetAction(_, nodes.ListAppend()):
            return True
        case nodes.AddAction(_, frozenset()):
            return True
    return False


def _format_entity(entity: type[Any]) -> str:
    """Return the table's name, with the entity's name if the table has several entities."""
    table = get_declaration(entity).table
    return table.name if len(table.entities) == 1 else f"{table.name}, {entity.__name__}"


def _has_lifetime(entity: type[Any]) -> bool:
    """Return True if the entity declares a lifetime or writes the table's TTL attribute itself."""
    if getattr(entity, "__kept_why__", None) is not None:
        return True  # a guarantee's record, whose expiry the guarantee writes
    declaration = get_declaration(entity)
    stored = {attribute.stored_name for attribute in declaration.attributes.values()}
    return declaration.lifetime is not None or declaration.table.ttl in stored


def _count_created_per_month(design: Design, entity: type[Any]) -> float:
    """Return the number of items of this entity that the patterns create in a month, at most."""
    total = 0.0
    for example in design.examples:
        volume = design.get_volume(example.pattern)
        created = sum(1 for part in example.parts if _can_create(part) and part.declaration.entity is entity)
        if volume is not None:
            total += created * example.pattern.rate.times * volume.per_month
    return total


def _can_create(part: Any) -> TypeGuard[Put[Any] | Update[Any]]:
    """Return True for a put and for an update that may create its item."""
    return isinstance(part, Put) or (isinstance(part, Update) and part.may_create)
