"""Conversion between tagged JSON and plain values: `{"N": "1"}` on the wire is `1` inside.

`shapes` calls it for every item, key and set of expression values of a request, and the operations' `encode`
for their responses. This is the hottest code of the wire, so it reads a request optimistically: one walk
converts values that are plainly valid, and stops at the first doubt. Only then do the careful walks find
DynamoDB's error, in DynamoDB's order: first the types of everything (`check_types`, SerializationException,
at once), later the values (`to_plain_item`, ValidationException, when the operation calls it). An
`UncheckedItem` keeps the values between the two.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final, TypeAlias

import msgspec

from holdfast.core.errors import InvalidRequest, MalformedRequest
from holdfast.core.limits import MAX_NESTING_CONTAINERS
from holdfast.operations import numbers
from holdfast.operations.values import Item, Value, sort_elements
from holdfast.wire.type_errors import (
    NAMESPACE,
    build_binary_error,
    build_list_error,
    build_map_error,
    build_scalar_error,
    build_structure_error,
)

TaggedJson: TypeAlias = dict[str, Any]

ATTRIBUTE_VALUE: Final = f"{NAMESPACE}AttributeValue"
ATTRIBUTE_MAP: Final = f"java.util.Map<java.lang.String, {ATTRIBUTE_VALUE}>"

EMPTY_VALUE: Final = "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes"
SEVERAL_VALUES: Final = (
    "Supplied AttributeValue has more than one datatypes set, must contain exactly one of the supported "
    "datatypes"
)
TOO_DEEP: Final = (
    "Nesting Levels have exceeded supported limits: "
    "Attributes in the item have nested levels beyond supported limit"
)
INVALID: Final = "One or more parameter values were invalid: "
FALSE_NULL: Final = f"{INVALID}Null attribute value types must have the value of true"
_BOOLEAN_WORDS: Final = {"TRUE": True, "1": True, "YES": True, "FALSE": False, "0": False, "NO": False}


class UncheckedItem(msgspec.Struct, frozen=True):
    """Attribute values whose types are valid but whose values are invalid or unusually written."""

    tagged: TaggedJson


class UnprefixedInvalidRequest(InvalidRequest, label="UnplacedRefusal"):
    """An error about a number, a duplicate or an empty number set, which DynamoDB words the same wherever it
    is.
    """


class _NotPlain(Exception):
    """A value is not plainly valid: the careful walks must check it."""


# --- reading ------------------------------------------------------------------------------------------------


def read_item(tagged: TaggedJson) -> Item | UncheckedItem:
    """Read attribute values by name. Return plain values if all are plainly valid, else an `UncheckedItem`.

    Raise `MalformedRequest` for a value of the wrong JSON type.
    """
    try:
        return _read_plain_map(tagged, 0)
    except (_NotPlain, KeyError, TypeError, ValueError, AttributeError, InvalidRequest):
        check_map_types(tagged)
        return UncheckedItem(tagged)


def to_plain_item(read: Item | UncheckedItem) -> Item:
    """Return the plain values, or raise `InvalidRequest` for the first invalid one."""
    if isinstance(read, dict):
        return read
    return {name: parse_attribute_value(tagged) for name, tagged in read.tagged.items()}


def to_plain_start_key(read: Item | UncheckedItem | None) -> Item | None:
    """Return the plain values of an exclusive start key, or None if there is none.

    An error names the start key, except for errors about numbers and duplicates (`UnprefixedInvalidRequest`).
    """
    if read is None:
        return None
    try:
        return to_plain_item(read)
    except UnprefixedInvalidRequest:
        raise
    except InvalidRequest as error:
        raise InvalidRequest(f"The provided starting key is invalid: {error.message}") from None


def _read_plain_map(tagged: TaggedJson, depth: int) -> Item:
    """Convert a map of tagged values that are plainly valid. Any exception means that one is not."""
    plain: Item = {}
    for name, value in tagged.items():
        for tag, content in value.items():
            if tag == "S":
                if type(content) is not str:
                    raise _NotPlain
                plain[name] = content
            else:
                plain[name] = _PLAIN_READERS[tag](content, depth)
        if len(value) != 1:
            raise _NotPlain
    return plain


def _read_plain_list(tagged: list[Any], depth: int) -> list[Value]:
    """Convert a list of tagged values that are plainly valid. Any exception means that one is not."""
    plain: list[Value] = []
    for value in tagged:
        for tag, content in value.items():
            plain.append(_PLAIN_READERS[tag](content, depth))
        if len(value) != 1:
            raise _NotPlain
    return plain


def _read_plain_string(content: Any, depth: int) -> str:
    """Return the string. Raise `_NotPlain` for anything else."""
    if type(content) is not str:
        raise _NotPlain
    return content


def _read_plain_number(content: Any, depth: int) -> int | Decimal:
    """Parse a number from a string. Raise `_NotPlain` for another type, `InvalidRequest` for an invalid
    number.
    """
    if type(content) is not str:
        raise _NotPlain
    return numbers.parse(content)


def _read_plain_binary(content: Any, depth: int) -> bytes:
    """Decode base64. Raise `_NotPlain` for another type, `ValueError` for invalid base64."""
    if type(content) is not str:
        raise _NotPlain
    return _decode_base64(content)


def _read_plain_bool(content: Any, depth: int) -> bool:
    """Return the boolean. Raise `_NotPlain` for anything else."""
    if type(content) is not bool:
        raise _NotPlain
    return content


def _read_plain_null(content: Any, depth: int) -> None:
    """Return None for `true`. Raise `_NotPlain` for anything else."""
    if content is not True:
        raise _NotPlain


def _read_plain_inner_list(content: Any, depth: int) -> list[Value]:
    """Convert a nested list. Raise `_NotPlain` for another type or beyond the nesting limit."""
    if type(content) is not list or depth >= MAX_NESTING_CONTAINERS:
        raise _NotPlain
    return _read_plain_list(content, depth + 1)


def _read_plain_inner_map(content: Any, depth: int) -> Item:
    """Convert a nested map. Raise `_NotPlain` for another type or beyond the nesting limit."""
    if type(content) is not dict or depth >= MAX_NESTING_CONTAINERS:
        raise _NotPlain
    return _read_plain_map(content, depth + 1)


def _build_plain_set_reader(read_element: Callable[[Any, int], Any]) -> Callable[[Any, int], frozenset[Any]]:
    """Return a reader of non-empty sets without duplicates, whose elements `read_element` reads."""

    def read(content: Any, depth: int) -> frozenset[Any]:
        if type(content) is not list or not content:
            raise _NotPlain
        elements = frozenset([read_element(each, depth) for each in content])
        if len(elements) != len(content):
            raise _NotPlain
        return elements

    return read


_PLAIN_READERS: Final[dict[str, Callable[[Any, int], Any]]] = {
    "S": _read_plain_string,
    "N": _read_plain_number,
    "B": _read_plain_binary,
    "BOOL": _read_plain_bool,
    "NULL": _read_plain_null,
    "L": _read_plain_inner_list,
    "M": _read_plain_inner_map,
    "SS": _build_plain_set_reader(_read_plain_string),
    "NS": _build_plain_set_reader(_read_plain_number),
    "BS": _build_plain_set_reader(_read_plain_binary),
}


def _decode_base64(content: str) -> bytes:
    """Decode strict base64: leftover bits in the last character must be zero. Raise `ValueError`
    otherwise.
    """
    binary = b64decode(content, validate=True)
    if content.endswith("=") and b64encode(binary).decode() != content:
        raise NotBase64
    return binary


# --- the careful walks: types -------------------------------------------------------------------------------


def check_map_types(tagged: TaggedJson) -> None:
    """Raise `MalformedRequest` if a value of the map has the wrong type, at any depth."""
    for value in tagged.values():
        if value is not None:
            check_types(value)


def check_types(value: Any, depth: int = 0) -> None:
    """Raise `MalformedRequest` if anything in an attribute value has the wrong type, at any depth.

    Levels below the nesting limit are not checked: the value is rejected anyway.
    """
    if type(value) is not dict:
        raise build_structure_error(value, ATTRIBUTE_VALUE, is_element=True)
    if depth > MAX_NESTING_CONTAINERS:
        return
    for tag, content in value.items():
        check = _TYPE_CHECKS.get(tag)
        if check is not None and content is not None:
            check(content, depth)


def _check_string(content: Any, depth: int) -> None:
    """Raise `MalformedRequest` unless the content is a string."""
    if type(content) is not str:
        raise build_scalar_error(content, "String")


def _check_binary(content: Any, depth: int) -> None:
    """Raise `MalformedRequest` unless the content is strict base64."""
    if type(content) is not str:
        raise build_binary_error(content)
    if len(content) % 4:
        raise MalformedRequest(
            f"Base64 encoded length is expected a multiple of 4 bytes but found: {len(content)}"
        )
    try:
        _decode_base64(content)
    except ValueError:
        raise MalformedRequest("Invalid last non-pad Base64 character dectected") from None


def _check_boolean(content: Any, depth: int) -> None:
    read_boolean(content)


def read_boolean(content: Any) -> bool:
    """Read a boolean, or one of the few strings that DynamoDB accepts as one. Raise `MalformedRequest`
    otherwise.
    """
    if type(content) is bool:
        return content
    if type(content) is not str:
        raise build_scalar_error(content, "Boolean")
    meaning = _BOOLEAN_WORDS.get(content.upper())
    if meaning is None:
        raise MalformedRequest("Unexpected token received from parser")
    return meaning


def _build_list_check(check_element: Callable[[Any, int], None]) -> Callable[[Any, int], None]:
    """Return a check of lists that applies `check_element` to each element that is not null."""

    def check(content: Any, depth: int) -> None:
        if type(content) is not list:
            raise build_list_error(content, is_element=False)
        for each in content:
            if each is not None:
                check_element(each, depth + 1)

    return check


def _check_map(content: Any, depth: int) -> None:
    """Raise `MalformedRequest` unless the content is a map whose values have valid types."""
    if type(content) is not dict:
        raise build_map_error(content, ATTRIBUTE_MAP, is_element=False)
    for each in content.values():
        if each is not None:
            check_types(each, depth + 1)


_TYPE_CHECKS: Final[dict[str, Callable[[Any, int], None]]] = {
    "S": _check_string,
    "N": _check_string,
    "B": _check_binary,
    "BOOL": _check_boolean,
    "NULL": _check_boolean,
    "SS": _build_list_check(_check_string),
    "NS": _build_list_check(_check_string),
    "BS": _build_list_check(_check_binary),
    "L": _build_list_check(check_types),
    "M": _check_map,
}


# --- the careful walks: values ------------------------------------------------------------------------------


def parse_attribute_value(tagged: TaggedJson | None, depth: int = 0) -> Value:
    """Return the plain value of an attribute value whose types are valid, or raise `InvalidRequest`.

    An invalid value is reported before the error for several types at once.
    """
    tags = [tag for tag in _PARSERS if tagged is not None and tagged.get(tag) is not None]
    if tagged is None or not tags:
        raise InvalidRequest(EMPTY_VALUE)
    plain = [_PARSERS[tag](tagged[tag], depth) for tag in tags]
    if len(tags) > 1:
        raise InvalidRequest(SEVERAL_VALUES)
    return plain[0]  # type: ignore[no-any-return]


def _parse_number(content: str, depth: int) -> int | Decimal:
    """Parse a number. Raise `UnprefixedInvalidRequest` for an invalid one."""
    try:
        return numbers.parse(content)
    except InvalidRequest as error:
        raise UnprefixedInvalidRequest(error.message) from None


def _parse_boolean(content: bool | str, depth: int) -> bool:
    return read_boolean(content)


def _parse_null(content: bool | str, depth: int) -> None:
    """Return None. Raise `InvalidRequest` if the content is false."""
    if not read_boolean(content):
        raise InvalidRequest(FALSE_NULL)


def _parse_strings(content: list[str | None], depth: int) -> frozenset[str]:
    """Return a set of strings. Raise `InvalidRequest` for an empty set, null or duplicates."""
    if not content:
        raise InvalidRequest(f"{INVALID}An string set  may not be empty")
    strings = [each for each in content if each is not None]
    if len(strings) != len(content):
        raise InvalidRequest(f"{INVALID}An string set may not have a null string as a member")
    elements = frozenset(strings)
    if len(elements) != len(content):
        raise UnprefixedInvalidRequest(
            f"{INVALID}Input collection [{', '.join(strings)}] contains duplicates."
        )
    return elements


def _parse_numbers(content: list[str | None], depth: int) -> frozenset[int | Decimal]:
    """Return a set of numbers. Raise `UnprefixedInvalidRequest` for an empty set, an invalid number or
    duplicates.
    """
    if not content:
        raise UnprefixedInvalidRequest(f"{INVALID}An number set  may not be empty")
    elements = frozenset([_parse_number(each or "", depth) for each in content])
    if len(elements) != len(content):
        raise UnprefixedInvalidRequest("Input collection contains duplicates")
    return elements


def _parse_binaries(content: list[str | None], depth: int) -> frozenset[bytes]:
    """Return a set of binaries. Raise `InvalidRequest` for an empty set, null or duplicates."""
    if not content:
        raise InvalidRequest(f"{INVALID}Binary sets should not be empty")
    strings = [each for each in content if each is not None]
    if len(strings) != len(content):
        raise InvalidRequest(f"{INVALID}Binary sets may not contain null or empty values")
    elements = frozenset(map(_decode_base64, strings))
    if len(elements) != len(content):
        raise UnprefixedInvalidRequest(
            f"{INVALID}Input collection [{', '.join(strings)}]of type BS contains duplicates."
        )
    return elements


def _parse_list(content: list[TaggedJson | None], depth: int) -> list[Value]:
    """Parse a list. Raise `InvalidRequest` beyond the nesting limit."""
    if depth >= MAX_NESTING_CONTAINERS:
        raise InvalidRequest(TOO_DEEP)
    return [parse_attribute_value(each, depth + 1) for each in content]


def _parse_map(content: dict[str, TaggedJson | None], depth: int) -> Item:
    """Parse a map. Raise `InvalidRequest` beyond the nesting limit."""
    if depth >= MAX_NESTING_CONTAINERS:
        raise InvalidRequest(TOO_DEEP)
    return {name: parse_attribute_value(each, depth + 1) for name, each in content.items()}


_PARSERS: Final[dict[str, Callable[[Any, int], Any]]] = {
    "S": _read_plain_string,
    "B": _read_plain_binary,
    "N": _parse_number,
    "BOOL": _parse_boolean,
    "NULL": _parse_null,
    "BS": _parse_binaries,
    "NS": _parse_numbers,
    "SS": _parse_strings,
    "L": _parse_list,
    "M": _parse_map,
}


# --- writing ------------------------------------------------------------------------------------------------


def encode_item(item: Mapping[str, Value]) -> TaggedJson:
    """Encode an item for the wire. The values have Python's own types, so each value's exact type decides its
    tag.
    """
    tagged: TaggedJson = {}
    for name, value in item.items():
        kind = type(value)
        if kind is str:
            tagged[name] = {"S": value}
        elif kind is int:
            tagged[name] = {"N": str(value)}
        else:
            tagged[name] = _ENCODERS[kind](value)
    return tagged


def encode_value(value: Value) -> TaggedJson:
    """Encode one value for the wire, with its type tag."""
    return _ENCODERS[type(value)](value)


def _encode_set(elements: frozenset[Any]) -> TaggedJson:
    """Encode a set with its elements in display order."""
    kind = type(next(iter(elements)))
    if kind is str:
        return {"SS": sort_elements(elements)}
    if kind is bytes:
        return {"BS": [b64encode(each).decode() for each in sort_elements(elements)]}
    return {"NS": [numbers.to_text(each) for each in sort_elements(elements)]}


_ENCODERS: Final[dict[type, Callable[[Any], TaggedJson]]] = {
    str: lambda value: {"S": value},
    int: lambda value: {"N": str(value)},
    Decimal: lambda value: {"N": numbers.to_text(value)},
    bytes: lambda value: {"B": b64encode(value).decode()},
    bool: lambda value: {"BOOL": value},
    type(None): lambda _: {"NULL": True},
    list: lambda value: {"L": [_ENCODERS[type(each)](each) for each in value]},
    dict: lambda value: {"M": encode_item(value)},
    frozenset: _encode_set,
}
