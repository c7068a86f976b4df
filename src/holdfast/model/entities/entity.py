"""Entities: frozen Pydantic models that know their table, their keys and their attributes as expressions.

The metaclass takes keys and `attr()` specs out of the class body, lets Pydantic build the model, and resolves
the rest into a `Declaration`. The metaclass also serves `Booking.status`, because Pydantic keeps no class
attribute of that name.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, dataclass_transform, get_origin

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError
from pydantic.errors import PydanticUndefinedAnnotation
from pydantic.fields import FieldInfo

from holdfast.core.errors import DeclarationError, InvalidRequest
from holdfast.model.entities.annotations import (
    find_documents,
    get_annotated_type,
    is_datetime,
    is_optional,
    join_words,
)
from holdfast.model.entities.attributes import AttributeSpec, OptionalRef, Ref, attr
from holdfast.model.entities.declaration import (
    Attribute,
    Declaration,
    KeyDeclaration,
    LifetimeDeclaration,
    format_error,
)
from holdfast.model.entities.encoders import can_hold_expiry
from holdfast.model.entities.key_conflicts import can_conflict
from holdfast.model.entities.key_templates import IndexFilter, Template, build_template
from holdfast.model.entities.keys import BoundIndex, BoundKey, IndexKey, Key, Lifetime, check_key_fits
from holdfast.model.entities.reads import Scan
from holdfast.model.entities.writes import Put
from holdfast.model.tables import Table
from holdfast.operations.values import Item, Value

if TYPE_CHECKING:
    from pydantic._internal._model_construction import ModelMetaclass
else:
    ModelMetaclass = type(BaseModel)

E = TypeVar("E", bound="Entity")
M = TypeVar("M", bound=BaseModel)

_KEY_DECLARATIONS: Final = (Key, IndexKey, Lifetime)


class Document(BaseModel):
    """A map inside an attribute.

    Members that newer code wrote are kept, even if this code does not declare them.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with the values of `update`.

        Names and values are validated; an error is an `InvalidRequest`.
        """
        copied = super().model_copy(deep=deep)
        if not update:
            return copied
        kept = copied.__dict__ | (copied.model_extra or {})
        if strangers := sorted(update.keys() - kept.keys()):
            raise InvalidRequest(
                f"{type(self).__name__} has no member {', '.join(strangers)}: expected "
                f"{join_words(kept) if kept else 'none'}."
            )
        return _validate(type(self), kept | dict(update))


def _validate(cls: type[M], values: Mapping[str, Any]) -> M:
    """Return the model from values by Python name; raise `InvalidRequest` if they are invalid."""
    try:
        return cls.model_validate(values, by_alias=False, by_name=True)
    except ValidationError as error:
        raise InvalidRequest(f"Invalid {cls.__name__}: {format_error(error)}.") from error


@dataclass_transform(kw_only_default=True, field_specifiers=(attr,))
class EntityMeta(ModelMetaclass):
    """The metaclass that builds the Pydantic model, then its declaration."""

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
            raise DeclarationError(
                f"Unknown class argument of {name}: {', '.join(unknown)}. Expected table=…."
            )
        if not isinstance(table, Table | None):
            raise DeclarationError(f"Invalid table={table!r} of {name}: expected a Table.")
        body = {
            key: namespace.pop(key)
            for key in list(namespace)
            if isinstance(namespace[key], _KEY_DECLARATIONS)
        }
        specs = _take_specs(namespace)
        cls: Any = super().__new__(mcs, name, bases, namespace)
        stored = {each: spec.stored for each, spec in specs.items() if spec.stored}
        type.__setattr__(cls, "__stored__", _collect_inherited(cls, "__stored__") | stored)
        type.__setattr__(cls, "__body__", _collect_inherited(cls, "__body__") | body)
        if table is not None:
            if not cls.__pydantic_complete__:
                _resolve_annotations(cls)
            _declare(cls, table)
        return cls

    if not TYPE_CHECKING:

        def __getattr__(cls, name: str) -> Any:  # noqa: N805 - called on the class
            members = cls.__dict__.get("__members__")
            if members is not None and name in members:
                return members[name]
            if members is not None and not name.startswith("_"):
                raise AttributeError(_format_missing_member(cls, name, members), name=name, obj=cls)
            return super().__getattr__(name)


def _format_missing_member(cls: type, name: str, members: Mapping[str, Any]) -> str:
    """Return the error text for a misspelt attribute, with the closest name or all names."""
    near = get_close_matches(name, members, n=1)
    hint = f"did you mean {cls.__name__}.{near[0]}?" if near else f"it has {join_words(members)}."
    return f"{cls.__name__} has no attribute {name!r}: {hint}"


def _resolve_annotations(cls: Any) -> None:
    """Resolve names in annotations that are local to the enclosing function, which our frames hide from
    Pydantic.

    Raise `DeclarationError` for an undefined name.
    """
    try:
        cls.model_rebuild(_parent_namespace_depth=4)
    except PydanticUndefinedAnnotation as error:
        raise DeclarationError(
            f"Undefined type {error.name} in an annotation of {cls.__name__}: define it above the class."
        ) from error


def _take_specs(namespace: dict[str, Any]) -> dict[str, AttributeSpec[Any]]:
    """Return the `attr()` specs by name, and replace each in the namespace with Pydantic's `Field`."""
    specs = {name: value for name, value in namespace.items() if isinstance(value, AttributeSpec)}
    for name, spec in specs.items():
        object.__setattr__(spec, "name", name)
        namespace[name] = Field(**spec.settings)
    return specs


