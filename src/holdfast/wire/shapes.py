"""Declarations of request shapes, and the reader that checks requests against them.

This is the first stage of every request, after the JSON is parsed. It has two steps, as DynamoDB does:

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
`demanded_table_name()`.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from itertools import chain, islice
from typing import Any, Final, TypeAlias

import msgspec

from holdfast.core.errors import InvalidRequest, MalformedRequest
from holdfast.wire import values
from holdfast.wire.type_errors import NAMESPACE, not_list, not_map, not_scalar, not_structure

Request: TypeAlias = dict[str, Any]
Answer: TypeAlias = dict[str, Any]
Constraint: TypeAlias = tuple[Callable[[Any], bool], str]

NAME_PATTERN: Final = "[a-zA-Z0-9_.-]+"
COMPLAINTS_MAX: Final = 10
_NAME: Final = re.compile(f"{NAME_PATTERN[:-1]}{{3,255}}")
_TABLE_ARN: Final = re.compile(r"arn:[a-z-]+:dynamodb:[a-z0-9-]+:\d+:table/([a-zA-Z0-9_.-]{3,255})")
_TABLE_ARN_LENGTH_MAX: Final = 1024
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
    shortest: int | None = None,
    longest: int | None = None,
) -> Text:
    constraints: list[Constraint] = []
    if enum:
        constraints.append(_in_set(enum))
    if pattern is not None:
        constraints.append(_matches(pattern))
    return Text(required, (*constraints, *_length_between(shortest, longest)))


def table_name(*, required: bool = True) -> TableName:
    """Declare the name or ARN of a table; `read` returns the name."""
    return TableName(required, (_matches(NAME_PATTERN), *_length_between(3, 255)))


def demanded_table_name(*, as_constraint: bool = False) -> TableName:
    """Declare a table name as the operations on tables check it: before the other members, and with other
    texts.

    `as_constraint`: a wrong length is also reported first, but with the text of a constraint.
    """
    return TableName(False, (_matches(NAME_PATTERN),), demanded=True, as_constraint=as_constraint)


def index_name(*, required: bool = False) -> Text:
    return string(required=required, pattern=NAME_PATTERN, shortest=3, longest=255)


def boolean(*, required: bool = False) -> Boolean:
    return Boolean(required, ())


def integer(
    *, required: bool = False, least: int | None = None, most: int | None = None, bare: bool = False
) -> Integer:
    """Declare an integer. `bare`: if this is the only error, DynamoDB reports it without the value."""
    return Integer("Integer", required, _value_between(least, most), bare=bare)


def long(*, required: bool = False, least: int | None = None, most: int | None = None) -> Integer:
    return Integer("Long", required, _value_between(least, most))


def timestamp(*, required: bool = False) -> Timestamp:
    """Declare epoch seconds, with or without a fraction, read as a float."""
    return Timestamp(required, ())


def list_of(
    of: Shape,
    *,
    required: bool = False,
    shortest: int | None = None,
    longest: int | None = None,
    bare: bool = False,
) -> ListOf:
    """Declare a list. `bare`: if this is the only error, DynamoDB reports it without the list."""
    return ListOf(of, required, _length_between(shortest, longest), bare=bare)


def map_of(
    of: Shape,
    *,
    required: bool = False,
    shortest: int | None = None,
    longest: int | None = None,
    by_table: bool = False,
    lists: tuple[int, int] | None = None,
    shown_as_json: bool = False,
) -> MapOf:
    """Declare a map. `by_table`: every key is a table name. `lists`: the minimum and maximum length of list
    values.

    `shown_as_json`: DynamoDB's errors show the map as JSON; otherwise as Java prints it.
    """
    constraints = [*_length_between(shortest, longest)]
    if by_table:
        constraints.append(_keys_are_tables())
    if lists is not None:
        constraints.append(_lists_between(*lists))
    return MapOf(of, required, tuple(constraints), shown_as_json=shown_as_json)


def item(*, required: bool = False) -> AttributeMap:
    """Declare attribute values by name: a key, an item, or the values of an expression.

    Valid values are read to plain values at once. Otherwise the result is a `values.Suspect` until the
    operation calls `values.settled` on it: DynamoDB checks types first and values later.
    """
    return AttributeMap(required, ())


def attribute_value(*, required: bool = False) -> AttributeValue:
    """Declare one attribute value of the legacy parameters: its types are checked, and it is kept
    unchanged.
    """
    return AttributeValue(required, ())


# --- constraints --------------------------------------------------------------------------------------------


def _in_set(allowed: tuple[str, ...]) -> Constraint:
    return frozenset(allowed).__contains__, f"Member must satisfy enum value set: [{', '.join(allowed)}]"


def _matches(pattern: str) -> Constraint:
    fullmatch = re.compile(pattern).fullmatch
    text = f"Member must satisfy regular expression pattern: {pattern}"
    return lambda value: fullmatch(value) is not None, text


def _length_between(shortest: int | None, longest: int | None) -> tuple[Constraint, ...]:
    found: list[Constraint] = []
    if shortest is not None:
        text = f"Member must have length greater than or equal to {shortest}"
        found.append((lambda value: len(value) >= shortest, text))
    if longest is not None:
        text = f"Member must have length less than or equal to {longest}"
        found.append((lambda value: len(value) <= longest, text))
    return tuple(found)


def _value_between(least: int | None, most: int | None) -> tuple[Constraint, ...]:
    found: list[Constraint] = []
    if least is not None:
        text = f"Member must have value greater than or equal to {least}"
        found.append((lambda value: value >= least, text))
    if most is not None:
        found.append((lambda value: value <= most, f"Member must have value less than or equal to {most}"))
    return tuple(found)


def _lists_between(shortest: int, longest: int) -> Constraint:
    text = (
        f"Map value must satisfy constraint: [Member must have length less than or equal to {longest}, "
        f"Member must have length greater than or equal to {shortest}]"
    )
    return lambda value: all(shortest <= len(each or ()) <= longest for each in value.values()), text


def _keys_are_tables() -> Constraint:
    """Require every key to be a table name. DynamoDB reports the whole rule, whichever part was violated."""
    constraints = (*reversed(_length_between(3, 255)), _matches(NAME_PATTERN))
    text = f"Map keys must satisfy constraint: [{', '.join(text for _, text in constraints)}]"

    def accepts(key: str) -> bool:
        name = name_of_table(key)
        return all(predicate(name) for predicate, _ in constraints)

    return lambda value: all(map(accepts, value)), text


def bare_complaint(path: str, text: str) -> InvalidRequest:
    """Build the error for a single constraint as DynamoDB's newer checks word it: without the value."""
    return InvalidRequest(f"1 validation error detected: {_bare(path, text)}")


