"""Entities: frozen Pydantic models that know their table, their keys and their attributes as expressions.

The metaclass takes the keys and `attr()` marks out of the class body, lets Pydantic make the model, and resolves
the rest into a `Declaration`. `Booking.status` is then served from the metaclass, because Pydantic keeps no class
attribute of that name.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, dataclass_transform, get_origin

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError
from pydantic.errors import PydanticUndefinedAnnotation
from pydantic.fields import FieldInfo

from holdfast.errors import DeclarationError, InvalidRequest
from holdfast.model.annotations import annotated, documents_in, is_datetime, is_optional, listed
from holdfast.model.attributes import AttributeSpec, OptionalRef, Ref, attr
from holdfast.model.declaration import (
    Attribute,
    Declaration,
    KeyDeclaration,
    LifetimeDeclaration,
    told,
)
from holdfast.model.encoding import keeps_seconds
from holdfast.model.keys import BoundIndex, BoundKey, IndexKey, Key, Lifetime, check_fits
from holdfast.model.overlaps import get_in_each_others_way
from holdfast.model.reads import Scan
from holdfast.model.tables import Table
from holdfast.model.templates import Only, Template, template
from holdfast.model.writes import Put
from holdfast.operations.values import Item, Value

if TYPE_CHECKING:
    from pydantic._internal._model_construction import ModelMetaclass
else:
    ModelMetaclass = type(BaseModel)

E = TypeVar("E", bound="Entity")
M = TypeVar("M", bound=BaseModel)

_CLASS_BODY: Final = (Key, IndexKey, Lifetime)


class Document(BaseModel):
    """A map inside an attribute. What newer code wrote into it is kept, though this code does not know it."""

    model_config = ConfigDict(frozen=True, extra="allow")

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy, with other values where `update` has them. Names and values are checked."""
        copied = super().model_copy(deep=deep)
        if not update:
            return copied
        kept = copied.__dict__ | (copied.model_extra or {})
        if strangers := sorted(update.keys() - kept.keys()):
            raise InvalidRequest(
                f"This {type(self).__name__} has no {', '.join(strangers)}: it has {listed(kept) if kept else 'nothing'}."
            )
        return _checked(type(self), kept | dict(update))


def _checked(cls: type[M], values: Mapping[str, Any]) -> M:
    try:
        return cls.model_validate(values, by_alias=False, by_name=True)
    except ValidationError as error:
        raise InvalidRequest(f"This {cls.__name__} cannot be: {told(error)}.") from error


@dataclass_transform(kw_only_default=True, field_specifiers=(attr,))
class EntityMeta(ModelMetaclass):
    """Makes the model, then its declaration."""

    def __new__(
        mcs,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        table: Table | None = None,
        **unknown: Any,
    ) -> Any:
        if unknown:
            raise DeclarationError(f"{name}: a class takes table=…, and {', '.join(unknown)} is not known.")
        if not isinstance(table, Table | None):
            raise DeclarationError(f"{name}: table=… takes a Table, and {table!r} is none.")
        body = {key: namespace.pop(key) for key in list(namespace) if isinstance(namespace[key], _CLASS_BODY)}
        specs = _taken_specs(namespace)
        cls: Any = super().__new__(mcs, name, bases, namespace)
        stored = {each: spec.stored for each, spec in specs.items() if spec.stored}
        type.__setattr__(cls, "__stored__", _inherited(cls, "__stored__") | stored)
        type.__setattr__(cls, "__body__", _inherited(cls, "__body__") | body)
        if table is not None:
            if not cls.__pydantic_complete__:
                _complete(cls)
            _declare(cls, table)
        return cls

    if not TYPE_CHECKING:

        def __getattr__(cls, name: str) -> Any:  # noqa: N805 - of a class, in its metaclass
            members = cls.__dict__.get("__members__")
            if members is not None and name in members:
                return members[name]
            if members is not None and not name.startswith("_"):
                raise AttributeError(_no_member(cls, name, members), name=name, obj=cls)
            return super().__getattr__(name)


def _no_member(cls: type, name: str, members: Mapping[str, Any]) -> str:
    near = get_close_matches(name, members, n=1)
    meant = f"did you mean {cls.__name__}.{near[0]}?" if near else f"it has {listed(members)}."
    return f"{cls.__name__} has no attribute {name!r}: {meant}"


