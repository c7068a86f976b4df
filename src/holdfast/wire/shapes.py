"""Declarations of request shapes, and the reader that checks requests against them.

Every request is checked here, after the JSON is parsed, in DynamoDB's two steps:

1. `Structure.read`: every member has its type, at every depth (else SerializationException). The result is a
   new dict with only the known members, without nulls, and with items already as plain values.
2. `Structure.check`: every member meets its constraints (else ValidationException, which lists up to ten).

An operation declares its shape with AWS's names, in the order in which DynamoDB reports errors:

    SHAPE = structure(
        "GetItemInput",
        ReturnConsumedCapacity=string(enum=("INDEXES", "TOTAL", "NONE")),
        TableName=table_name(),
        Key=item(required=True),
        ConsistentRead=boolean(),
    )

`required=True` is AWS's "Member must not be null". The newer operations on tables report a missing name
earlier and with another text ("The parameter 'TableName' is required but …"): that is
`table_name_checked_first()`.
"""

from __future__ import annotations

import contextlib
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from itertools import chain, islice
from typing import Any, Final, TypeAlias

import msgspec

from holdfast.core.errors import InvalidRequest, MalformedRequest
from holdfast.wire import values
from holdfast.wire.constraints import (
    Constraint,
    require_enum,
    require_length,
    require_list_lengths,
    require_pattern,
    require_range,
)
from holdfast.wire.type_errors import (
    NAMESPACE,
    build_list_error,
    build_map_error,
    build_scalar_error,
    build_structure_error,
)

Request: TypeAlias = dict[str, Any]
Response: TypeAlias = dict[str, Any]

NAME_PATTERN: Final = "[a-zA-Z0-9_.-]+"
MAX_VIOLATIONS: Final = 10
_TABLE_NAME_PATTERN: Final = re.compile(f"{NAME_PATTERN[:-1]}{{3,255}}")
_TABLE_ARN: Final = re.compile(r"arn:[a-z-]+:dynamodb:[a-z0-9-]+:\d+:table/([a-zA-Z0-9_.-]{3,255})")
_MAX_TABLE_ARN_LENGTH: Final = 1024
_INTEGER_BITS: Final = {"Integer": 31, "Long": 63}


# --- declaring ----------------------------------------------------------------------------------------------


def structure(java_name: str, /, *, required: bool = False, **members: Shape) -> Structure:
    """Declare an object with known members. `java_name` is DynamoDB's own class name, which its errors
    show.
    """
    return Structure(java_name, members, required)


def string(
    *,
    required: bool = False,
    enum: tuple[str, ...] = (),
    pattern: str | None = None,
    min_length: int | None = None,
    max_length: int | None = None,
) -> Text:
    constraints: list[Constraint] = []
    if enum:
        constraints.append(require_enum(enum))
    if pattern is not None:
        constraints.append(require_pattern(pattern))
    return Text(required, (*constraints, *require_length(min_length, max_length)))


def table_name(*, required: bool = True) -> TableName:
    """Declare the name or ARN of a table; `read` returns the name."""
    return TableName(required, (require_pattern(NAME_PATTERN), *require_length(3, 255)))


def table_name_checked_first(*, as_constraint: bool = False) -> TableName:
    """Declare a table name as the operations on tables check it: before the other members, and with other
    texts.

    `as_constraint`: a wrong length is also reported first, but with the text of a constraint.
    """
    return TableName(
        False, (require_pattern(NAME_PATTERN),), is_checked_first=True, as_constraint=as_constraint
    )


def index_name(*, required: bool = False) -> Text:
    return string(required=required, pattern=NAME_PATTERN, min_length=3, max_length=255)


def boolean(*, required: bool = False) -> Boolean:
    return Boolean(required, ())


def integer(
    *,
    required: bool = False,
    minimum: int | None = None,
    maximum: int | None = None,
    omits_value: bool = False,
) -> Integer:
    """Declare an integer. `omits_value`: if this is the only error, DynamoDB reports it without the value."""
    return Integer("Integer", required, require_range(minimum, maximum), omits_value=omits_value)


