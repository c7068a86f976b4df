"""Attributes of an entity: `attr()` and `Attr` declare them; `Ref` is one in conditions and updates.

For Pydantic `Attr[T]` is `T`. For a type checker it is a descriptor: `Booking.status` is a `Ref`, an
expression bound to its entity, and `booking.status` is a `T`. In the class body it is a part of a key
template.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, Generic, Never, Protocol, TypeVar, cast, overload

from holdfast.core.errors import DeclarationError, InvalidRequest
from holdfast.core.limits import MAX_EXPRESSION_IN_OPERANDS
from holdfast.model.entities.conditions import Condition
from holdfast.model.entities.key_templates import IndexFilter, KeyPart
from holdfast.operations.expressions import nodes
from holdfast.operations.values import Value

if TYPE_CHECKING:
    from holdfast.model.entities.declaration import Attribute
    from holdfast.model.entities.entity import Entity

E = TypeVar("E", bound="Entity")
E_co = TypeVar("E_co", bound="Entity", covariant=True)
T = TypeVar("T")
U = TypeVar("U")
V = TypeVar("V")

_ATTR_KEYWORDS: Final = ("stored", "default", "default_factory")
# Words that other libraries use, and what attr() calls them.
_ATTR_SYNONYMS: Final = {
    "name": "stored",
    "alias": "stored",
    "attr_name": "stored",
    "column": "stored",
    "factory": "default_factory",
    "optional": "default",
    "null": "default",
    "nullable": "default",
    "required": "default",
}
_FIELD_CONSTRAINTS: Final = frozenset(
    {
        "gt",
        "ge",
        "lt",
        "le",
        "multiple_of",
        "min_length",
        "max_length",
        "max_digits",
        "decimal_places",
        "pattern",
    }
)


class TextAttribute(Protocol[E_co]):
    """An attribute whose values are text of any kind: `str`, a NewType of it, an enum."""

    def _owner(self) -> E_co: ...
    def _value_type(self) -> str: ...


class TypeMismatch:
    """The type that a checker infers when `==` or `!=` compares an attribute with a value of another type."""


class Ref(Generic[E, T]):
    """An attribute of an entity, or a path inside it, as an expression for conditions and updates."""

    __slots__ = ("attribute", "entity", "steps", "target")

    def __init__(
        self,
        entity: type[Entity],
        attribute: Attribute,
        steps: tuple[str | int, ...] = (),
        target: Attribute | None = None,
    ) -> None:
        self.entity, self.attribute, self.steps = entity, attribute, steps
        # Validates and encodes values: the attribute, or the member that the path leads to.
        self.target = target or attribute

    @property
    def path(self) -> nodes.Path:
        """The stored path in DynamoDB's form."""
        return nodes.Path(self.attribute.stored_name, self.steps)

    @property
    def name(self) -> str:
        return self.attribute.name

    def encode(self, value: object) -> Value:
        """Return a value of this attribute in its stored form.

        Raise `TypeError` for None: absence is not a value.
        """
        if value is None:
            raise TypeError(
                f"Invalid value for {self!r}: None is not stored. Use .exists() or .not_exists() in a "
                "condition, or remove(…) in an update."
            )
        if isinstance(value, Ref):
            raise TypeError(f"Invalid value for {self!r}: expected a value, not another attribute.")
        return self.target.encode(value)

    def __repr__(self) -> str:
        inside = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.steps)
        return f"{self.entity.__name__}.{self.name}{inside}"

    def __hash__(self) -> int:
        return hash((self.entity, self.name, self.steps))

    @overload  # type: ignore[override]
    def __eq__(self, other: T) -> Condition[E]: ...
    @overload
    def __eq__(self, other: object) -> TypeMismatch: ...
    def __eq__(self, other: object) -> Any:
        return self._compare("=", other)

    @overload  # type: ignore[override]
    def __ne__(self, other: T) -> Condition[E]: ...
    @overload
    def __ne__(self, other: object) -> TypeMismatch: ...
    def __ne__(self, other: object) -> Any:
        return self._compare("<>", other)

    def __lt__(self, other: T) -> Condition[E]:
        return self._compare("<", other)

    def __le__(self, other: T) -> Condition[E]:
        return self._compare("<=", other)

    def __gt__(self, other: T) -> Condition[E]:
        return self._compare(">", other)

    def __ge__(self, other: T) -> Condition[E]:
        return self._compare(">=", other)

    def between(self, low: T, high: T) -> Condition[E]:
        """Return the condition that the value is from `low` to `high`, both included."""
        return Condition(nodes.Between(self.path, self._literal(low), self._literal(high)))

    def in_(self, values: Iterable[T]) -> Condition[E]:
        """Return the condition that the value is one of these: 1 to 100, otherwise `InvalidRequest` is
        raised.
        """
        literals = tuple(self._literal(value) for value in values)
        if not literals:
            raise InvalidRequest(f"Invalid condition on {self!r}: expected at least one value.")
        if len(literals) > MAX_EXPRESSION_IN_OPERANDS:
            raise InvalidRequest(
                f"Too many values for {self!r}: {len(literals)}, and a condition takes at most "
                f"{MAX_EXPRESSION_IN_OPERANDS}. Use a wider condition, or several queries."
            )
        return Condition(nodes.In(self.path, literals))

    def not_in(self, values: Iterable[T]) -> Condition[E]:
        """Return the condition that the value is none of these, or absent."""
        return ~self.in_(values)

    def begins_with(self: TextAttribute[E], prefix: str) -> Condition[E]:
        """Return the condition that the text begins with this prefix."""
        if not isinstance(prefix, str):
            raise InvalidRequest(f"Invalid prefix {prefix!r} for {self!r}: expected a string.")
        return Condition(nodes.BeginsWith(cast(Any, self).path, nodes.Literal(prefix)))

    @overload
    def contains(self: TextAttribute[E], value: str) -> Condition[E]: ...
    @overload
    def contains(self: Ref[E, list[V]], value: V) -> Condition[E]: ...
    @overload
    def contains(self: Ref[E, frozenset[V]], value: V) -> Condition[E]: ...
    def contains(self, value: object) -> Condition[Any]:
        return Condition(nodes.Contains(self.path, nodes.Literal(self.target.element.encode(value))))

    def exists(self) -> Condition[E]:
        """Return the condition that the item has the attribute."""
        return Condition(nodes.AttributeExists(self.path))

    def not_exists(self) -> Condition[E]:
        """Return the condition that the item lacks the attribute."""
        return Condition(nodes.AttributeNotExists(self.path))

    def at(self, navigate: Callable[[T], U]) -> Ref[E, U]:
        """Return a path inside a document: `Booking.plan.at(lambda plan: plan.legs[0].origin)`.

        Raise `DeclarationError` for a member that the document does not declare.
        """
        steps: list[str | int] = []
        navigate(cast(T, _PathRecorder(steps)))
        stored, inner = self.target.resolve_path(steps)
        return Ref(self.entity, self.attribute, (*self.steps, *stored), inner)

    if TYPE_CHECKING:
        # A type checker matches these against `TextAttribute`.
        def _owner(self) -> E: ...
        def _value_type(self) -> T: ...

    def _compare(self, operator: nodes.Comparator, other: object) -> Condition[E]:
        """Return the condition that compares the attribute with an encoded value."""
        return Condition(nodes.Compare(operator, self.path, self._literal(other)))

    def _literal(self, value: object) -> nodes.Literal:
        """Return the value in its stored form, as a literal."""
        return nodes.Literal(self.encode(value))


