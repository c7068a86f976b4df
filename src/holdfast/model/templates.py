"""Key templates: `"EVENT#" + created_at + "#" + id`, typed by the attributes they take.

In a class body a template is a `Part`, made by adding constants and attributes. Once the entity exists it is a
`Template`, which makes a key's value from attribute values. Inside a template the separator is escaped in the
values (`#` becomes `%23`, and `%` becomes `%25`), so that no two items can be given one key and no value can
reach into its neighbour's place. A key that is one attribute and nothing else is that attribute, as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, TypeVarTuple, overload

from holdfast.errors import DeclarationError, InvalidRequest
from holdfast.model.encoding import encode, key_text
from holdfast.operations.values import Value

if TYPE_CHECKING:
    from holdfast.model.attributes import Attr, AttributeSpec
    from holdfast.model.declaration import Attribute

T = TypeVar("T")
U = TypeVar("U")
V = TypeVar("V")
Ts = TypeVarTuple("Ts")

ESCAPE: Final = "%"
# The last character there is: what sorts after every continuation of a text.
ABOVE_ALL: Final = "\U0010ffff"


@dataclass(frozen=True, eq=False)
class Part(Generic[*Ts]):
    """One key attribute's value: constants and attributes joined, typed by the attributes."""

    pieces: tuple[Any, ...] = ()

    @overload
    def __add__(self, other: str) -> Part[*Ts]: ...
    @overload
    def __add__(self, other: Attr[U | None]) -> Part[*Ts, U]: ...
    @overload
    def __add__(self, other: Attr[U]) -> Part[*Ts, U]: ...
    @overload
    def __add__(self, other: Part[U]) -> Part[*Ts, U]: ...
    def __add__(self, other: Any) -> Any:
        return Part((*self.pieces, *pieces_of(other)))

    def __radd__(self, other: str) -> Part[*Ts]:
        return Part((*pieces_of(other), *self.pieces))

    @overload
    def via(self: Part[U | None], function: Callable[[U], V]) -> Part[V]: ...
    @overload
    def via(self: Part[U], function: Callable[[U], V]) -> Part[V]: ...
    def via(self: Part[Any], function: Callable[[Any], V]) -> Part[V]:
        """The attribute seen through a function: `created_at.via(day)` puts only the day into the key."""
        (piece,) = self.pieces
        return Part((Via(piece, function),))

    @overload
    def padded(self: Part[int], width: int) -> Part[int]: ...
    @overload
    def padded(self: Part[int | None], width: int) -> Part[int]: ...
    def padded(self: Part[Any], width: int) -> Part[int]:
        """A whole number written with leading zeros, so that texts sort as the numbers do."""
        (piece,) = self.pieces
        return Part((Via(piece, _Padding(width)),))


@dataclass(frozen=True)
class _Padding:
    width: int

    def __call__(self, number: Any) -> str:
        if not isinstance(number, int) or isinstance(number, bool):
            raise InvalidRequest(
                f"{number!r} cannot stand in a key of {self.width} digits: give a whole number."
            )
        text = f"{number:0{self.width}d}"
        if number < 0 or len(text) > self.width:
            raise InvalidRequest(f"{number} does not fit a key of {self.width} digits: it must be from 0 up")
        return text


@dataclass(frozen=True, eq=False)
class Via:
    """An attribute and the function it is seen through."""

    spec: AttributeSpec[Any]
    function: Callable[[Any], Any]


@dataclass(frozen=True, eq=False)
class Only:
    """When an item is in an index: while an attribute has one of these values."""

    spec: AttributeSpec[Any]
    values: tuple[Any, ...]


def pieces_of(part: Any) -> tuple[Any, ...]:
    if isinstance(part, str):
        return (part,) if part else ()
    if isinstance(part, Part):
        return part.pieces
    if callable(
        part
    ):  # the name of an attribute without `= attr()` is not its own: `id` is Python's function
        name = getattr(part, "__name__", "x")
        raise DeclarationError(
            f"{part!r} cannot be part of a key: an attribute has a value in the class body only if it is declared with "
            f"one, as {name}: Attr[str] = attr()."
        )
    raise TypeError(f"{part!r} cannot be part of a key template: add constants in quotes and attributes")