def _collect_inherited(cls: type, name: str) -> dict[str, Any]:
    """Merge the dictionaries that the base classes have under this name; nearer bases win."""
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__[1:]):
        found |= base.__dict__.get(name, {})
    return found


def _declare(cls: Any, table: Table) -> None:
    """Build the entity's declaration and its members, check both, and register the entity with its table."""
    _refuse_reserved_names(cls)
    attributes = _build_attributes(cls, table)
    body: dict[str, Any] = cls.__body__
    keys = {name: part for name, part in body.items() if isinstance(part, Key)}
    if len(keys) != 1:
        raise DeclarationError(
            f"{cls.__name__} has {len(keys)} primary keys: expected exactly one, such as of = "
            f"Key({table.partition}{', ' + table.sort if table.sort else ''})."
        )
    primary = _build_primary_key(cls, table, next(iter(keys.values())), attributes)
    indexes = {
        name: _build_index_key(cls, table, part, attributes)
        for name, part in body.items()
        if isinstance(part, IndexKey)
    }
    _refuse_ambiguous_names(cls, attributes, (primary, *indexes.values()))
    declaration = Declaration(
        cls,
        table,
        attributes,
        primary,
        tuple(indexes.values()),
        _build_lifetime(cls, table, body, attributes),
    )
    members: dict[str, Any] = {
        name: (OptionalRef if attribute.is_optional else Ref)(cls, attribute)
        for name, attribute in attributes.items()
    }
    members |= {name: BoundKey(declaration, primary) for name in keys}
    members |= {name: BoundIndex(declaration, key) for name, key in indexes.items()}
    type.__setattr__(cls, "__declaration__", declaration)
    type.__setattr__(cls, "__members__", members)
    _register(cls, table, declaration)


def _register(cls: Any, table: Table, declaration: Declaration) -> None:
    """Add the entity to its table; raise `DeclarationError` if its keys conflict with another entity's.

    A class that is defined again, as in a notebook, replaces the earlier one.
    """
    others = [other for other in table.entities if _get_full_name(other) != _get_full_name(cls)]
    for other in others:
        # A class and its subclass read the same items, in more or less detail.
        is_kin = issubclass(cls, other) or issubclass(other, cls)
        if not is_kin and can_conflict(declaration.primary, get_declaration(other).primary):
            raise DeclarationError(
                f"Conflicting keys of {cls.__name__} and {other.__name__} in table {table.name}: an item or "
                "a query of one can match the other. Begin the sort key of one with a constant that no key "
                f"of the other begins with, such as '{cls.__name__.upper()}{table.separator}'."
            )
    table.entities[:] = [*others, cls]