# --- the shapes ---------------------------------------------------------------------------------------------


class Shape(ABC):
    """One type with its constraints. `read` and `complaints` are the two steps; `holds` is a fast form of the
    second.
    """

    java: str = ""

    def __init__(self, required: bool, constraints: tuple[Constraint, ...]) -> None:
        self.required = required
        self.constraints = constraints
        self._predicates = tuple(predicate for predicate, _ in constraints)

    @property
    def constrained(self) -> bool:
        return bool(self.constraints)

    @abstractmethod
    def read(self, value: Any, element: bool = False) -> Any:
        """Return the value if it has this type. `element`: it is inside a list or map, not a structure."""

    def holds(self, value: Any) -> bool:
        """Return whether a value that was read meets every constraint."""
        return all(predicate(value) for predicate in self._predicates)

    def complaints(self, value: Any, path: str) -> Iterator[str]:
        """Yield the text of every constraint that the raw value violates, in DynamoDB's order."""
        if value is None:
            if self.required:
                yield _complaint(None, path, "Member must not be null")
            return
        for predicate, text in self.constraints:
            if not predicate(value):
                yield _complaint(self.shown(value), path, text)
        yield from self._inner_complaints(value, path)

    def _inner_complaints(self, value: Any, path: str) -> Iterator[str]:
        return iter(())

    def shown(self, value: Any) -> str:
        """Format the value for an error, as Java prints it."""
        return _shown(value)

    def sole_complaint(self, name: str, value: Any) -> str | None:
        """Return DynamoDB's text for when this member is the only error, if it differs from the usual one."""
        return None


class Text(Shape):
    java = "java.lang.String"

    def read(self, value: Any, element: bool = False) -> str:
        if type(value) is str:
            return value
        raise not_scalar(value, "String")


class TableName(Text):
    def __init__(
        self,
        required: bool,
        constraints: tuple[Constraint, ...],
        *,
        demanded: bool = False,
        as_constraint: bool = False,
    ) -> None:
        super().__init__(required, constraints)
        self.demanded, self.as_constraint = demanded, as_constraint

    def read(self, value: Any, element: bool = False) -> str:
        return name_of_table(super().read(value))

    def complaints(self, value: Any, path: str) -> Iterator[str]:
        return super().complaints(None if value is None else name_of_table(value), path)

    def sole_complaint(self, name: str, value: Any) -> str | None:
        if value != "":
            return None
        return _complaint(value, _lower_first(name), "Member must have length greater than or equal to 1")

    def holds(self, value: Any) -> bool:
        return _NAME.fullmatch(value) is not None

    def demand(self, name: str, value: str | None) -> None:
        if value is None:
            raise InvalidRequest(f"The parameter '{name}' is required but was not present in the request")
        if 3 <= len(value) <= 255:
            return
        if self.as_constraint:
            broken = next(text for holds, text in _length_between(3, 255) if not holds(value))
            raise InvalidRequest(
                f"1 validation error detected: {_complaint(value, _lower_first(name), broken)}"
            )
        raise InvalidRequest(f"{name} must be at least 3 characters long and at most 255 characters long")


