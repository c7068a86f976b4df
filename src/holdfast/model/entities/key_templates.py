"""Key templates: `"EVENT#" + created_at + "#" + id`, typed by the attributes they contain.

In a class body a template is a `KeyPart`, built by adding constants and attributes. Once the entity exists it
is a `Template`, which builds a key's value from attribute values. Inside a template the separator is escaped
in values (`#` becomes `%23`, and `%` becomes `%25`), so that two items never get the same key and a value
cannot spill into the next field. A key of a single attribute is that attribute's value, unescaped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, TypeVarTuple, overload

from holdfast.core.errors import DeclarationError, InvalidRequest
from holdfast.model.entities.encoders import encode_key_text, encode_value
from holdfast.operations.values import Value

if TYPE_CHECKING:
    from holdfast.model.entities.attributes import Attr, AttributeSpec
    from holdfast.model.entities.declaration import Attribute

T = TypeVar("T")
U = TypeVar("U")
V = TypeVar("V")
Ts = TypeVarTuple("Ts")

ESCAPE: Final = "%"
# The highest character: text + this sorts after every continuation of the text.
HIGHEST_CHARACTER: Final = "\U0010ffff"


@dataclass(frozen=True, eq=False)
class KeyPart(Generic[*Ts]):
    """The value of one key attribute: constants and attributes joined, typed by the attributes."""

    pieces: tuple[Any, ...] = ()

    @overload
    def __add__(self, other: str) -> KeyPart[*Ts]: ...
    @overload
    def __add__(self, other: Attr[U | None]) -> KeyPart[*Ts, U]: ...
    @overload
    def __add__(self, other: Attr[U]) -> KeyPart[*Ts, U]: ...
    @overload
    def __add__(self, other: KeyPart[U]) -> KeyPart[*Ts, U]: ...
    def __add__(self, other: Any) -> Any:
        return KeyPart((*self.pieces, *get_pieces(other)))

    def __radd__(self, other: str) -> KeyPart[*Ts]:
        return KeyPart((*get_pieces(other), *self.pieces))

    @overload
    def transform(self: KeyPart[U | None], function: Callable[[U], V]) -> KeyPart[V]: ...
    @overload
    def transform(self: KeyPart[U], function: Callable[[U], V]) -> KeyPart[V]: ...
    def transform(self: KeyPart[Any], function: Callable[[Any], V]) -> KeyPart[V]:
        """Return a key part with a function of the attribute: `created_at.transform(day)` keeps only the
        day.
        """
        (piece,) = self.pieces
        return KeyPart((Transformed(piece, function),))

    @overload
    def zero_pad(self: KeyPart[int], width: int) -> KeyPart[int]: ...
    @overload
    def zero_pad(self: KeyPart[int | None], width: int) -> KeyPart[int]: ...
    def zero_pad(self: KeyPart[Any], width: int) -> KeyPart[int]:
        """Return a key part that writes an integer with leading zeros, so that text order is number order."""
        (piece,) = self.pieces
        return KeyPart((Transformed(piece, _Padding(width)),))


@dataclass(frozen=True)
class _Padding:
    """Formats an integer from 0 with leading zeros; raises `InvalidRequest` if it does not fit the width."""

    width: int

    def __call__(self, number: Any) -> str:
        if not isinstance(number, int) or isinstance(number, bool):
            raise InvalidRequest(
                f"Invalid key value {number!r}: expected an integer of at most {self.width} digits."
            )
        text = f"{number:0{self.width}d}"
        if number < 0 or len(text) > self.width:
            raise InvalidRequest(
                f"Invalid key value {number}: expected an integer from 0 of at most {self.width} digits."
            )
        return text


@dataclass(frozen=True, eq=False)
class Transformed:
    """An attribute and the function applied to it."""

    spec: AttributeSpec[Any]
    function: Callable[[Any], Any]


@dataclass(frozen=True, eq=False)
class IndexFilter:
    """The filter of an index: items are in it while an attribute has one of these values."""

    spec: AttributeSpec[Any]
    values: tuple[Any, ...]


def get_pieces(part: Any) -> tuple[Any, ...]:
    """Return the constants and attributes of a key part; raise if it is neither text nor a key part."""
    if isinstance(part, str):
        return (part,) if part else ()
    if isinstance(part, KeyPart):
        return part.pieces
    # Without `= attr()` a name such as `id` is Python's built-in function.
    if callable(part):
        name = getattr(part, "__name__", "x")
        raise DeclarationError(
            f"Invalid key part {part!r}: expected an attribute. Declare it with attr(), such as "
            f"{name}: Attr[str] = attr()."
        )
    raise TypeError(f"Invalid key part {part!r}: expected a string constant or an attribute.")


@dataclass(frozen=True, eq=False)
class Slot:
    """The place of an attribute in a template."""

    attribute: Attribute
    function: Callable[[Any], Any] | None = None

    @property
    def is_attribute_value(self) -> bool:
        """True if the argument of a call is the attribute's value, not the result of a function."""
        return self.function is None or isinstance(self.function, _Padding)

    def encode_attribute(self, value: Any) -> Value:
        """Return the key value for an attribute's value."""
        if self.function is None:
            return self.attribute.encode(value)
        result = self.function(value)
        return result if isinstance(self.function, _Padding) else self.encode_argument(result)

    def encode_argument(self, value: Any) -> Value:
        """Return the key value for a call's argument, to which the function has already been applied; raise
        for None.
        """
        if value is None:
            raise InvalidRequest(
                f"Invalid {self.attribute.name}: None is not allowed in a key. Pass a value."
            )
        if self.function is None:
            return self.attribute.encode(value)
        return self.function(value) if isinstance(self.function, _Padding) else encode_value(value)


