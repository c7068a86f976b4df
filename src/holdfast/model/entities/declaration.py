"""The resolved declaration of an entity: its attributes, its keys, its lifetime.

The metaclass builds one `Declaration` per entity. It converts an entity to an item and back, and computes the
key attributes that a partial update must rewrite. It never reads from a store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from pydantic import TypeAdapter, ValidationError

from holdfast.core.errors import InvalidRequest, ItemUnreadable
from holdfast.model.entities.annotations import (
    get_element_type,
    get_key_tag,
    is_optional,
    join_words,
    may_contain_datetime,
    resolve_member,
)
from holdfast.model.entities.encoders import encode_value, is_absent, to_epoch_seconds
from holdfast.model.entities.key_templates import Template
from holdfast.model.entities.round_trip import check_round_trip, explain_missing_zone
from holdfast.model.tables import Index, Table
from holdfast.operations.expressions import nodes
from holdfast.operations.tables.schema import KeyTag
from holdfast.operations.values import Item, Value

if TYPE_CHECKING:
    from holdfast.model.entities.entity import Entity

# Stored unchanged, without a Pydantic round trip.
_PLAIN_TYPES: Final = frozenset({str, int, bool, bytes})


@dataclass(frozen=True, eq=False)
class Attribute:
    """One attribute: its Python name, its stored name and its type."""

    name: str
    stored_name: str
    annotation: Any
    is_optional: bool

    @cached_property
    def _adapter(self) -> TypeAdapter[Any]:
        return TypeAdapter(self.annotation)

    def encode(self, value: Any) -> Value:
        """Validate a value and return it in its stored form; raise `InvalidRequest` if it is invalid."""
        if self.annotation in _PLAIN_TYPES and type(value) is self.annotation:
            return value  # type: ignore[no-any-return]
        try:
            checked = self._adapter.validate_python(value)
            return encode_value(self._adapter.dump_python(checked, by_alias=True))
        except (ValidationError, ValueError) as error:
            shown = value.isoformat() if isinstance(value, datetime) else repr(value)
            raise InvalidRequest(f"Invalid {self.name} {shown}: {_format_reason(error)}") from error

    def decode(self, value: Value) -> Any:
        """Return a stored value as the attribute's Python type. Raise `ItemUnreadable` if it does not fit."""
        try:
            decoded = self._adapter.validate_python(value)
        except ValidationError as error:
            raise ItemUnreadable("a selection", {}, f"{self.name}: {format_error(error)}") from error
        if reason := explain_missing_zone(decoded):
            raise ItemUnreadable("a selection", {}, f"{self.name}: {reason}")
        return decoded

    @cached_property
    def key_tag(self) -> KeyTag | None:
        """The attribute's key type: text, number or binary; None if its annotation does not determine it."""
        return get_key_tag(self.annotation)

    @cached_property
    def element(self) -> Attribute:
        """The attribute for one element of a list or set, which encodes it as inside the whole."""
        return Attribute(self.name, self.stored_name, get_element_type(self.annotation), False)

    def resolve_path(self, steps: Iterable[str | int]) -> tuple[tuple[str | int, ...], Attribute]:
        """Return the steps into a document under their stored names, and the attribute that they lead to."""
        found, kind = [], self.annotation
        for step in steps:
            kind, name = resolve_member(kind, step)
            found.append(name)
        return tuple(found), Attribute(self.name, self.stored_name, kind, is_optional(kind))