def _get_full_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _build_attributes(cls: Any, table: Table) -> dict[str, Attribute]:
    """Return every field as an attribute with its stored name, and set that name as Pydantic's alias.

    Raise `DeclarationError` if two have the same stored name.
    """
    found: dict[str, Attribute] = {}
    for name, info in cls.model_fields.items():
        stored = cls.__stored__.get(name) or table.naming(name)
        info.validation_alias = info.serialization_alias = info.alias = stored
        info.alias_priority = 2
        _refuse_lossy_documents(cls, name, info.annotation)
        _set_absent_default(cls, name, info)
        found[name] = Attribute(name, stored, get_annotated_type(info), is_optional(info.annotation))
    names = [attribute.stored_name for attribute in found.values()]
    if twice := sorted({stored for stored in names if names.count(stored) > 1}):
        raise DeclarationError(
            f"{cls.__name__} stores two attributes under {', '.join(twice)}: give one another name with "
            "attr(…)."
        )
    cls.model_rebuild(force=True)
    return found


def _set_absent_default(cls: Any, name: str, info: FieldInfo) -> None:
    """Make absence read as None or an empty set. Both are stored as absence, so any other default raises."""
    kind = get_origin(info.annotation)
    if not is_optional(info.annotation) and kind not in (frozenset, set):
        return
    if info.is_required():
        info.default = None if is_optional(info.annotation) else frozenset()
    elif info.get_default(call_default_factory=True):
        raise DeclarationError(
            f"Invalid default of {cls.__name__}.{name}: an absent attribute is read as its default, so "
            f"expected {'None' if is_optional(info.annotation) else 'an empty set'}. Set the other value "
            "explicitly."
        )


def _refuse_lossy_documents(cls: Any, name: str, annotation: Any) -> None:
    """Raise `DeclarationError` for documents that drop unknown members, or have a set without an empty
    default.
    """
    for document in find_documents(annotation):
        if document.model_config.get("extra") != "allow":
            raise DeclarationError(
                f"Invalid type of {cls.__name__}.{name}: {document.__name__} drops members that it does not "
                f"declare, and would lose what newer code wrote. Derive {document.__name__} from "
                "holdfast.Document."
            )
        for member, info in document.model_fields.items():
            is_set = get_origin(info.annotation) in (frozenset, set)
            if is_set and (info.is_required() or info.get_default(call_default_factory=True)):
                raise DeclarationError(
                    f"Missing default of {document.__name__}.{member}: an empty set is stored as absence. "
                    "Give it the default frozenset(), so that absence is read as an empty set."
                )


def _refuse_ambiguous_names(
    cls: Any, attributes: dict[str, Attribute], keys: tuple[KeyDeclaration, ...]
) -> None:
    """Raise `DeclarationError` unless each index has one key, and each stored name one attribute or one
    template.
    """
    indexes = [key.index.name for key in keys if key.index is not None]
    if twice := sorted({name for name in indexes if indexes.count(name) > 1}):
        raise DeclarationError(f"{cls.__name__} has two keys for the index {', '.join(twice)}: expected one.")
    stored = {attribute.stored_name: attribute.name for attribute in attributes.values()}
    shapes: dict[str, object] = {}
    for name, key_template in ((name, each) for key in keys for name, each in key.computed):
        if name in stored:
            raise DeclarationError(
                f"Conflict in {cls.__name__}: {name} is the stored name of the attribute {stored[name]} and "
                "also a computed key. Store the attribute under another name with attr(…), or use it alone "
                "as the key."
            )
        if shapes.setdefault(name, key_template.shape) != key_template.shape:
            raise DeclarationError(
                f"{cls.__name__} computes the key attribute {name} in two ways: use another key attribute "
                "for one of the indexes."
            )


