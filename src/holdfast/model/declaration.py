"""What an entity's class body said, resolved: its attributes, its keys, its lifetime.

The metaclass makes one `Declaration` per entity. It turns an entity into an item and back, and says which key
attributes a partial update must write anew. It never reads from a store.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Final, Union, get_args, get_origin

from pydantic import BaseModel, TypeAdapter, ValidationError

from holdfast.errors import DeclarationError, InvalidRequest, ItemUnreadable
from holdfast.model.encoding import encode, epoch_seconds, is_absent
from holdfast.model.tables import Index, Table
from holdfast.model.templates import Slot, Template
from holdfast.operations.values import Item, Value

if TYPE_CHECKING:
    from holdfast.model.entity import Entity

# Stored as they are: nothing of Pydantic is needed to encode them.
_PLAIN: Final = frozenset({str, int, bool, bytes})


@dataclass(frozen=True, eq=False)
class Attribute:
    """One attribute: its Python name, its stored name and its type."""

    name: str
    stored: str
    annotation: Any
    is_optional: bool

    @cached_property
    def _adapter(self) -> TypeAdapter[Any]:
        return TypeAdapter(self.annotation)

    def encode(self, value: Any) -> Value:
        """A value as it is stored, after Pydantic has found it good for this attribute."""
        if self.annotation in _PLAIN and type(value) is self.annotation:
            return value  # type: ignore[no-any-return]
        try:
            checked = self._adapter.validate_python(value)
            return encode(self._adapter.dump_python(checked, by_alias=True))
        except (ValidationError, ValueError) as error:
            raise InvalidRequest(f"{self.name} cannot be {value!r}: {_reason(error)}") from error

    def decode(self, value: Value) -> Any:
        """A stored value as the attribute has it."""
        try:
            return self._adapter.validate_python(value)
        except ValidationError as error:
            raise ItemUnreadable("a selection", {}, f"{self.name}: {_told(error)}") from error

    def encode_inside(self, value: Any) -> Value:
        """A value for a place inside the attribute, or one element of it."""
        try:
            return encode(value)
        except ValueError as error:
            raise InvalidRequest(f"{value!r} cannot stand inside {self.name}: {_reason(error)}") from error

    def stored_steps(self, steps: Iterable[str | int]) -> tuple[str | int, ...]:
        """Steps into a document, with each member under the name it is stored by."""
        found, kind = [], self.annotation
        for step in steps:
            kind, name = _step(kind, step)
            found.append(name)
        return tuple(found)


@dataclass(frozen=True, eq=False)
class KeyDeclaration:
    """A primary or index key: the attribute names it fills and the templates it fills them from."""

    partition_name: str
    partition: Template
    sort_name: str | None
    sort: Template | None
    index: Index | None = None
    only: tuple[Attribute, tuple[Any, ...]] | None = None

    @cached_property
    def computed(self) -> tuple[tuple[str, Template], ...]:
        """The key attributes that are not simply an attribute of the entity."""
        both = ((self.partition_name, self.partition), (self.sort_name, self.sort))
        return tuple(
            (name, template)
            for name, template in both
            if name is not None and template is not None and _is_computed(name, template)
        )

    @cached_property
    def uses(self) -> frozenset[str]:
        """The attributes that must be known to write the computed ones, both or neither."""
        names = frozenset[str]().union(*(template.names for _, template in self.computed))
        return names | {self.only[0].name} if self.only else names

    @cached_property
    def uses_of_key(self) -> frozenset[str]:
        """Every attribute that stands in the key."""
        return self.partition.names | (self.sort.names if self.sort else frozenset())

    @cached_property
    def known_names(self) -> tuple[str, ...]:
        """The attributes whose values can be told from the arguments of a call, in their order."""
        slots = (*self.partition.slots, *(self.sort.slots if self.sort else ()))
        return tuple(slot.attribute.name for slot in slots if slot.function is None)

    def values(self, lookup: Callable[[str], Any]) -> dict[str, Value]:
        """The computed key attributes; all None where the item is not in the index."""
        if self.only is not None and lookup(self.only[0].name) not in self.only[1]:
            return {name: None for name, _ in self.computed}
        found = {name: template.of_attributes(lookup) for name, template in self.computed}
        return dict.fromkeys(found) if None in found.values() else found


@dataclass(frozen=True, eq=False)
class LifetimeDeclaration:
    """The end of an item's life: so long after an attribute."""

    stored: str
    attribute: Attribute
    after: timedelta

    def value(self, moment: datetime | None) -> Value:
        return None if moment is None else epoch_seconds(moment + self.after)


