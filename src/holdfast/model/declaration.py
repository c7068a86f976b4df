"""What an entity's class body said, resolved: its attributes, its keys, its lifetime.

The metaclass makes one `Declaration` per entity. It turns an entity into an item and back, and says which key
attributes a partial update must write anew. It never reads from a store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from pydantic import TypeAdapter, ValidationError

from holdfast.errors import InvalidRequest, ItemUnreadable
from holdfast.model.annotations import (
    element_type,
    is_optional,
    key_tag,
    listed,
    may_hold_times,
    member_type,
)
from holdfast.model.encoding import encode, epoch_seconds, is_absent
from holdfast.model.fidelity import refuse_unfaithful, without_zone
from holdfast.model.tables import Index, Table
from holdfast.model.templates import Template
from holdfast.operations.expressions import nodes
from holdfast.operations.tables.schema import KeyTag
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
            told = value.isoformat() if isinstance(value, datetime) else repr(value)
            raise InvalidRequest(f"{self.name} cannot be {told}: {_reason(error)}") from error

    def decode(self, value: Value) -> Any:
        """A stored value as the attribute has it."""
        try:
            decoded = self._adapter.validate_python(value)
        except ValidationError as error:
            raise ItemUnreadable("a selection", {}, f"{self.name}: {told(error)}") from error
        if reason := without_zone(decoded):
            raise ItemUnreadable("a selection", {}, f"{self.name}: {reason}")
        return decoded

    @cached_property
    def tag(self) -> KeyTag | None:
        """What the attribute would be as a key: text, number or binary; None where its type does not tell."""
        return key_tag(self.annotation)

    @cached_property
    def element(self) -> Attribute:
        """One element of a list or set, to be encoded as it is inside the whole."""
        return Attribute(self.name, self.stored, element_type(self.annotation), False)

    def inside(self, steps: Iterable[str | int]) -> tuple[tuple[str | int, ...], Attribute]:
        """Steps into a document, with each member under the name it is stored by; and the place they lead to."""
        found, kind = [], self.annotation
        for step in steps:
            kind, name = member_type(kind, step)
            found.append(name)
        return tuple(found), Attribute(self.name, self.stored, kind, is_optional(kind))


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
        return tuple((name, template) for name, template in self.templates if _is_computed(name, template))

    @cached_property
    def templates(self) -> tuple[tuple[str, Template], ...]:
        """Both key attributes, or the one there is, with what they are made of."""
        both = ((self.partition_name, self.partition), (self.sort_name, self.sort))
        return tuple((name, template) for name, template in both if name is not None and template is not None)

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
        return tuple(slot.attribute.name for slot in slots if slot.tells_attribute)

    def is_left(self, known: Mapping[str, Any]) -> bool:
        """Whether what is known is enough to say that the item is not in the index."""
        if self.only is not None:
            attribute, values = self.only
            if attribute.name in known and known[attribute.name] not in values:
                return True
        names = frozenset[str]().union(*(template.names for _, template in self.computed))
        return any(name in known and known[name] is None for name in names)

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
        try:
            return None if moment is None else epoch_seconds(moment + self.after)
        except OverflowError as error:
            raise InvalidRequest(
                f"A life that begins at {moment} and lasts {self.after} ends after the last year there is: begin it "
                "earlier, or leave the attribute absent where it does not end."
            ) from error


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

    @cached_property
    def names_of_times(self) -> tuple[str, ...]:
        """The attributes in which a time may be, however deep."""
        return tuple(each.name for each in self.attributes.values() if may_hold_times(each.annotation))

    @property
    def among_others(self) -> nodes.Condition | None:
        """What tells these items from those of other entities in the same table: the constants of their key."""
        tests: list[nodes.Condition] = []
        for name, made in self.primary.computed if len(self.table.entities) > 1 else ():
            start = nodes.Literal(made.start)
            if not made.slots:
                tests.append(nodes.Compare("=", nodes.Path(name), start))
            elif made.start:
                tests.append(nodes.BeginsWith(nodes.Path(name), start))
        return nodes.And(tuple(tests)) if len(tests) > 1 else next(iter(tests), None)

    def to_item(self, entity: Entity) -> Item:
        """The item of an entity: its attributes, what was read and not understood, and its keys."""
        item = self._encoded(entity)
        item |= {n: value for n, value in entity.unknown_attributes.items() if n not in self.by_stored_name}

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

    def _encoded(self, entity: Entity) -> Item:
        try:
            dumped = entity.__pydantic_serializer__.to_python(entity, by_alias=True)
            return {name: encode(value) for name, value in dumped.items() if not is_absent(value)}
        except ValueError as error:
            for name, attribute in self.attributes.items():
                if not is_absent(getattr(entity, name)):
                    attribute.encode(getattr(entity, name))  # one of them raises, and names itself
            raise InvalidRequest(f"This {self.entity.__name__} cannot be kept: {_reason(error)}") from error

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
            raise ItemUnreadable(self.table.name, self.key_of(item), told(error)) from error
        refuse_unfaithful(self, entity, item)
        if unknown:
            entity.keep_unknown(unknown)
        return entity

    def default_of(self, attribute: Attribute) -> Any:
        """What an attribute is where an item has none."""
        field = self.entity.model_fields[attribute.name]
        if field.is_required():
            raise ItemUnreadable(self.table.name, {}, f"{attribute.name}: field required")
        return field.get_default(call_default_factory=True)

    def key_of(self, item: Item) -> Item:
        """The primary key of an item, as its stored attributes."""
        return {name: item[name] for name in (self.table.partition, self.table.sort) if name and name in item}

    def key_changes(
        self, known: Mapping[str, Any], changed: frozenset[str], *, may_create: bool = False
    ) -> dict[str, Value]:
        """The key attributes that an update must write anew (None: remove), from what it knows alone.

        An index key is written whole or not at all. What the update does not know is never read behind its
        back: it is refused, with the attributes to add. One that may make the item writes all its keys.
        """
        if may_create:
            self._refuse_unreadable(known.keys() | changed)
        writes: dict[str, Value] = {}
        for key in self.indexes:
            if key.is_left(known) and (may_create or key.uses & changed):
                writes |= {name: None for name, _ in key.computed}
                continue
            missing = sorted(key.uses - known.keys())
            if missing and (key.uses & changed or (may_create and not self._may_lack(missing))):
                raise InvalidRequest(self._refusal(key, changed, missing))
            if not missing and (may_create or key.uses & changed):
                writes |= key.values(known.__getitem__)
        for name in (self.table.partition, self.table.sort):
            writes.pop(name or "", None)  # an index may share an attribute with the primary key
        return writes | self._lifetime_change(known, changed, may_create)

    def _lifetime_change(
        self, known: Mapping[str, Any], changed: frozenset[str], may_create: bool
    ) -> dict[str, Value]:
        if self.lifetime is None:
            return {}
        name = self.lifetime.attribute.name
        if name in known:
            touched = may_create or name in changed
            return {self.lifetime.stored: self.lifetime.value(known[name])} if touched else {}
        if name in changed or (may_create and not self._may_lack([name])):
            raise InvalidRequest(
                f"The lifetime of {self.entity.__name__} is computed from {name}: give it a value with set(…), so "
                "that the end of life can be written with it."
            )
        return {}

    def _may_lack(self, names: Iterable[str]) -> bool:
        """Whether a new item is without one of these, and so not in the index."""
        return any(self.attributes[name].is_optional for name in names)

    def _refuse_unreadable(self, given: Set[str]) -> None:
        fields = self.entity.model_fields
        if missing := [name for name in fields if fields[name].is_required() and name not in given]:
            raise InvalidRequest(
                f"This update may make a {self.entity.__name__}, which cannot be read without {listed(missing)}: set "
                "what has no default, or leave or_create() out."
            )

    def _refusal(self, key: KeyDeclaration, changed: frozenset[str], missing: list[str]) -> str:
        assert key.index is not None
        touched = sorted(key.uses & changed)
        does = f"changes {listed(touched)} of" if touched else "may make a"
        return (
            f"This update {does} {self.entity.__name__}, and the key of the index {key.index.name} is made of "
            f"{listed(sorted(key.uses))}: {self._remedy(missing, changed)}. Nothing is read behind an update's back."
        )

    def _remedy(self, missing: list[str], changed: frozenset[str]) -> str:
        """One of the primary key can only be told; one that is changed blindly must be set instead."""
        fixed = [name for name in missing if name in self.primary.uses_of_key]
        blind = [name for name in missing if name in changed and name not in fixed]
        free = [name for name in missing if name not in (*fixed, *blind)]
        telling = f"knowing({self.entity.__name__}.{{}}, …)"
        ways = [f"tell what {listed(fixed)} is with {telling.format(fixed[0])}"] if fixed else []
        ways += [f"set {listed(blind)} to a value that is known"] if blind else []
        ways += [f"set {listed(free)} too, or tell what it is with {telling.format(free[0])}"] if free else []
        return "; ".join(ways)


def _is_computed(name: str, template: Template) -> bool:
    attribute = template.only_attribute
    return attribute is None or attribute.stored != name


def told(error: ValidationError) -> str:
    """What Pydantic found wrong, in one line."""
    return "; ".join(
        ": ".join(
            filter(None, (".".join(map(str, each["loc"])), f"{each['msg'][0].lower()}{each['msg'][1:]}"))
        )
        for each in error.errors(include_url=False, include_context=False)
    )


def _reason(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return told(error)
    # Where a serialiser of ours refused, its own words are the cause.
    return str(error.__cause__ or error)