def _complete(cls: Any) -> None:
    """Finds names in annotations that are local to the function in which the class stands: our frames hide it."""
    try:
        cls.model_rebuild(_parent_namespace_depth=4)
    except PydanticUndefinedAnnotation as error:
        raise DeclarationError(
            f"{cls.__name__} has an attribute of the type {error.name}, which is not defined: define it above the class."
        ) from error


def _taken_specs(namespace: dict[str, Any]) -> dict[str, AttributeSpec[Any]]:
    """The marks that `attr()` left, named; in their place stands what Pydantic understands."""
    specs = {name: value for name, value in namespace.items() if isinstance(value, AttributeSpec)}
    for name, spec in specs.items():
        object.__setattr__(spec, "name", name)
        namespace[name] = Field(**spec.settings)
    return specs


def _inherited(cls: type, name: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__[1:]):
        found |= base.__dict__.get(name, {})
    return found


def _declare(cls: Any, table: Table) -> None:
    _refuse_names_of_ours(cls)
    attributes = _attributes(cls, table)
    body: dict[str, Any] = cls.__body__
    keys = {name: part for name, part in body.items() if isinstance(part, Key)}
    if len(keys) != 1:
        raise DeclarationError(
            f"{cls.__name__} has {len(keys)} primary keys: write one, as of = Key({table.partition}"
            f"{', ' + table.sort if table.sort else ''})."
        )
    primary = _primary(cls, table, next(iter(keys.values())), attributes)
    indexes = {
        name: _index(cls, table, part, attributes)
        for name, part in body.items()
        if isinstance(part, IndexKey)
    }
    _refuse_two_meanings(cls, attributes, (primary, *indexes.values()))
    declaration = Declaration(
        cls, table, attributes, primary, tuple(indexes.values()), _lifetime(cls, table, body, attributes)
    )
    members: dict[str, Any] = {
        name: (OptionalRef if attribute.is_optional else Ref)(cls, attribute)
        for name, attribute in attributes.items()
    }
    members |= {name: BoundKey(declaration, primary) for name in keys}
    members |= {name: BoundIndex(declaration, key) for name, key in indexes.items()}
    type.__setattr__(cls, "__declaration__", declaration)
    type.__setattr__(cls, "__members__", members)
    _take_place(cls, table, declaration)


def _take_place(cls: Any, table: Table, declaration: Declaration) -> None:
    """Beside the other entities of the table. A class written anew, as in a notebook, takes the place of the old one."""
    others = [other for other in table.entities if _full_name(other) != _full_name(cls)]
    for other in others:
        # A class and one derived from it see the same items, in more or less detail.
        is_kin = issubclass(cls, other) or issubclass(other, cls)
        if not is_kin and get_in_each_others_way(declaration.primary, declaration_of(other).primary):
            raise DeclarationError(
                f"{cls.__name__} and {other.__name__} are kept in table {table.name}, and by their keys an item or a "
                f"query of one can be taken for that of the other: begin the sort key of one with a constant that no "
                f"key of the other begins with, as '{cls.__name__.upper()}{table.separator}'."
            )
    table.entities[:] = [*others, cls]


def _full_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _attributes(cls: Any, table: Table) -> dict[str, Attribute]:
    """Every field with its stored name; Pydantic is told of that name too, for reading and writing items."""
    found: dict[str, Attribute] = {}
    for name, info in cls.model_fields.items():
        stored = cls.__stored__.get(name) or table.names(name)
        info.validation_alias = info.serialization_alias = info.alias = stored
        info.alias_priority = 2
        _refuse_lossy_documents(cls, name, info.annotation)
        _default_to_absence(cls, name, info)
        found[name] = Attribute(name, stored, annotated(info), is_optional(info.annotation))
    names = [attribute.stored for attribute in found.values()]
    if twice := sorted({stored for stored in names if names.count(stored) > 1}):
        raise DeclarationError(
            f"{cls.__name__} stores two attributes under {', '.join(twice)}: name one with attr(…)."
        )
    cls.model_rebuild(force=True)
    return found