@dataclass(frozen=True, eq=False)
class KeyDeclaration:
    """A primary or index key: the key attributes' names and the templates that fill them."""

    partition_name: str
    partition: Template
    sort_name: str | None
    sort: Template | None
    index: Index | None = None
    only: tuple[Attribute, tuple[Any, ...]] | None = None

    @cached_property
    def computed(self) -> tuple[tuple[str, Template], ...]:
        """The key attributes that are not simply an attribute of the entity."""
        return tuple((name, template) for name, template in self.templates if _is_computed(name, template))

    @cached_property
    def templates(self) -> tuple[tuple[str, Template], ...]:
        """The key attributes (one or two) with their templates."""
        both = ((self.partition_name, self.partition), (self.sort_name, self.sort))
        return tuple((name, template) for name, template in both if name is not None and template is not None)

    @cached_property
    def computed_from(self) -> frozenset[str]:
        """The attributes that an update must know to write the computed key attributes."""
        names = frozenset[str]().union(*(template.attribute_names for _, template in self.computed))
        return names | {self.only[0].name} if self.only else names

    @cached_property
    def attribute_names(self) -> frozenset[str]:
        """All attributes that occur in the key."""
        return self.partition.attribute_names | (self.sort.attribute_names if self.sort else frozenset())

    @cached_property
    def argument_names(self) -> tuple[str, ...]:
        """The attributes whose values the arguments of a call determine, in order."""
        slots = (*self.partition.slots, *(self.sort.slots if self.sort else ()))
        return tuple(slot.attribute.name for slot in slots if slot.is_attribute_value)

    def is_excluded(self, known: Mapping[str, Any]) -> bool:
        """Return True if the known values are enough to say that the item is not in the index."""
        if self.only is not None:
            attribute, values = self.only
            if attribute.name in known and known[attribute.name] not in values:
                return True
        names = frozenset[str]().union(*(template.attribute_names for _, template in self.computed))
        return any(name in known and known[name] is None for name in names)

    def compute_values(self, lookup: Callable[[str], Any]) -> dict[str, Value]:
        """Return the computed key attributes from the attributes that `lookup` returns.

        All are None if the item is not in the index.
        """
        if self.only is not None and lookup(self.only[0].name) not in self.only[1]:
            return {name: None for name, _ in self.computed}
        found = {name: template.build_from_attributes(lookup) for name, template in self.computed}
        return dict.fromkeys(found) if None in found.values() else found


@dataclass(frozen=True, eq=False)
class LifetimeDeclaration:
    """The end of an item's life: a duration after the time in an attribute."""

    stored_name: str
    attribute: Attribute
    after: timedelta

    def compute_expiry(self, moment: datetime | None) -> Value:
        """Return the expiry in epoch seconds; None if the attribute is absent.

        Raise `InvalidRequest` beyond the last year.
        """
        try:
            return None if moment is None else to_epoch_seconds(moment + self.after)
        except OverflowError as error:
            raise InvalidRequest(
                f"Invalid lifetime: {moment} plus {self.after} is later than the last supported year. Use an "
                "earlier start, or leave the attribute absent if the item does not expire."
            ) from error