class OptionalRef(Ref[E, T]):
    """An attribute that may be absent: the only kind that an update can remove."""

    __slots__ = ()


class _PathRecorder:
    """A placeholder for a value that records the path taken into it."""

    def __init__(self, steps: list[str | int]) -> None:
        self.__dict__["steps"] = steps

    def __getattr__(self, name: str) -> _PathRecorder:
        self.__dict__["steps"].append(name)
        return self

    def __getitem__(self, index: str | int) -> _PathRecorder:
        self.__dict__["steps"].append(index)
        return self


class AttributeSpec(KeyPart[T]):
    """The placeholder that `attr()` leaves in the class body until the metaclass replaces it."""

    def __init__(self, stored: str, settings: dict[str, Any]) -> None:
        object.__setattr__(self, "pieces", (self,))
        object.__setattr__(self, "stored", stored)
        object.__setattr__(self, "settings", settings)
        object.__setattr__(self, "name", "")

    stored: str
    settings: dict[str, Any]
    name: str

    def one_of(self, *values: Any) -> IndexFilter:
        """Return a filter for `only=`: the item is in the index while the attribute has one of these
        values.
        """
        return IndexFilter(self, values)


if TYPE_CHECKING:

    class Attr(KeyPart[T]):
        """The type of an attribute. Entities are frozen: attributes cannot be assigned."""

        @overload
        def __get__(self: Attr[V | None], instance: None, owner: type[E], /) -> OptionalRef[E, V]: ...
        @overload
        def __get__(self, instance: None, owner: type[E], /) -> Ref[E, T]: ...
        @overload
        def __get__(self, instance: object, owner: Any = ..., /) -> T: ...
        def __get__(self, instance: object, owner: Any = ..., /) -> Any: ...
        def __set__(self, instance: Never, value: T) -> None: ...
        def one_of(self, *values: T) -> IndexFilter:
            """Return a filter for `only=`: the item is in the index while the attribute has one of these
            values.
            """
            ...
else:

    class Attr:
        """At runtime `Attr[T]` is `T`, so that Pydantic sees the plain type."""

        def __class_getitem__(cls, item: Any) -> Any:
            return item


@overload
def attr(stored: str = ..., *, default: T) -> Attr[T]: ...
@overload
def attr(stored: str = ..., *, default_factory: Callable[[], T]) -> Attr[T]: ...
@overload
def attr(stored: str = ...) -> Attr[Any]: ...
def attr(stored: str = "", **settings: Any) -> Any:
    """Declare an attribute.

    `stored` is its name in the table, if the table's naming rule does not produce it. `settings` are
    `default` or `default_factory`, as in Pydantic's `Field`. Raise `DeclarationError` for any other.
    """
    for name in settings:
        if name not in _ATTR_KEYWORDS:
            raise DeclarationError(
                f"Unknown keyword {name!r} of attr(): expected stored, default or default_factory. "
                f"{_suggest_keyword(name)}"
            )
    return AttributeSpec(stored, settings)


def _suggest_keyword(name: str) -> str:
    """Return what to write instead of an unknown keyword of `attr`."""
    if name in _FIELD_CONSTRAINTS:
        return f"Put constraints into the type: Attr[Annotated[…, Field({name}=…)]]."
    similar = get_close_matches(name, _ATTR_KEYWORDS, n=1, cutoff=0.4)
    nearest = _ATTR_SYNONYMS.get(name) or (similar[0] if similar else None)
    return f"Did you mean {nearest}=…?" if nearest else "Everything else follows from the type."