class Boolean(Shape):
    java = "java.lang.Boolean"

    def read(self, value: Any, element: bool = False) -> bool:
        return values.read_boolean(value)


class Integer(Shape):
    def __init__(
        self, kind: str, required: bool, constraints: tuple[Constraint, ...], *, bare: bool = False
    ) -> None:
        super().__init__(required, constraints)
        self.kind, self.java, self.bare = kind, f"java.lang.{kind}", bare
        self._bound = 1 << _INTEGER_BITS[kind]

    def read(self, value: Any, element: bool = False) -> int:
        if type(value) is float:
            value = math.floor(value)
        if type(value) is not int:
            raise not_scalar(value, self.kind)
        if not -self._bound <= value < self._bound:
            raise MalformedRequest(f"Numeric value ({value}) out of range of {self.kind}")
        return value

    def complaints(self, value: Any, path: str) -> Iterator[str]:
        return super().complaints(None if value is None else self.read(value), path)

    def sole_complaint(self, name: str, value: Any) -> str | None:
        if not self.bare or value is None:
            return None
        read = self.read(value)
        return next(_bare(name, text) for predicate, text in self.constraints if not predicate(read))


class Timestamp(Shape):
    java = "java.util.Date"

    def read(self, value: Any, element: bool = False) -> float:
        if type(value) is int or type(value) is float:
            return float(value)
        raise not_scalar(value, "Date")


class Structure(Shape):
    def __init__(self, java_name: str, members: Mapping[str, Shape], required: bool) -> None:
        super().__init__(required, ())
        self.java = NAMESPACE + java_name
        self.members = dict(members)
        self._required = tuple(name for name, member in members.items() if member.required)
        self._constrained = {name: member for name, member in members.items() if member.constrained}
        self._demanded = [
            (name, member)
            for name, member in members.items()
            if isinstance(member, TableName) and member.demanded
        ]

    @property
    def constrained(self) -> bool:
        return bool(self._required or self._constrained)

    def read(self, value: Any, element: bool = False) -> Request:
        if type(value) is not dict:
            raise not_structure(value, self.java, element=element)
        members = self.members
        known = {}
        for name, given in value.items():
            member = members.get(name)
            if member is not None and given is not None:
                known[name] = member.read(given)
        return known

    def holds(self, value: Any) -> bool:
        for name in self._required:
            if name not in value:
                return False
        constrained = self._constrained
        for name, given in value.items():
            member = constrained.get(name)
            if member is not None and not member.holds(given):
                return False
        return True

    def check(self, request: Request, read: Request) -> None:
        """Raise if a request violates a constraint. `request` is the raw request; `read` is the result of
        `read`.
        """
        for name, member in self._demanded:
            member.demand(name, read.get(name))
        if self.holds(read):
            return
        found = list(islice(self._inner_complaints(request, ""), COMPLAINTS_MAX))
        sole = self._sole_complaint(request)
        if sole is not None:
            found = [sole]
        plural = "s" if len(found) > 1 else ""
        raise InvalidRequest(f"{len(found)} validation error{plural} detected: {'; '.join(found)}")

    def _sole_complaint(self, request: Request) -> str | None:
        faulty = [
            (name, member)
            for name, member in self.members.items()
            if any(member.complaints(request.get(name), ""))
        ]
        if len(faulty) != 1:
            return None
        [(name, member)] = faulty
        return member.sole_complaint(name, request.get(name))

    def _inner_complaints(self, value: Any, path: str) -> Iterator[str]:
        prefix = f"{path}." if path else ""
        return chain.from_iterable(
            member.complaints(value.get(name), prefix + _lower_first(name))
            for name, member in self.members.items()
        )

    def shown(self, value: Any) -> str:
        members = [
            f"{_lower_first(name)}={member.shown(value[name])}"
            for name, member in self.members.items()
            if value.get(name) is not None
        ]
        return f"{self.java.removeprefix(NAMESPACE)}({', '.join(members)})"