@dataclass(frozen=True, eq=False)
class Declaration:
    """The resolved declaration of one entity."""

    entity: type[Entity]
    table: Table
    attributes: Mapping[str, Attribute]
    primary: KeyDeclaration
    indexes: tuple[KeyDeclaration, ...]
    lifetime: LifetimeDeclaration | None
    # The stored names of key attributes and of the expiry that are computed from other attributes.
    computed_names: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        names = {name for key in (self.primary, *self.indexes) for name, _ in key.computed}
        if self.lifetime is not None:
            names.add(self.lifetime.stored_name)
        object.__setattr__(self, "computed_names", frozenset(names))

    @cached_property
    def by_stored_name(self) -> dict[str, Attribute]:
        """The attributes by their stored names."""
        return {attribute.stored_name: attribute for attribute in self.attributes.values()}

    @cached_property
    def datetime_names(self) -> tuple[str, ...]:
        """The attributes that may contain a datetime, at any depth."""
        return tuple(each.name for each in self.attributes.values() if may_contain_datetime(each.annotation))

    @property
    def discriminator(self) -> nodes.Condition | None:
        """The condition that separates these items from other entities' items in the table, by the constants
        of their key.

        None if the entity is alone in its table, or its key has no constants.
        """
        tests: list[nodes.Condition] = []
        for name, template in self.primary.computed if len(self.table.entities) > 1 else ():
            start = nodes.Literal(template.constant_prefix)
            if not template.slots:
                tests.append(nodes.Compare("=", nodes.Path(name), start))
            elif template.constant_prefix:
                tests.append(nodes.BeginsWith(nodes.Path(name), start))
        return nodes.And(tuple(tests)) if len(tests) > 1 else next(iter(tests), None)

    def to_item(self, entity: Entity) -> Item:
        """Return the item of an entity: its attributes, undeclared attributes it was read with, keys and
        expiry.
        """
        item = self._encode(entity)
        item |= {n: value for n, value in entity.unknown_attributes.items() if n not in self.by_stored_name}

        def lookup(name: str) -> Any:
            return getattr(entity, name)

        for name, template in self.primary.computed:
            item[name] = template.build_from_attributes(lookup)
        for key in self.indexes:
            item |= {name: value for name, value in key.compute_values(lookup).items() if value is not None}
        if self.lifetime is not None:
            ends = self.lifetime.compute_expiry(lookup(self.lifetime.attribute.name))
            item |= {} if ends is None else {self.lifetime.stored_name: ends}
        return item

    def _encode(self, entity: Entity) -> Item:
        """Return the entity's own attributes in their stored form; raise `InvalidRequest` for an invalid
        one.
        """
        try:
            dumped = entity.__pydantic_serializer__.to_python(entity, by_alias=True)
            return {name: encode_value(value) for name, value in dumped.items() if not is_absent(value)}
        except ValueError as error:
            for name, attribute in self.attributes.items():
                if not is_absent(getattr(entity, name)):
                    attribute.encode(getattr(entity, name))  # the invalid one raises, with its name
            raise InvalidRequest(f"Invalid {self.entity.__name__}: {_format_reason(error)}") from error

    def from_item(self, item: Item) -> Entity:
        """Return the entity of a stored item.

        Attributes that are not declared are kept as `unknown_attributes`. Raise `ItemUnreadable` if the item
        does not fit the entity, or could not be written back under its key.
        """
        known, unknown = {}, {}
        for name, value in item.items():
            if name in self.by_stored_name:
                known[name] = value
            elif name not in self.computed_names:
                unknown[name] = value
        try:
            entity = self.entity.model_validate(known, by_alias=True, by_name=False)
        except ValidationError as error:
            raise ItemUnreadable(self.table.name, self.extract_key(item), format_error(error)) from error
        check_round_trip(self, entity, item)
        if unknown:
            entity.keep_unknown(unknown)
        return entity

    def get_default(self, attribute: Attribute) -> Any:
        """Return the value of an attribute that an item lacks.

        Raise `ItemUnreadable` if it has no default.
        """
        field = self.entity.model_fields[attribute.name]
        if field.is_required():
            raise ItemUnreadable(self.table.name, {}, f"{attribute.name}: field required")
        return field.get_default(call_default_factory=True)

    def extract_key(self, item: Item) -> Item:
        """Return the primary key of an item under its stored names."""
        return {name: item[name] for name in (self.table.partition, self.table.sort) if name and name in item}

    def compute_key_changes(
        self, known: Mapping[str, Any], changed: frozenset[str], *, may_create: bool = False
    ) -> dict[str, Value]:
        """Return the key attributes that an update must rewrite (None: remove), from the values it knows.

        An index key is written whole or not at all. Nothing is read: if a value is unknown, raise
        InvalidRequest with the attributes to add. An update that may create the item writes all its keys.
        """
        if may_create:
            self._refuse_incomplete(known.keys() | changed)
        writes: dict[str, Value] = {}
        for key in self.indexes:
            if key.is_excluded(known) and (may_create or key.computed_from & changed):
                writes |= {name: None for name, _ in key.computed}
                continue
            missing = sorted(key.computed_from - known.keys())
            if missing and (key.computed_from & changed or (may_create and not self._can_be_absent(missing))):
                raise InvalidRequest(self._explain_missing(key, changed, missing))
            if not missing and (may_create or key.computed_from & changed):
                writes |= key.compute_values(known.__getitem__)
        for name in (self.table.partition, self.table.sort):
            writes.pop(name or "", None)  # an index may share an attribute with the primary key
        return writes | self._compute_lifetime_change(known, changed, may_create)

    def _compute_lifetime_change(
        self, known: Mapping[str, Any], changed: frozenset[str], may_create: bool
    ) -> dict[str, Value]:
        """Return the expiry that an update must write; empty if it does not change.

        Raise if the start is unknown.
        """
        if self.lifetime is None:
            return {}
        name = self.lifetime.attribute.name
        if name in known:
            touched = may_create or name in changed
            return {self.lifetime.stored_name: self.lifetime.compute_expiry(known[name])} if touched else {}
        if name in changed or (may_create and not self._can_be_absent([name])):
            raise InvalidRequest(
                f"Missing {name}: the lifetime of {self.entity.__name__} is computed from it. Add "
                f"set({name}, …), so that the expiry is written too."
            )
        return {}

    def _can_be_absent(self, names: Iterable[str]) -> bool:
        """Return True if a new item may lack one of these attributes, so that it is not in the index."""
        return any(self.attributes[name].is_optional for name in names)

    def _refuse_incomplete(self, given: Set[str]) -> None:
        """Raise `InvalidRequest` unless the update sets every attribute without a default."""
        fields = self.entity.model_fields
        if missing := [name for name in fields if fields[name].is_required() and name not in given]:
            raise InvalidRequest(
                f"Missing {join_words(missing)}: this update may create a {self.entity.__name__}, which "
                "requires them. Set every attribute without a default, or leave out or_create()."
            )

    def _explain_missing(self, key: KeyDeclaration, changed: frozenset[str], missing: list[str]) -> str:
        """Return the error text for an update that changes an index key without knowing all of its
        attributes.
        """
        assert key.index is not None
        touched = sorted(key.computed_from & changed)
        does = f"changes {join_words(touched)} of" if touched else "may create a"
        return (
            f"This update {does} {self.entity.__name__}, and the key of the index {key.index.name} is "
            f"computed from {join_words(sorted(key.computed_from))}: "
            f"{self._format_remedy(missing, changed)}. An update does not "
            "read the item first."
        )

    def _format_remedy(self, missing: list[str], changed: frozenset[str]) -> str:
        """Return how to supply the missing attributes.

        A primary key attribute can only be passed as current; one that is changed to an unknown value must be
        set instead.
        """
        fixed = [name for name in missing if name in self.primary.attribute_names]
        blind = [name for name in missing if name in changed and name not in fixed]
        free = [name for name in missing if name not in (*fixed, *blind)]
        call = f"with_current({self.entity.__name__}.{{}}, …)"
        ways = (
            [f"pass the current value of {join_words(fixed)} with {call.format(fixed[0])}"] if fixed else []
        )
        ways += [f"set {join_words(blind)} to a known value"] if blind else []
        ways += (
            [f"also set {join_words(free)}, or pass its current value with {call.format(free[0])}"]
            if free
            else []
        )
        return "; ".join(ways)


def _is_computed(name: str, template: Template) -> bool:
    """Return True unless the key attribute is simply an attribute of the entity."""
    attribute = template.sole_attribute
    return attribute is None or attribute.stored_name != name


def format_error(error: ValidationError) -> str:
    """Return Pydantic's errors in one line."""
    return "; ".join(
        ": ".join(
            filter(None, (".".join(map(str, each["loc"])), f"{each['msg'][0].lower()}{each['msg'][1:]}"))
        )
        for each in error.errors(include_url=False, include_context=False)
    )


def _format_reason(error: Exception) -> str:
    """Return the error in one line; of a serializer's error, its cause."""
    if isinstance(error, ValidationError):
        return format_error(error)
    # If one of our serializers refused the value, its message is in the cause.
    return str(error.__cause__ or error)
