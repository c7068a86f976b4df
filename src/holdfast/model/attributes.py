"""Attributes of an entity: `status: Attr[BookingStatus] = attr(default=…)`.

To Pydantic `Attr[T]` is `T`. To a type checker it is a descriptor: `Booking.status` is a `Ref`, an expression
bound to its entity, and `booking.status` is a `T`. In the class body it is a piece of a key template.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, Never, Protocol, TypeVar, cast, overload

from holdfast.errors import InvalidRequest
from holdfast.limits import EXPRESSION_IN_OPERANDS_MAX
from holdfast.model.conditions import Condition
from holdfast.model.templates import Only, Part
from holdfast.operations.expressions import nodes
from holdfast.operations.values import Value

if TYPE_CHECKING:
    from holdfast.model.declaration import Attribute
    from holdfast.model.entity import Entity

E = TypeVar("E", bound="Entity")
E_co = TypeVar("E_co", bound="Entity", covariant=True)
T = TypeVar("T")
U = TypeVar("U")
V = TypeVar("V")


class OfText(Protocol[E_co]):
    """An attribute of an entity whose values are texts, of whichever kind: `str`, a NewType of it, an enum."""

    def _owner(self) -> E_co: ...
    def _held(self) -> str: ...


class ComparedWithAnotherType:
    """What a type checker sees where `==` or `!=` has a value of another type than the attribute."""


class Ref(Generic[E, T]):
    """An attribute of an entity, or a place inside it, as an expression: what conditions and updates name."""

    __slots__ = ("attribute", "entity", "place", "steps")

    def __init__(
        self,
        entity: type[Entity],
        attribute: Attribute,
        steps: tuple[str | int, ...] = (),
        place: Attribute | None = None,
    ) -> None:
        self.entity, self.attribute, self.steps = entity, attribute, steps
        # What values are judged and encoded by: the attribute, or the place inside it.
        self.place = place or attribute

    @property
    def path(self) -> nodes.Path:
        return nodes.Path(self.attribute.stored, self.steps)

    @property
    def name(self) -> str:
        return self.attribute.name

    def value(self, value: object) -> Value:
        """A value of this attribute as it is stored; None is refused, because absence is not a value."""
        if value is None:
            raise TypeError(f"{self!r} is never stored as None: ask .exists() or .missing(), or .remove() it")
        if isinstance(value, Ref):
            raise TypeError(f"{self!r} is compared with another attribute: give a value")
        return self.place.encode(value)

    def __repr__(self) -> str:
        inside = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.steps)
        return f"{self.entity.__name__}.{self.name}{inside}"

    def __hash__(self) -> int:
        return hash((self.entity, self.name, self.steps))

    @overload  # type: ignore[override]
    def __eq__(self, other: T) -> Condition[E]: ...
    @overload
    def __eq__(self, other: object) -> ComparedWithAnotherType: ...
    def __eq__(self, other: object) -> Any:
        return self._compare("=", other)

    @overload  # type: ignore[override]
    def __ne__(self, other: T) -> Condition[E]: ...
    @overload
    def __ne__(self, other: object) -> ComparedWithAnotherType: ...
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
        return Condition(nodes.Between(self.path, self._literal(low), self._literal(high)))

    def in_(self, values: Iterable[T]) -> Condition[E]:
        literals = tuple(self._literal(value) for value in values)
        if not literals:
            raise InvalidRequest(f"{self!r} is compared with no value at all: name one at least.")
        if len(literals) > EXPRESSION_IN_OPERANDS_MAX:
            raise InvalidRequest(
                f"{self!r} is compared with {len(literals)} values, and a condition has room for "
                f"{EXPRESSION_IN_OPERANDS_MAX}: read with a wider condition, or ask several times."
            )
        return Condition(nodes.In(self.path, literals))

    def not_in(self, values: Iterable[T]) -> Condition[E]:
        return ~self.in_(values)

    def begins_with(self: OfText[E], prefix: str) -> Condition[E]:
        if not isinstance(prefix, str):
            raise InvalidRequest(f"{self!r} begins with a text, and {prefix!r} is none: give the text.")
        return Condition(nodes.BeginsWith(cast(Any, self).path, nodes.Literal(prefix)))

    @overload
    def contains(self: OfText[E], value: str) -> Condition[E]: ...
    @overload
    def contains(self: Ref[E, list[V]], value: V) -> Condition[E]: ...
    @overload
    def contains(self: Ref[E, frozenset[V]], value: V) -> Condition[E]: ...
    def contains(self, value: object) -> Condition[Any]:
        return Condition(nodes.Contains(self.path, nodes.Literal(self.place.element.encode(value))))

    def exists(self) -> Condition[E]:
        return Condition(nodes.AttributeExists(self.path))

    def missing(self) -> Condition[E]:
        return Condition(nodes.AttributeNotExists(self.path))

    def at(self, place: Callable[[T], U]) -> Ref[E, U]:
        """A place inside a document: `Booking.plan.at(lambda plan: plan.legs[0].origin)`."""
        steps: list[str | int] = []
        place(cast(T, _Recorder(steps)))
        stored, inner = self.place.inside(steps)
        return Ref(self.entity, self.attribute, (*self.steps, *stored), inner)

    if TYPE_CHECKING:
        # By these a type checker finds out whether it is `OfText`.
        def _owner(self) -> E: ...
        def _held(self) -> T: ...

    def _compare(self, operator: nodes.Comparator, other: object) -> Condition[E]:
        return Condition(nodes.Compare(operator, self.path, self._literal(other)))

    def _literal(self, value: object) -> nodes.Literal:
        return nodes.Literal(self.value(value))


class OptionalRef(Ref[E, T]):
    """An attribute that may be absent: the only kind that can be removed."""

    __slots__ = ()


class _Recorder:
    """Stands in for a value and writes down which way was taken into it."""

    def __init__(self, steps: list[str | int]) -> None:
        self.__dict__["steps"] = steps

    def __getattr__(self, name: str) -> _Recorder:
        self.__dict__["steps"].append(name)
        return self

    def __getitem__(self, index: str | int) -> _Recorder:
        self.__dict__["steps"].append(index)
        return self


class AttributeSpec(Part[T]):
    """What `attr()` leaves in the class body until the metaclass takes it."""

    def __init__(self, stored: str, settings: dict[str, Any]) -> None:
        object.__setattr__(self, "pieces", (self,))
        object.__setattr__(self, "stored", stored)
        object.__setattr__(self, "settings", settings)
        object.__setattr__(self, "name", "")

    stored: str
    settings: dict[str, Any]
    name: str

    def one_of(self, *values: Any) -> Only:
        return Only(self, values)


if TYPE_CHECKING:

    class Attr(Part[T]):
        """The type of an attribute. Entities are frozen, so that none may be assigned to."""

        @overload
        def __get__(self: Attr[V | None], instance: None, owner: type[E], /) -> OptionalRef[E, V]: ...
        @overload
        def __get__(self, instance: None, owner: type[E], /) -> Ref[E, T]: ...
        @overload
        def __get__(self, instance: object, owner: Any = ..., /) -> T: ...
        def __get__(self, instance: object, owner: Any = ..., /) -> Any: ...
        def __set__(self, instance: Never, value: T) -> None: ...
        def one_of(self, *values: T) -> Only:
            """In `only=`: the item is in the index while the attribute has one of these values."""
            ...
else:

    class Attr:
        """To Pydantic, `Attr[T]` is `T`."""

        def __class_getitem__(cls, item: Any) -> Any:
            return item


@overload
def attr(stored: str = ..., *, default: T) -> Attr[T]: ...
@overload
def attr(stored: str = ..., *, default_factory: Callable[[], T]) -> Attr[T]: ...
@overload
def attr(stored: str = ...) -> Attr[Any]: ...
def attr(stored: str = "", **settings: Any) -> Any:
    """An attribute; `stored` is its name in the table where the table's own rule of naming does not give it."""
    return AttributeSpec(stored, settings)