class ListOf(Shape):
    def __init__(
        self, of: Shape, required: bool, constraints: tuple[Constraint, ...], *, bare: bool = False
    ) -> None:
        super().__init__(required, constraints)
        self.of, self.java, self.bare = of, f"java.util.List<{of.java}>", bare

    @property
    def constrained(self) -> bool:
        return True

    def read(self, value: Any, element: bool = False) -> list[Any]:
        if type(value) is not list:
            raise not_list(value, element=element)
        read = self.of.read
        return [None if each is None else read(each, True) for each in value]

    def holds(self, value: Any) -> bool:
        holds = self.of.holds
        return super().holds(value) and all(each is not None and holds(each) for each in value)

    def _inner_complaints(self, value: Any, path: str) -> Iterator[str]:
        for place, each in enumerate(value, 1):
            yield from _element_complaints(self.of, each, f"{path}.{place}.member")

    def sole_complaint(self, name: str, value: Any) -> str | None:
        if not self.bare or value is None:
            return None
        broken = (text for predicate, text in self.constraints if not predicate(value))
        return next((_bare(name, text) for text in broken), None)

    def shown(self, value: Any) -> str:
        return f"[{', '.join('null' if each is None else self.of.shown(each) for each in value)}]"


class MapOf(Shape):
    def __init__(
        self, of: Shape, required: bool, constraints: tuple[Constraint, ...], *, shown_as_json: bool = False
    ) -> None:
        super().__init__(required, constraints)
        self.of, self.java = of, f"java.util.Map<java.lang.String, {of.java}>"
        self.shown_as_json = shown_as_json

    @property
    def constrained(self) -> bool:
        return True

    def read(self, value: Any, element: bool = False) -> dict[str, Any]:
        if type(value) is not dict:
            raise not_map(value, self.java, element=element)
        read = self.of.read
        return {name: None if each is None else read(each, True) for name, each in value.items()}

    def holds(self, value: Any) -> bool:
        holds = self.of.holds
        return super().holds(value) and all(each is not None and holds(each) for each in value.values())

    def _inner_complaints(self, value: Any, path: str) -> Iterator[str]:
        for name, each in value.items():
            yield from _element_complaints(self.of, each, f"{path}.{name}.member")

    def sole_complaint(self, name: str, value: Any) -> str | None:
        """Return the text of the only error inside the map, with its path, if DynamoDB reports it without the
        value.
        """
        if not value or not isinstance(self.of, Structure) or len(list(self.complaints(value, name))) != 1:
            return None
        told = (
            member.sole_complaint(f"{name}.{key}.member.{inner}", (each or {}).get(inner))
            for key, each in value.items()
            for inner, member in self.of.members.items()
        )
        return next(filter(None, told), None)

    def shown(self, value: Any) -> str:
        if self.shown_as_json:
            return msgspec.json.encode(value).decode()
        members = (
            f"{name}={'null' if each is None else self.of.shown(each)}" for name, each in value.items()
        )
        return f"{{{', '.join(members)}}}"


class AttributeMap(Shape):
    java = values.ATTRIBUTE_MAP

    def read(self, value: Any, element: bool = False) -> Any:
        if type(value) is not dict:
            raise not_map(value, self.java, element=element)
        return values.read_item(value)


class AttributeValue(Shape):
    java = values.ATTRIBUTE_VALUE

    def read(self, value: Any, element: bool = False) -> Any:
        if type(value) is not dict:
            raise not_structure(value, self.java, element=element)
        values.check_types(value)
        return value


# --- texts --------------------------------------------------------------------------------------------------


def name_of_table(name_or_arn: str) -> str:
    """Return the table name in an ARN; return any other text unchanged."""
    if name_or_arn.startswith("arn:") and len(name_or_arn) <= _TABLE_ARN_LENGTH_MAX:
        match = _TABLE_ARN.fullmatch(name_or_arn)
        if match is not None:
            return match[1]
    return name_or_arn


def _element_complaints(of: Shape, value: Any, path: str) -> Iterator[str]:
    if value is None:
        return iter((_complaint(None, path, "Member must not be null"),))
    return of.complaints(value, path)


def _complaint(shown: str | None, path: str, text: str) -> str:
    quoted = "null" if shown is None else f"'{shown}'"
    return f"Value {quoted} at '{path}' failed to satisfy constraint: {text}"


def _bare(path: str, text: str) -> str:
    return f"Value at '{path}' failed to satisfy constraint: {text}"


def _shown(value: object) -> str:
    """Format a value as Java prints it."""
    if type(value) is list:
        return f"[{', '.join(map(_shown, value))}]"
    if type(value) is dict:
        return f"{{{', '.join(f'{name}={_shown(each)}' for name, each in value.items())}}}"
    return "null" if value is None else str(value)


def _lower_first(name: str) -> str:
    return name[0].lower() + name[1:]