def long(*, required: bool = False, minimum: int | None = None, maximum: int | None = None) -> Integer:
    return Integer("Long", required, require_range(minimum, maximum))


def timestamp(*, required: bool = False) -> Timestamp:
    """Declare epoch seconds, with or without a fraction, read as a float."""
    return Timestamp(required, ())


def list_of(
    element_shape: Shape,
    *,
    required: bool = False,
    min_length: int | None = None,
    max_length: int | None = None,
    omits_value: bool = False,
) -> ListOf:
    """Declare a list. `omits_value`: if this is the only error, DynamoDB reports it without the list."""
    return ListOf(element_shape, required, require_length(min_length, max_length), omits_value=omits_value)


def map_of(
    value_shape: Shape,
    *,
    required: bool = False,
    min_length: int | None = None,
    max_length: int | None = None,
    is_keyed_by_table: bool = False,
    list_lengths: tuple[int, int] | None = None,
    is_shown_as_json: bool = False,
) -> MapOf:
    """Declare a map. `is_keyed_by_table`: every key is a table name. `list_lengths`: the minimum and maximum
    length of list values.

    `is_shown_as_json`: DynamoDB's errors show the map as JSON; otherwise as Java prints it.
    """
    constraints = [*require_length(min_length, max_length)]
    if is_keyed_by_table:
        constraints.append(_require_table_keys())
    if list_lengths is not None:
        constraints.append(require_list_lengths(*list_lengths))
    return MapOf(value_shape, required, tuple(constraints), is_shown_as_json=is_shown_as_json)


def item(*, required: bool = False) -> AttributeMap:
    """Declare attribute values by name: a key, an item, or the values of an expression.

    Valid values are read to plain values at once. Otherwise the result is a `values.UncheckedItem` until the
    operation calls `values.to_plain_item` on it: DynamoDB checks types first and values later.
    """
    return AttributeMap(required, ())


def attribute_value(*, required: bool = False) -> AttributeValue:
    """Declare one attribute value of the legacy parameters: its types are checked, and it is kept
    unchanged.
    """
    return AttributeValue(required, ())


# --- constraints --------------------------------------------------------------------------------------------


def _require_table_keys() -> Constraint:
    """Require every key to be a table name. DynamoDB reports the whole rule, whichever part was violated."""
    constraints = (*reversed(require_length(3, 255)), require_pattern(NAME_PATTERN))
    text = f"Map keys must satisfy constraint: [{', '.join(text for _, text in constraints)}]"

    def accepts(key: str) -> bool:
        name = parse_table_name(key)
        return all(predicate(name) for predicate, _ in constraints)

    return lambda value: all(map(accepts, value)), text


def build_violation_error(path: str, text: str) -> InvalidRequest:
    """Build the error for a single constraint as DynamoDB's newer checks word it: without the value."""
    return InvalidRequest(f"1 validation error detected: {_format_bare_violation(path, text)}")


# --- the shapes ---------------------------------------------------------------------------------------------


class Shape(ABC):
    """One type with its constraints. `read` and `find_violations` are the two steps; `is_valid` is a fast
    form of the second.
    """

    java_type: str = ""

    def __init__(self, required: bool, constraints: tuple[Constraint, ...]) -> None:
        self.required = required
        self.constraints = constraints
        self._predicates = tuple(predicate for predicate, _ in constraints)

    @property
    def has_constraints(self) -> bool:
        return bool(self.constraints)

    @abstractmethod
    def read(self, value: Any, is_element: bool = False) -> Any:
        """Return the value if it has this type. `is_element`: it is inside a list or map, not a structure."""

    def is_valid(self, value: Any) -> bool:
        """Return whether a value that was read meets every constraint."""
        return all(predicate(value) for predicate in self._predicates)

    def find_violations(self, value: Any, path: str) -> Iterator[str]:
        """Yield the text of every constraint that the raw value violates, in DynamoDB's order."""
        if value is None:
            if self.required:
                yield _format_violation(None, path, "Member must not be null")
            return
        for predicate, text in self.constraints:
            if not predicate(value):
                yield _format_violation(self.format_value(value), path, text)
        yield from self._find_inner_violations(value, path)

    def _find_inner_violations(self, value: Any, path: str) -> Iterator[str]:
        return iter(())

    def format_value(self, value: Any) -> str:
        """Format the value for an error, as Java prints it."""
        return _format_java_value(value)

    def format_sole_violation(self, name: str, value: Any) -> str | None:
        """Return DynamoDB's text for when this member is the only error, if it differs from the usual one."""
        return None


