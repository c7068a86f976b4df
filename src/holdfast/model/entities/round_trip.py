"""Round-trip check: an entity that was read must be written back under the same key.

An item written by other code may have a key in another form than this declaration produces (`…01:00:00Z`
instead of microseconds): written back it would become a second item. It may hold a time without a zone, which
cannot be written at all. Both are reported when the item is read, not when the duplicate is found months
later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from holdfast.core.errors import InvalidRequest, ItemUnreadable
from holdfast.operations.values import Item, Value

if TYPE_CHECKING:
    from holdfast.model.entities.declaration import Declaration
    from holdfast.model.entities.entity import Entity
    from holdfast.model.entities.key_templates import Template


def check_round_trip(declaration: Declaration, entity: Entity, item: Item) -> None:
    """Raise ItemUnreadable if the entity would not be written back under the item's key, or not at all."""
    for name in declaration.datetime_names:
        value = getattr(entity, name)
        if value is not None and (reason := explain_missing_zone(value)):
            raise ItemUnreadable(declaration.table.name, declaration.extract_key(item), f"{name}: {reason}")
    for name, template in declaration.primary.templates:
        if name in item and not _is_same_key(template, entity, item[name]):
            computed = _build_key(template, entity)
            raise ItemUnreadable(
                declaration.table.name,
                declaration.extract_key(item),
                f"its key attribute {name} is {item[name]!r}, but this {declaration.entity.__name__} would "
                f"be written back under {computed!r}, as a second item: declare the key's attributes with "
                "the type that matches the stored form (TimestampSeconds, EpochSeconds, or a type with its "
                "own serializer)",
            )


def explain_missing_zone(value: Any) -> str | None:
    """Return why a value cannot be stored if it contains a time without a zone; None otherwise."""
    for moment in (value,) if isinstance(value, datetime) else _find_datetimes(value):
        if moment.tzinfo is None:
            return (
                f"{moment.isoformat()} has no time zone: declare the attribute with a validator that adds "
                "the zone, Annotated[datetime, BeforeValidator(…)]"
            )
    return None


def _find_datetimes(value: Any) -> Iterable[datetime]:
    """Yield every datetime in a value, at any depth."""
    if isinstance(value, datetime):
        yield value
    elif isinstance(value, BaseModel):
        yield from _find_datetimes(value.__dict__)
    elif isinstance(value, Mapping):
        yield from _find_datetimes(tuple(value.values()))
    elif isinstance(value, (list, tuple, set, frozenset)):
        for inner in value:
            yield from _find_datetimes(inner)


def _is_same_key(template: Template, entity: Entity, stored: Value) -> bool:
    """Return True if the template gives the stored key. Plain keys are compared without building them."""
    attribute = template.sole_attribute
    if attribute is not None and getattr(entity, attribute.name) == stored:
        return True
    return _build_key(template, entity) == stored


def _build_key(template: Template, entity: Entity) -> Value:
    """Return the key that the entity would be written under, or text that says why there is none."""
    try:
        return template.build_from_attributes(lambda name: getattr(entity, name))
    except InvalidRequest as error:
        return f"nothing, because {error.message}"