def _refuse_reserved_names(cls: Any) -> None:
    """Raise DeclarationError for attributes that would hide a member of `Entity`."""
    for name in (*cls.model_fields, *cls.__body__):
        if hasattr(Entity, name):
            raise DeclarationError(
                f"Reserved name {cls.__name__}.{name}: every entity has a member of that name. Use another "
                f"Python name and keep the stored one with attr({name!r})."
            )


def _build_primary_key(cls: Any, table: Table, part: Any, attributes: dict[str, Attribute]) -> KeyDeclaration:
    """Return the primary key of the entity; raise `DeclarationError` if it does not fit the table or may be
    absent.
    """
    where = f"{cls.__name__} in table {table.name}"
    key = KeyDeclaration(
        table.partition,
        build_template(part.partition, table.separator, attributes, where),
        table.sort,
        _build_sort_template(part, table, attributes, where),
    )
    check_key_fits(key, where, (table.partition_type, table.sort_type))
    for attribute in (slot.attribute for part in (key.partition, key.sort) if part for slot in part.slots):
        if attribute.is_optional:
            raise DeclarationError(
                f"{where}: {attribute.name} may be absent, but the primary key is required. Remove `| None`."
            )
    return key


def _build_index_key(
    cls: Any, table: Table, part: IndexKey[Any, Any], attributes: dict[str, Attribute]
) -> KeyDeclaration:
    """Return an index key of the entity; raise `DeclarationError` if it does not fit its index."""
    where = f"{cls.__name__} in index {part.index.name}"
    if part.index.table is not table:
        raise DeclarationError(
            f"{where}: the index belongs to table {part.index.table.name}, not to {table.name}. Use an index "
            "of its own table."
        )
    key = KeyDeclaration(
        part.index.partition,
        build_template(part.partition, table.separator, attributes, where),
        part.index.sort,
        _build_sort_template(part, table, attributes, where),
        part.index,
        _resolve_filter(part.only, attributes),
    )
    check_key_fits(key, where, (part.index.partition_type, part.index.sort_type))
    return key


def _build_sort_template(
    part: Any, table: Table, attributes: dict[str, Attribute], where: str
) -> Template | None:
    """Return the template of the sort key, or None if the key has none."""
    return None if part.sort is None else build_template(part.sort, table.separator, attributes, where)


def _resolve_filter(
    only: IndexFilter | None, attributes: dict[str, Attribute]
) -> tuple[Attribute, tuple[Any, ...]] | None:
    """Return the attribute and the values of an index filter, or None."""
    return None if only is None else (attributes[only.spec.name], only.values)


def _build_lifetime(
    cls: Any, table: Table, body: dict[str, Any], attributes: dict[str, Attribute]
) -> LifetimeDeclaration | None:
    """Return the entity's lifetime, or None; raise `DeclarationError` if it is invalid."""
    found = [part for part in body.values() if isinstance(part, Lifetime)]
    _refuse_invalid_ttl(cls, table, attributes)
    if not found:
        return None
    if len(found) > 1 or table.ttl is None:
        raise DeclarationError(
            f"Invalid lifetime of {cls.__name__}: expected at most one, and a table with a time-to-live "
            f"attribute: Table({table.name!r}, …, ttl='expires_at')."
        )
    if table.ttl in {attribute.stored_name for attribute in attributes.values()}:
        raise DeclarationError(
            f"Conflict in {cls.__name__}: an attribute is stored under {table.ttl}, where its Lifetime "
            "writes the expiry. Store it under another name with attr(…), or drop the Lifetime and set the "
            "attribute yourself, as EpochSeconds."
        )
    spec: Any = found[0].attribute
    attribute = attributes[spec.name]
    if not is_datetime(attribute.annotation):
        raise DeclarationError(
            f"Invalid lifetime of {cls.__name__}: {attribute.name} is not a datetime. Use an attribute of "
            "type datetime, TimestampSeconds or EpochSeconds."
        )
    return LifetimeDeclaration(table.ttl, attribute, found[0].after)