@dataclass(frozen=True, eq=False)
class Template:
    """The resolved template of a key attribute."""

    pieces: tuple[str | Slot, ...]
    separator: str

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        return tuple(piece for piece in self.pieces if isinstance(piece, Slot))

    @cached_property
    def attribute_names(self) -> frozenset[str]:
        """The attributes that the key contains."""
        return frozenset(slot.attribute.name for slot in self.slots)

    @cached_property
    def sole_attribute(self) -> Attribute | None:
        """The attribute, if the key consists of it alone."""
        if len(self.pieces) == 1 and isinstance(self.pieces[0], Slot) and self.pieces[0].function is None:
            return self.pieces[0].attribute
        return None

    @property
    def shape(self) -> tuple[object, ...]:
        """A comparable form: templates of equal shape build the same keys."""
        return tuple(
            piece if isinstance(piece, str) else (piece.attribute.name, piece.function)
            for piece in self.pieces
        )

    @cached_property
    def constant_prefix(self) -> str:
        """The constant that every key begins with."""
        first = self.pieces[0] if self.pieces else ""
        return first if isinstance(first, str) else ""

    def build_from_arguments(self, values: Iterable[Any]) -> Value:
        """Return the key for the arguments of a call, one per attribute."""
        rest = iter(values)
        return self._join(slot.encode_argument(next(rest)) for slot in self.slots)

    def build_from_attributes(self, lookup: Callable[[str], Any]) -> Value:
        """Return the key of an item; None if an attribute is absent, which keeps the item out of a sparse
        index.
        """
        values = []
        for slot in self.slots:
            value = lookup(slot.attribute.name)
            if value is None:
                return None
            values.append(slot.encode_attribute(value))
        return self._join(values)

    def build_prefix(self, values: Iterable[Any]) -> tuple[str, bool]:
        """Return the key's text up to the first attribute without a value, and True if that is the whole
        key.
        """
        given, text = list(values), ""
        for piece in self.pieces:
            if isinstance(piece, str):
                text += piece
            elif given:
                text += self.escape(encode_key_text(piece.encode_argument(given.pop(0))))
            else:
                return text, False
        return text, True

    def escape(self, text: str) -> str:
        """Escape the separator and `%` in a value, so that it cannot spill into the next field."""
        return text.replace(ESCAPE, "%25").replace(self.separator, f"%{ord(self.separator):02X}")

    def _join(self, values: Iterable[Value]) -> Value:
        """Return the only value unchanged if the key has one piece, otherwise all pieces as text."""
        rest: Iterator[Value] = iter(values)
        if self.sole_attribute is not None or (len(self.pieces) == 1 and self.slots):
            return next(rest)
        return "".join(
            piece if isinstance(piece, str) else self.escape(encode_key_text(next(rest)))
            for piece in self.pieces
        )


def build_template(part: Any, separator: str, attributes: dict[str, Attribute], where: str) -> Template:
    """Resolve a key part of the class body; raise `DeclarationError` if two different items could get the
    same key.

    `where` names the entity in the error.
    """
    pieces = tuple(
        _resolve_piece(piece, attributes) for piece in (get_pieces(part) if part is not None else ())
    )
    for left, right in pairwise(pieces):
        if isinstance(left, Slot) and (isinstance(right, Slot) or not right.startswith(separator)):
            raise DeclarationError(
                f"{where}: expected {separator!r} after {left.attribute.name}, or two different items could "
                f"get the same key. Write … + {left.attribute.name} + {separator!r} + …"
            )
    return Template(pieces, separator)


def _resolve_piece(piece: Any, attributes: dict[str, Attribute]) -> str | Slot:
    """Return a constant as it is, and an attribute with its function as a slot."""
    if isinstance(piece, str):
        return piece
    if isinstance(piece, Transformed):
        return Slot(attributes[piece.spec.name], piece.function)
    return Slot(attributes[piece.name])