def _default_to_absence(cls: Any, name: str, info: FieldInfo) -> None:
    """None and an empty set are kept as absence, and so absence must be read as them and nothing else."""
    kind = get_origin(info.annotation)
    if not is_optional(info.annotation) and kind not in (frozenset, set):
        return
    if info.is_required():
        info.default = None if is_optional(info.annotation) else frozenset()
    elif info.get_default(call_default_factory=True):
        raise DeclarationError(
            f"{cls.__name__}.{name} can be absent, and would then be read as its default: let that be "
            f"{'None' if is_optional(info.annotation) else 'an empty set'}, and write the other value out."
        )


def _refuse_lossy_documents(cls: Any, name: str, annotation: Any) -> None:
    for document in documents_in(annotation):
        if document.model_config.get("extra") != "allow":
            raise DeclarationError(
                f"{cls.__name__}.{name} holds a {document.__name__}, which forgets members that it does not know, and "
                f"would lose what newer code wrote: derive {document.__name__} from holdfast.Document."
            )
        for member, info in document.model_fields.items():
            is_set = get_origin(info.annotation) in (frozenset, set)
            if is_set and (info.is_required() or info.get_default(call_default_factory=True)):
                raise DeclarationError(
                    f"{document.__name__}.{member} is a set, and an empty one is kept as absence: give it the default "
                    "frozenset(), so that absence is read as that."
                )


def _refuse_two_meanings(
    cls: Any, attributes: dict[str, Attribute], keys: tuple[KeyDeclaration, ...]
) -> None:
    """One stored name holds one thing: an attribute, or a key of one making."""
    indexes = [key.index.name for key in keys if key.index is not None]
    if twice := sorted({name for name in indexes if indexes.count(name) > 1}):
        raise DeclarationError(
            f"{cls.__name__} has two keys for the index {', '.join(twice)}: an item has one."
        )
    stored = {attribute.stored: attribute.name for attribute in attributes.values()}
    shapes: dict[str, object] = {}
    for name, made in ((name, made) for key in keys for name, made in key.computed):
        if name in stored:
            raise DeclarationError(
                f"{cls.__name__} keeps the attribute {stored[name]} under {name}, which is also a key that is made "
                f"of other things: store the attribute under another name with attr(…), or make the key of it alone."
            )
        if shapes.setdefault(name, made.shape) != made.shape:
            raise DeclarationError(
                f"{cls.__name__} makes the key attribute {name} in two ways: name another for one of the indexes."
            )


def _refuse_names_of_ours(cls: Any) -> None:
    for name in (*cls.model_fields, *cls.__body__):
        if hasattr(Entity, name):
            raise DeclarationError(
                f"{cls.__name__}.{name} has the name of something every entity has: call it otherwise in Python, and "
                f"give the stored name with attr({name!r})."
            )


def _primary(cls: Any, table: Table, part: Any, attributes: dict[str, Attribute]) -> KeyDeclaration:
    where = f"{cls.__name__} in table {table.name}"
    key = KeyDeclaration(
        table.partition,
        template(part.partition, table.separator, attributes, where),
        table.sort,
        _sort_template(part, table, attributes, where),
    )
    check_fits(key, where, (table.partition_type, table.sort_type))
    for attribute in (slot.attribute for part in (key.partition, key.sort) if part for slot in part.slots):
        if attribute.is_optional:
            raise DeclarationError(f"{where}: {attribute.name} may be absent, and a primary key may not.")
    return key


def _index(
    cls: Any, table: Table, part: IndexKey[Any, Any], attributes: dict[str, Attribute]
) -> KeyDeclaration:
    where = f"{cls.__name__} in index {part.index.name}"
    if part.index.table is not table:
        raise DeclarationError(
            f"{where}: the index belongs to table {part.index.table.name}, not to {table.name}."
        )
    key = KeyDeclaration(
        part.index.partition,
        template(part.partition, table.separator, attributes, where),
        part.index.sort,
        _sort_template(part, table, attributes, where),
        part.index,
        _only(part.only, attributes),
    )
    check_fits(key, where, (part.index.partition_type, part.index.sort_type))
    return key


def _sort_template(part: Any, table: Table, attributes: dict[str, Attribute], where: str) -> Template | None:
    return None if part.sort is None else template(part.sort, table.separator, attributes, where)


def _only(only: Only | None, attributes: dict[str, Attribute]) -> tuple[Attribute, tuple[Any, ...]] | None:
    return None if only is None else (attributes[only.spec.name], only.values)