@dataclass(frozen=True, eq=False)
class Declaration:
    """An entity, resolved."""

    entity: type[Entity]
    table: Table
    attributes: Mapping[str, Attribute]
    primary: KeyDeclaration
    indexes: tuple[KeyDeclaration, ...]
    lifetime: LifetimeDeclaration | None
    _computed_names: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        names = {name for key in (self.primary, *self.indexes) for name, _ in key.computed}
        if self.lifetime is not None:
            names.add(self.lifetime.stored)
        object.__setattr__(self, "_computed_names", frozenset(names))

    @cached_property
    def by_stored_name(self) -> dict[str, Attribute]:
        return {attribute.stored: attribute for attribute in self.attributes.values()}

    def to_item(self, entity: Entity) -> Item:
        """The item of an entity: its attributes, what was read and not understood, and its keys."""
        dumped = entity.__pydantic_serializer__.to_python(entity, by_alias=True)
        item = {name: encode(value) for name, value in dumped.items() if not is_absent(value)}
        item |= {name: value for name, value in entity.unknown_attributes.items() if name not in dumped}

        def lookup(name: str) -> Any:
            return getattr(entity, name)

        for name, template in self.primary.computed:
            item[name] = template.of_attributes(lookup)
        for key in self.indexes:
            item |= {name: value for name, value in key.values(lookup).items() if value is not None}
        if self.lifetime is not None:
            ends = self.lifetime.value(lookup(self.lifetime.attribute.name))
            item |= {} if ends is None else {self.lifetime.stored: ends}
        return item

    def from_item(self, item: Item) -> Entity:
        """An entity as it was stored; what this declaration does not know of is kept beside it."""
        known, unknown = {}, {}
        for name, value in item.items():
            if name in self.by_stored_name:
                known[name] = value
            elif name not in self._computed_names:
                unknown[name] = value
        try:
            entity = self.entity.model_validate(known, by_alias=True, by_name=False)
        except ValidationError as error:
            raise ItemUnreadable(self.table.name, self.key_of(item), _told(error)) from error
        if unknown:
            entity.keep_unknown(unknown)
        return entity

    def key_of(self, item: Item) -> Item:
        """The primary key of an item, as its stored attributes."""
        return {name: item[name] for name in (self.table.partition, self.table.sort) if name and name in item}

    def key_changes(self, known: Mapping[str, Any], changed: frozenset[str]) -> dict[str, Value]:
        """The key attributes that an update must write anew (None: remove), from what it knows alone.

        An index key is written whole or not at all. What the update does not know is never read behind its
        back: it is refused, with the attributes to add.
        """
        writes: dict[str, Value] = {}
        for key in self.indexes:
            if not key.uses & changed:
                continue
            if missing := sorted(key.uses - known.keys()):
                raise InvalidRequest(self._refusal(key, changed, missing))
            writes |= key.values(known.__getitem__)
        if self.lifetime is not None and self.lifetime.attribute.name in changed:
            if self.lifetime.attribute.name not in known:
                raise InvalidRequest(
                    f"The lifetime of {self.entity.__name__} is computed from {self.lifetime.attribute.name}: "
                    "give it a value with set(…), so that the end of life can be written with it."
                )
            writes[self.lifetime.stored] = self.lifetime.value(known[self.lifetime.attribute.name])
        return writes

    def _refusal(self, key: KeyDeclaration, changed: frozenset[str], missing: list[str]) -> str:
        assert key.index is not None
        return (
            f"This update changes {_listed(sorted(key.uses & changed))} of {self.entity.__name__}, and the key of the "
            f"index {key.index.name} is made of {_listed(sorted(key.uses))}: set {_listed(missing)} too, to a value "
            "that is known. Nothing is read behind an update's back."
        )


def is_optional(annotation: Any) -> bool:
    """Whether None is among what an attribute may hold."""
    if get_origin(annotation) is Annotated:
        return is_optional(get_args(annotation)[0])
    return annotation is None or annotation is type(None) or any(map(is_optional, _choices(annotation)))


def documents_in(annotation: Any) -> Iterable[type[BaseModel]]:
    """Every document class that values of this type may hold."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
        for inner in annotation.model_fields.values():
            if inner.annotation is not annotation:
                yield from documents_in(inner.annotation)
    for argument in get_args(annotation):
        yield from documents_in(argument)


def _is_computed(name: str, template: Template) -> bool:
    attribute = template.only_attribute
    return attribute is None or attribute.stored != name


def _choices(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else ()


def _step(kind: Any, step: str | int) -> tuple[Any, str | int]:
    """The type that a step leads to, and the step as it is stored."""
    for choice in (kind, *_choices(kind)):
        if isinstance(choice, type) and issubclass(choice, BaseModel) and isinstance(step, str):
            if step not in choice.model_fields:
                raise DeclarationError(
                    f"{choice.__name__} has no member {step!r}: {_listed(choice.model_fields)} are."
                )
            member = choice.model_fields[step]
            return member.annotation, member.serialization_alias or member.alias or step
        if (arguments := get_args(choice)) and get_origin(choice) in (list, dict, tuple):
            return arguments[-1], step
    return Any, step


def _told(error: ValidationError) -> str:
    return "; ".join(
        f"{'.'.join(map(str, each['loc'])) or 'the item'}: {each['msg'][0].lower()}{each['msg'][1:]}"
        for each in error.errors(include_url=False, include_context=False)
    )


def _reason(error: Exception) -> str:
    return _told(error) if isinstance(error, ValidationError) else str(error)


def _listed(names: Iterable[str]) -> str:
    *rest, last = names
    return f"{', '.join(rest)} and {last}" if rest else last


__all__ = [
    "Attribute",
    "Declaration",
    "KeyDeclaration",
    "LifetimeDeclaration",
    "Slot",
    "documents_in",
    "is_optional",
]