class Text(Shape):
    java_type = "java.lang.String"

    def read(self, value: Any, is_element: bool = False) -> str:
        if type(value) is str:
            return value
        raise build_scalar_error(value, "String")


class TableName(Text):
    def __init__(
        self,
        required: bool,
        constraints: tuple[Constraint, ...],
        *,
        is_checked_first: bool = False,
        as_constraint: bool = False,
    ) -> None:
        super().__init__(required, constraints)
        self.is_checked_first, self.as_constraint = is_checked_first, as_constraint

    def read(self, value: Any, is_element: bool = False) -> str:
        return parse_table_name(super().read(value))

    def find_violations(self, value: Any, path: str) -> Iterator[str]:
        return super().find_violations(None if value is None else parse_table_name(value), path)

    def format_sole_violation(self, name: str, value: Any) -> str | None:
        if value != "":
            return None
        return _format_violation(
            value, _lower_first(name), "Member must have length greater than or equal to 1"
        )

    def is_valid(self, value: Any) -> bool:
        return _TABLE_NAME_PATTERN.fullmatch(value) is not None

    def check_presence(self, name: str, value: str | None) -> None:
        """Raise if the name is missing or has the wrong length."""
        if value is None:
            raise InvalidRequest(f"The parameter '{name}' is required but was not present in the request")
        if 3 <= len(value) <= 255:
            return
        if self.as_constraint:
            broken = next(text for holds, text in require_length(3, 255) if not holds(value))
            raise InvalidRequest(
                f"1 validation error detected: {_format_violation(value, _lower_first(name), broken)}"
            )
        raise InvalidRequest(f"{name} must be at least 3 characters long and at most 255 characters long")


class Boolean(Shape):
    java_type = "java.lang.Boolean"

    def read(self, value: Any, is_element: bool = False) -> bool:
        return values.read_boolean(value)


class Integer(Shape):
    def __init__(
        self, kind: str, required: bool, constraints: tuple[Constraint, ...], *, omits_value: bool = False
    ) -> None:
        super().__init__(required, constraints)
        self.kind, self.java_type, self.omits_value = kind, f"java.lang.{kind}", omits_value
        self._bound = 1 << _INTEGER_BITS[kind]

    def read(self, value: Any, is_element: bool = False) -> int:
        if type(value) is float:
            value = math.floor(value)
        if type(value) is not int:
            raise build_scalar_error(value, self.kind)
        if not -self._bound <= value < self._bound:
            raise MalformedRequest(f"Numeric value ({value}) out of range of {self.kind}")
        return value

    def find_violations(self, value: Any, path: str) -> Iterator[str]:
        return super().find_violations(None if value is None else self.read(value), path)

    def format_sole_violation(self, name: str, value: Any) -> str | None:
        if not self.omits_value or value is None:
            return None
        read = self.read(value)
        return next(
            _format_bare_violation(name, text) for predicate, text in self.constraints if not predicate(read)
        )


class Timestamp(Shape):
    java_type = "java.util.Date"

    def read(self, value: Any, is_element: bool = False) -> float:
        if type(value) is int or type(value) is float:
            with contextlib.suppress(OverflowError):
                return float(value)
        raise build_scalar_error(value, "Date")


