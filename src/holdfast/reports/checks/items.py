"""Rules about items: how large they grow, how long they live, what their attributes are called."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeGuard

from holdfast.limits import ITEM_BYTES_MAX, KIB
from holdfast.model.entity import declaration_of
from holdfast.model.writes import Delete, Put, Update
from holdfast.operations.expressions import nodes
from holdfast.operations.expressions.reserved import is_reserved
from holdfast.reports.checks.design import Design, Finding, listed, named

ITEM_BYTES_LARGE: Final = ITEM_BYTES_MAX // 2
# Above so many new items in a month, a table without an end of life is worth a warning.
CREATED_PER_MONTH_MANY: Final = 1_000_000

_KEPT_FOR_GOOD: Final = "no pattern deletes any, and there is no lifetime."
_GIVE_AN_END: Final = (
    "Declare Table(…, ttl='expires_at') with a Lifetime in the entity, or archive what is old."
)


def items_that_outgrow_the_limit(design: Design) -> Iterator[Finding]:
    """A table whose items are declared to grow towards the largest size an item may have."""
    remedy = (
        "Keep what grows in items of its own under the same partition key (one per entry), or in an object store "
        "with its key in the item."
    )
    names = [table.name for table in design.system.tables]
    for table, size in design.system.load.grows_to.items():
        told = f"Its items grow to {size / KIB:,.0f} KB, and an item may have {ITEM_BYTES_MAX // KIB} KB"
        if table not in names:
            yield design.error(
                table,
                "The load says how large its items grow, and the system has no table of that name.",
                f"Use the declared name: {', '.join(names)}.",
            )
        elif size > ITEM_BYTES_MAX:
            yield design.error(table, f"{told}: writes will be refused.", remedy)
        elif size >= ITEM_BYTES_LARGE:
            yield design.warning(table, f"{told}; every write costs {-(-size // KIB)} units by then.", remedy)


def collections_that_grow(design: Design) -> Iterator[Finding]:
    """A pattern that appends to a list or a set, in a table of which nobody has said how large its items get."""
    for pattern, update in design.parts(Update):
        grown = sorted({action.path.root for action in update.actions if _grows(action)})
        if grown and update.table.name not in design.system.load.grows_to:
            yield design.warning(
                named(pattern),
                f"It adds to {listed(grown)} in {update.table.name}, and nothing says how large the item gets.",
                f"Give each entry an item of its own, or say Load(grows_to={{{update.table.name!r}: bytes}}).",
            )


def items_that_never_end(design: Design) -> Iterator[Finding]:
    """An entity of which there are only ever more: created at a declared rate, never deleted, without a lifetime.

    Those that get a great many are a warning each; the others are told together.
    """
    deleted = {part.declaration.entity for _, part in design.parts(Delete)}
    growing = {
        _kind(entity): created
        for table in design.system.tables
        for entity in table.entities
        if entity not in deleted and not _has_an_end(entity)
        if (created := _created_per_month(design, entity))
    }
    for name, created in growing.items():
        if created >= CREATED_PER_MONTH_MANY:
            yield design.warning(
                name, f"There are up to {created:,.0f} new items a month, {_KEPT_FOR_GOOD}", _GIVE_AN_END
            )
    if few := [
        f"{name} ({created:,.0f})" for name, created in growing.items() if created < CREATED_PER_MONTH_MANY
    ]:
        told = f"New items come, up to so many a month, to {listed(few)}; {_KEPT_FOR_GOOD}"
        yield design.info(design.system.name, told, f"{_GIVE_AN_END} Leave it where all is meant to be kept.")


def entities_without_an_end(design: Design) -> Iterator[Finding]:
    """An entity without a lifetime in a system of which every table has one: somebody forgot it."""
    tables = design.system.tables
    if not tables or any(table.ttl is None for table in tables):
        return
    for entity in (each for table in tables for each in table.entities):
        if not _has_an_end(entity):
            yield design.warning(
                _kind(entity),
                "Every table of the system has an end of life for its items, and these get none.",
                "Declare a Lifetime in the entity; or leave it, where all is meant to be kept.",
            )


def reserved_words(design: Design) -> Iterator[Finding]:
    """Attributes named by a word that DynamoDB's expressions reserve. Ours use placeholders; other tools trip."""
    for table in design.system.tables:
        names = {
            attribute.stored
            for each in table.entities
            for attribute in declaration_of(each).attributes.values()
        }
        names |= {key.name for index in table.indexes for key in index.key_attributes}
        names |= {key.name for key in table.key_attributes}
        if reserved := sorted(name for name in names if is_reserved(name)):
            verb = "is a reserved word" if len(reserved) == 1 else "are reserved words"
            yield design.info(
                table.name,
                f"{listed(reserved)} {verb} of DynamoDB's expressions.",
                "Nothing to do here, where every name has a placeholder. In expressions written by hand use #name, or "
                "store it under another name with attr('…').",
            )


def _grows(action: nodes.Action) -> bool:
    match action:
        case nodes.SetAction(_, nodes.ListAppend()):
            return True
        case nodes.AddAction(_, frozenset()):
            return True
    return False


def _kind(entity: type[Any]) -> str:
    """The table, and where it has several kinds of items, which of them."""
    table = declaration_of(entity).table
    return table.name if len(table.entities) == 1 else f"{table.name}, {entity.__name__}"


def _has_an_end(entity: type[Any]) -> bool:
    if getattr(entity, "__kept_why__", None) is not None:
        return True  # a record of a guarantee, which writes its end itself
    declaration = declaration_of(entity)
    stored = {attribute.stored for attribute in declaration.attributes.values()}
    return declaration.lifetime is not None or declaration.table.ttl in stored


def _created_per_month(design: Design, entity: type[Any]) -> float:
    total = 0.0
    for example in design.examples:
        volume = design.volume(example.pattern)
        made = sum(1 for part in example.parts if _creates(part) and part.declaration.entity is entity)
        if volume is not None:
            total += made * example.pattern.rate.times * volume.per_month
    return total


def _creates(part: Any) -> TypeGuard[Put[Any] | Update[Any]]:
    return isinstance(part, Put) or (isinstance(part, Update) and part.may_create)