def _refuse_invalid_ttl(cls: Any, table: Table, attributes: dict[str, Attribute]) -> None:
    """Raise `DeclarationError` if the table's `ttl` attribute is not a number: DynamoDB ignores others
    silently.
    """
    for attribute in attributes.values():
        if attribute.stored_name == table.ttl and not can_hold_expiry(attribute.annotation):
            raise DeclarationError(
                f"Invalid type of {cls.__name__}.{attribute.name}: it is stored under the table's ttl "
                f"attribute {table.ttl}, which needs epoch seconds. Declare it as EpochSeconds, or store it "
                "under another name with attr(…)."
            )


class Entity(BaseModel, metaclass=EntityMeta):
    """One kind of item. Derive from it with `table=`, and declare attributes, a `Key` and index keys."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_by_name=True, validate_by_alias=True, validate_default=True
    )

    _unknown: dict[str, Value] = PrivateAttr(default_factory=dict)

    if TYPE_CHECKING:

        def __init_subclass__(cls, *, table: Table | None = None) -> None: ...

    @classmethod
    def put(cls: type[E], entity: E) -> Put[E]:
        """Build the write of an entity under its key, replacing any item there."""
        if not isinstance(entity, cls):
            raise DeclarationError(
                f"Invalid argument of {cls.__name__}.put: expected a {cls.__name__}, got a "
                f"{type(entity).__name__}."
            )
        return Put(get_declaration(cls), entity)

    @classmethod
    def create(cls: type[E], entity: E) -> Put[E]:
        """Build the write of a new entity, which fails with `ConditionFailed` if its key exists."""
        return cls.put(entity).if_absent()

    @classmethod
    def scan(cls: type[E], *, reason: str) -> Scan[E]:
        """Build the read of all items of this entity.

        `reason` explains in the design check why no key serves.
        """
        if not reason.strip():
            raise DeclarationError(
                f"Missing reason for a scan of {cls.__name__}: explain why no key serves with "
                "scan(reason='…')."
            )
        declaration = get_declaration(cls)
        return Scan(declaration, reason=reason, filter=declaration.discriminator)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with the values of `update`. Names and values are validated as in the constructor."""
        copied = super().model_copy(deep=deep) if deep or not update else self
        if not update:
            return copied
        changed = _validate(type(self), copied.__dict__ | dict(update))
        if unknown := copied.unknown_attributes:
            changed.keep_unknown(unknown)
        return changed

    @property
    def unknown_attributes(self) -> Mapping[str, Value]:
        """The attributes that were read with this entity but are not declared.

        They are written back with it.
        """
        return self._unknown

    def keep_unknown(self, attributes: Mapping[str, Value]) -> None:
        """Add undeclared attributes, to be written back with the entity."""
        self._unknown.update(attributes)

    def to_item(self) -> Item:
        """Return the item in its stored form, with its keys."""
        return get_declaration(type(self)).to_item(self)

    @classmethod
    def from_item(cls: type[E], item: Item) -> E:
        """Return the entity of a stored item; raise `ItemUnreadable` if it does not fit."""
        return get_declaration(cls).from_item(item)  # type: ignore[return-value]


def get_declaration(entity: type[Entity]) -> Declaration:
    """Return the declaration of an entity class. Raise DeclarationError if it has no table."""
    declaration: Declaration | None = entity.__dict__.get("__declaration__")
    if declaration is None:
        raise DeclarationError(
            f"{entity.__name__} has no table: declare it with class {entity.__name__}(Entity, table=…)."
        )
    return declaration