class Structure(Shape):
    def __init__(self, java_name: str, members: Mapping[str, Shape], required: bool) -> None:
        super().__init__(required, ())
        self.java_type = NAMESPACE + java_name
        self.members = dict(members)
        self._required = tuple(name for name, member in members.items() if member.required)
        self._constrained = {name: member for name, member in members.items() if member.has_constraints}
        self._checked_first = [
            (name, member)
            for name, member in members.items()
            if isinstance(member, TableName) and member.is_checked_first
        ]

    @property
    def has_constraints(self) -> bool:
        return bool(self._required or self._constrained)

    def read(self, value: Any, is_element: bool = False) -> Request:
        if type(value) is not dict:
            raise build_structure_error(value, self.java_type, is_element=is_element)
        members = self.members
        known = {}
        for name, given in value.items():
            member = members.get(name)
            if member is not None and given is not None:
                known[name] = member.read(given)
        return known

    def is_valid(self, value: Any) -> bool:
        for name in self._required:
            if name not in value:
                return False
        constrained = self._constrained
        for name, given in value.items():
            member = constrained.get(name)
            if member is not None and not member.is_valid(given):
                return False
        return True

    def check(self, request: Request, read: Request) -> None:
        """Raise if a request violates a constraint. `request` is the raw request; `read` is the result of
        `read`.
        """
        for name, member in self._checked_first:
            member.check_presence(name, read.get(name))
        if self.is_valid(read):
            return
        found = list(islice(self._find_inner_violations(request, ""), MAX_VIOLATIONS))
        sole = self._find_sole_violation(request)
        if sole is not None:
            found = [sole]
        plural = "s" if len(found) > 1 else ""
        raise InvalidRequest(f"{len(found)} validation error{plural} detected: {'; '.join(found)}")

    def _find_sole_violation(self, request: Request) -> str | None:
        faulty = [
            (name, member)
            for name, member in self.members.items()
            if any(member.find_violations(request.get(name), ""))
        ]
        if len(faulty) != 1:
            return None
        [(name, member)] = faulty
        return member.format_sole_violation(name, request.get(name))

    def _find_inner_violations(self, value: Any, path: str) -> Iterator[str]:
        prefix = f"{path}." if path else ""
        return chain.from_iterable(
            member.find_violations(value.get(name), prefix + _lower_first(name))
            for name, member in self.members.items()
        )

    def format_value(self, value: Any) -> str:
        members = [
            f"{_lower_first(name)}={member.format_value(value[name])}"
            for name, member in self.members.items()
            if value.get(name) is not None
        ]
        return f"{self.java_type.removeprefix(NAMESPACE)}({', '.join(members)})"


class ListOf(Shape):
    def __init__(
        self,
        element_shape: Shape,
        required: bool,
        constraints: tuple[Constraint, ...],
        *,
        omits_value: bool = False,
    ) -> None:
        super().__init__(required, constraints)
        self.element_shape, self.java_type, self.omits_value = (
            element_shape,
            f"java.util.List<{element_shape.java_type}>",
            omits_value,
        )

    @property
    def has_constraints(self) -> bool:
        return True

    def read(self, value: Any, is_element: bool = False) -> list[Any]:
        if type(value) is not list:
            raise build_list_error(value, is_element=is_element)
        read = self.element_shape.read
        return [None if each is None else read(each, True) for each in value]

    def is_valid(self, value: Any) -> bool:
        holds = self.element_shape.is_valid
        return super().is_valid(value) and all(each is not None and holds(each) for each in value)

    def _find_inner_violations(self, value: Any, path: str) -> Iterator[str]:
        for number, each in enumerate(value, 1):
            yield from _find_element_violations(self.element_shape, each, f"{path}.{number}.member")

    def format_sole_violation(self, name: str, value: Any) -> str | None:
        if not self.omits_value or value is None:
            return None
        broken = (text for predicate, text in self.constraints if not predicate(value))
        return next((_format_bare_violation(name, text) for text in broken), None)

    def format_value(self, value: Any) -> str:
        elements = ("null" if each is None else self.element_shape.format_value(each) for each in value)
        return f"[{', '.join(elements)}]"


