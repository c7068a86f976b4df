"""Whether an entity that was read would be written back to the place it came from, and as what it was.

An item of other code may have a key in another form than this declaration makes (`…01:00:00Z` where we write
microseconds): written back it would stand beside itself. It may have a time without a zone, which cannot be written at
all. Both are told when the item is read, and not when a second one is found months later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from holdfast.errors import InvalidRequest, ItemUnreadable
from holdfast.operations.values import Item, Value

if TYPE_CHECKING:
    from holdfast.model.declaration import Declaration
    from holdfast.model.entity import Entity
    from holdfast.model.templates import Template


def refuse_unfaithful(declaration: Declaration, entity: Entity, item: Item) -> None:
    """Raises ItemUnreadable where the item could not be written back to where and as it was."""
    for name in declaration.names_of_times:
        value = getattr(entity, name)
        if value is not None and (reason := without_zone(value)):
            raise ItemUnreadable(declaration.table.name, declaration.key_of(item), f"{name}: {reason}")
    for name, template in declaration.primary.templates:
        if name in item and not _is_same(template, entity, item[name]):
            made = _made(template, entity)
            raise ItemUnreadable(
                declaration.table.name,
                declaration.key_of(item),
                f"its key attribute {name} is {item[name]!r}, and this {declaration.entity.__name__} would be written "
                f"back under {made!r}, as a second item: declare what the key is made of in the form that is stored "
                "(Seconds, EpochSeconds, a type with a serializer of its own)",
            )


def without_zone(value: Any) -> str | None:
    """Why a value cannot be kept, where a time without a zone is in it."""
    for moment in (value,) if isinstance(value, datetime) else _times(value):
        if moment.tzinfo is None:
            return (
                f"{moment.isoformat()} has no time zone, and nobody but you knows which is meant: declare the "
                "attribute with a validator that says it, Annotated[datetime, BeforeValidator(…)]"
            )
    return None


def _times(value: Any) -> Iterable[datetime]:
    """Every time in a value, however deep."""
    if isinstance(value, datetime):
        yield value
    elif isinstance(value, BaseModel):
        yield from _times(value.__dict__)
    elif isinstance(value, Mapping):
        yield from _times(tuple(value.values()))
    elif isinstance(value, (list, tuple, set, frozenset)):
        for inner in value:
            yield from _times(inner)


def _is_same(template: Template, entity: Entity, stored: Value) -> bool:
    """Most keys are texts and numbers as they are: those need not be made anew."""
    attribute = template.only_attribute
    if attribute is not None and getattr(entity, attribute.name) == stored:
        return True
    return _made(template, entity) == stored


def _made(template: Template, entity: Entity) -> Value:
    try:
        return template.of_attributes(lambda name: getattr(entity, name))
    except InvalidRequest as error:
        return f"nothing, because {error.message}"