def _lifetime(
    cls: Any, table: Table, body: dict[str, Any], attributes: dict[str, Attribute]
) -> LifetimeDeclaration | None:
    found = [part for part in body.values() if isinstance(part, Lifetime)]
    _refuse_endless_lives(cls, table, attributes)
    if not found:
        return None
    if len(found) > 1 or table.ttl is None:
        raise DeclarationError(
            f"{cls.__name__} declares a lifetime: it may have one, and its table says in which attribute the end "
            f"is kept: Table({table.name!r}, …, ttl='expires_at')."
        )
    if table.ttl in {attribute.stored for attribute in attributes.values()}:
        raise DeclarationError(
            f"{cls.__name__} keeps an attribute under {table.ttl}, where the end of its lifetime is written: store it "
            "under another name with attr(…), or keep the end there yourself, as EpochSeconds, without a Lifetime."
        )
    spec: Any = found[0].attribute
    attribute = attributes[spec.name]
    if not is_datetime(attribute.annotation):
        raise DeclarationError(
            f"{cls.__name__} has a lifetime from {attribute.name}, which is no datetime: keep the moment from which it "
            "counts, as a datetime, Seconds or EpochSeconds."
        )
    return LifetimeDeclaration(table.ttl, attribute, found[0].after)


def _refuse_endless_lives(cls: Any, table: Table, attributes: dict[str, Attribute]) -> None:
    """The service looks for a number under the table's `ttl`, and passes over everything else without a word."""
    for attribute in attributes.values():
        if attribute.stored == table.ttl and not keeps_seconds(attribute.annotation):
            raise DeclarationError(
                f"{cls.__name__} keeps {attribute.name} under {table.ttl}, by which the table ends lives, and it is no "
                "number of seconds: declare it as EpochSeconds, or store it under another name with attr(…)."
            )


class Entity(BaseModel, metaclass=EntityMeta):
    """One kind of item. Derive from it with `table=`; give it attributes, a `Key` and the keys of its indexes."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_by_name=True, validate_by_alias=True, validate_default=True
    )

    _unknown: dict[str, Value] = PrivateAttr(default_factory=dict)

    if TYPE_CHECKING:

        def __init_subclass__(cls, *, table: Table | None = None) -> None: ...

    @classmethod
    def put(cls: type[E], entity: E) -> Put[E]:
        """Puts an entity in the place of its key, over whatever is there."""
        if not isinstance(entity, cls):
            raise DeclarationError(
                f"{cls.__name__}.put takes a {cls.__name__}, not a {type(entity).__name__}."
            )
        return Put(declaration_of(cls), entity)

    @classmethod
    def create(cls: type[E], entity: E) -> Put[E]:
        """Puts an entity where there is none; a key that exists is refused with ConditionFailed."""
        return cls.put(entity).if_absent()

    @classmethod
    def scan(cls: type[E], *, reason: str) -> Scan[E]:
        """Reads everything. `reason` says why no key will do, for whoever reads the design check."""
        if not reason.strip():
            raise DeclarationError(f"A scan of {cls.__name__} must say why no key will do: scan(reason='…').")
        declaration = declaration_of(cls)
        return Scan(declaration, reason=reason, filter=declaration.among_others)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy, with other values where `update` has them. Names and values are checked, as in the constructor."""
        copied = super().model_copy(deep=deep)
        if not update:
            return copied
        changed = _checked(type(self), copied.__dict__ | dict(update))
        changed.keep_unknown(copied.unknown_attributes)
        return changed

    @property
    def unknown_attributes(self) -> Mapping[str, Value]:
        """What was read with this entity and is not declared; it is written back with it."""
        return self._unknown

    def keep_unknown(self, attributes: Mapping[str, Value]) -> None:
        self._unknown.update(attributes)

    def to_item(self) -> Item:
        """The item as it is stored, with its keys."""
        return declaration_of(type(self)).to_item(self)

    @classmethod
    def from_item(cls: type[E], item: Item) -> E:
        """An entity from an item as it is stored."""
        return declaration_of(cls).from_item(item)  # type: ignore[return-value]


def declaration_of(entity: type[Entity]) -> Declaration:
    declaration: Declaration | None = entity.__dict__.get("__declaration__")
    if declaration is None:
        raise DeclarationError(
            f"{entity.__name__} has no table: declare it with class {entity.__name__}(Entity, table=…)."
        )
    return declaration