class MapOf(Shape):
    def __init__(
        self,
        value_shape: Shape,
        required: bool,
        constraints: tuple[Constraint, ...],
        *,
        is_shown_as_json: bool = False,
    ) -> None:
        super().__init__(required, constraints)
        self.value_shape, self.java_type = (
            value_shape,
            f"java.util.Map<java.lang.String, {value_shape.java_type}>",
        )
        self.is_shown_as_json = is_shown_as_json

    @property
    def has_constraints(self) -> bool:
        return True

    def read(self, value: Any, is_element: bool = False) -> dict[str, Any]:
        if type(value) is not dict:
            raise build_map_error(value, self.java_type, is_element=is_element)
        read = self.value_shape.read
        return {name: None if each is None else read(each, True) for name, each in value.items()}

    def is_valid(self, value: Any) -> bool:
        holds = self.value_shape.is_valid
        return super().is_valid(value) and all(each is not None and holds(each) for each in value.values())

    def _find_inner_violations(self, value: Any, path: str) -> Iterator[str]:
        for name, each in value.items():
            yield from _find_element_violations(self.value_shape, each, f"{path}.{name}.member")

    def format_sole_violation(self, name: str, value: Any) -> str | None:
        """Return the text of the only error inside the map, with its path, if DynamoDB reports it without the
        value.
        """
        if (
            not value
            or not isinstance(self.value_shape, Structure)
            or len(list(self.find_violations(value, name))) != 1
        ):
            return None
        texts = (
            member.format_sole_violation(f"{name}.{key}.member.{inner}", (each or {}).get(inner))
            for key, each in value.items()
            for inner, member in self.value_shape.members.items()
        )
        return next(filter(None, texts), None)

    def format_value(self, value: Any) -> str:
        if self.is_shown_as_json:
            return msgspec.json.encode(value).decode()
        members = (
            f"{name}={'null' if each is None else self.value_shape.format_value(each)}"
            for name, each in value.items()
        )
        return f"{{{', '.join(members)}}}"


class AttributeMap(Shape):
    java_type = values.ATTRIBUTE_MAP

    def read(self, value: Any, is_element: bool = False) -> Any:
        if type(value) is not dict:
            raise build_map_error(value, self.java_type, is_element=is_element)
        return values.read_item(value)


class AttributeValue(Shape):
    java_type = values.ATTRIBUTE_VALUE

    def read(self, value: Any, is_element: bool = False) -> Any:
        if type(value) is not dict:
            raise build_structure_error(value, self.java_type, is_element=is_element)
        values.check_types(value)
        return value


# --- texts --------------------------------------------------------------------------------------------------


def parse_table_name(name_or_arn: str) -> str:
    """Return the table name in an ARN; return any other text unchanged."""
    if name_or_arn.startswith("arn:") and len(name_or_arn) <= _MAX_TABLE_ARN_LENGTH:
        match = _TABLE_ARN.fullmatch(name_or_arn)
        if match is not None:
            return match[1]
    return name_or_arn


def _find_element_violations(shape: Shape, value: Any, path: str) -> Iterator[str]:
    if value is None:
        return iter((_format_violation(None, path, "Member must not be null"),))
    return shape.find_violations(value, path)


def _format_violation(display: str | None, path: str, text: str) -> str:
    quoted = "null" if display is None else f"'{display}'"
    return f"Value {quoted} at '{path}' failed to satisfy constraint: {text}"


def _format_bare_violation(path: str, text: str) -> str:
    return f"Value at '{path}' failed to satisfy constraint: {text}"


def _format_java_value(value: object) -> str:
    """Format a value as Java prints it."""
    if type(value) is list:
        return f"[{', '.join(map(_format_java_value, value))}]"
    if type(value) is dict:
        return f"{{{', '.join(f'{name}={_format_java_value(each)}' for name, each in value.items())}}}"
    return "null" if value is None else str(value)


def _lower_first(name: str) -> str:
    return name[0].lower() + name[1:]