@dataclass(frozen=True, eq=False)
class Slot:
    """An attribute's place in a template."""

    attribute: Attribute
    function: Callable[[Any], Any] | None = None

    @property
    def tells_attribute(self) -> bool:
        """Whether the argument of a call is the attribute's value, rather than what a function made of it."""
        return self.function is None or isinstance(self.function, _Padding)

    def value(self, value: Any) -> Value:
        """What stands in the key for an attribute's value."""
        if self.function is None:
            return self.attribute.encode(value)
        made = self.function(value)
        return made if isinstance(self.function, _Padding) else self.argument(made)

    def argument(self, value: Any) -> Value:
        """What stands in the key for an argument of a call, which is past the function already."""
        if value is None:
            raise InvalidRequest(
                f"{self.attribute.name} is part of the key and cannot be None: give its value."
            )
        if self.function is None:
            return self.attribute.encode(value)
        return self.function(value) if isinstance(self.function, _Padding) else encode(value)


@dataclass(frozen=True, eq=False)
class Template:
    """A key attribute's value, as it is made from attribute values."""

    pieces: tuple[str | Slot, ...]
    separator: str

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        return tuple(piece for piece in self.pieces if isinstance(piece, Slot))

    @cached_property
    def names(self) -> frozenset[str]:
        """The attributes that the key is made of."""
        return frozenset(slot.attribute.name for slot in self.slots)

    @cached_property
    def only_attribute(self) -> Attribute | None:
        """The attribute, where the key is that and nothing else."""
        if len(self.pieces) == 1 and isinstance(self.pieces[0], Slot) and self.pieces[0].function is None:
            return self.pieces[0].attribute
        return None

    @property
    def shape(self) -> tuple[object, ...]:
        """By which two templates can be found to make the same key."""
        return tuple(
            piece if isinstance(piece, str) else (piece.attribute.name, piece.function)
            for piece in self.pieces
        )

    @cached_property
    def start(self) -> str:
        """The constant that every key made here begins with."""
        first = self.pieces[0] if self.pieces else ""
        return first if isinstance(first, str) else ""

    def of_arguments(self, values: Iterable[Any]) -> Value:
        """The key for the arguments of a call, one per attribute."""
        rest = iter(values)
        return self._joined(slot.argument(next(rest)) for slot in self.slots)

    def of_attributes(self, lookup: Callable[[str], Any]) -> Value:
        """The key of an item; None where an attribute is absent, which is what makes an index sparse."""
        values = []
        for slot in self.slots:
            value = lookup(slot.attribute.name)
            if value is None:
                return None
            values.append(slot.value(value))
        return self._joined(values)

    def beginning(self, values: Iterable[Any]) -> tuple[str, bool]:
        """The text of the first attributes, with the constant that follows; and whether that is all of the key."""
        given, text = list(values), ""
        for piece in self.pieces:
            if isinstance(piece, str):
                text += piece
            elif given:
                text += self.escaped(key_text(piece.argument(given.pop(0))))
            else:
                return text, False
        return text, True

    def escaped(self, text: str) -> str:
        return text.replace(ESCAPE, "%25").replace(self.separator, f"%{ord(self.separator):02X}")

    def _joined(self, values: Iterable[Value]) -> Value:
        rest: Iterator[Value] = iter(values)
        if self.only_attribute is not None or (len(self.pieces) == 1 and self.slots):
            return next(rest)
        return "".join(
            piece if isinstance(piece, str) else self.escaped(key_text(next(rest))) for piece in self.pieces
        )


def template(part: Any, separator: str, attributes: dict[str, Attribute], where: str) -> Template:
    """A part of the class body, with its attributes found. What could be read in two ways is refused."""
    pieces = tuple(_resolved(piece, attributes) for piece in (pieces_of(part) if part is not None else ()))
    for left, right in pairwise(pieces):
        if isinstance(left, Slot) and (isinstance(right, Slot) or not right.startswith(separator)):
            raise DeclarationError(
                f"{where}: what follows {left.attribute.name} must begin with {separator!r}, or two different items "
                f"could be given one key: write … + {left.attribute.name} + {separator!r} + …"
            )
    return Template(pieces, separator)


def _resolved(piece: Any, attributes: dict[str, Attribute]) -> str | Slot:
    if isinstance(piece, str):
        return piece
    if isinstance(piece, Via):
        return Slot(attributes[piece.spec.name], piece.function)
    return Slot(attributes[piece.name])
