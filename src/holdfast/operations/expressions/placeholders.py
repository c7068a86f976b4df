"""The expression attribute names and values of one request, with a record of which were used.

All expressions of a request share one `Placeholders`, because DynamoDB rejects a name or value that none of
them uses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from holdfast.core.errors import InvalidRequest
from holdfast.core.limits import MAX_ATTRIBUTE_NAME_BYTES, MAX_EXPRESSION_PLACEHOLDER_BYTES
from holdfast.operations.expressions.errors import ExpressionError, build_expression_error
from holdfast.operations.values import Value

_NAME_KEY_PATTERN: Final = re.compile(r"#[A-Za-z0-9_]+")
_VALUE_KEY_PATTERN: Final = re.compile(r":[A-Za-z0-9_]+")


class Placeholders:
    """The names and values of one request. Absent (None) and empty differ: DynamoDB rejects an empty map.

    The constructor raises `InvalidRequest` for an empty map, a malformed key, or an attribute name that is
    empty or too long.
    """

    __slots__ = ("_names", "_used_names", "_used_values", "_values")

    def __init__(
        self, names: Mapping[str, str] | None = None, values: Mapping[str, Value] | None = None
    ) -> None:
        if names is not None:
            _check_names(names)
        if values is not None:
            _check_values(values)
        self._names: Mapping[str, str] = names or {}
        self._values: Mapping[str, Value] = values or {}
        self._used_names: set[str] = set()
        self._used_values: set[str] = set()

    def resolve_name(self, key: str) -> str:
        """Return the attribute name for a `#key` and mark it as used. Raise `ExpressionError` if it is not
        defined.
        """
        try:
            name = self._names[key]
        except KeyError:
            raise build_expression_error(
                "An expression attribute name used in the document path is not defined", attribute_name=key
            ) from None
        self._used_names.add(key)
        return name

    def resolve_value(self, key: str) -> Value:
        """Return the value for a `:key` and mark it as used. Raise `ExpressionError` if it is not defined."""
        try:
            value = self._values[key]
        except KeyError:
            raise build_expression_error(
                "An expression attribute value used in expression is not defined", attribute_value=key
            ) from None
        self._used_values.add(key)
        return value

    def check_all_used(self) -> None:
        """Raise `InvalidRequest` if a name or value was not used. Call it once, after parsing every
        expression of the request.
        """
        if len(self._used_names) < len(self._names):
            raise _build_unused_error("ExpressionAttributeNames", self._names, self._used_names)
        if len(self._used_values) < len(self._values):
            raise _build_unused_error("ExpressionAttributeValues", self._values, self._used_values)


def _check_names(names: Mapping[str, str]) -> None:
    """Raise `InvalidRequest` for an empty map, a malformed key, or a name that is empty or too long."""
    _check_keys("ExpressionAttributeNames", names, _NAME_KEY_PATTERN)
    for key, name in names.items():
        if not name:
            raise InvalidRequest(
                f"ExpressionAttributeNames contains invalid value: Empty attribute name for key {key}"
            )
        if len(name) * 4 > MAX_ATTRIBUTE_NAME_BYTES and len(name.encode()) > MAX_ATTRIBUTE_NAME_BYTES:
            raise InvalidRequest(
                "ExpressionAttributeNames contains invalid value: Attribute name is too large, must be less "
                f"than {MAX_ATTRIBUTE_NAME_BYTES + 1} bytes for key {key}"
            )


def _check_values(values: Mapping[str, Value]) -> None:
    _check_keys("ExpressionAttributeValues", values, _VALUE_KEY_PATTERN)


def _check_keys(parameter: str, keys: Iterable[str], pattern: re.Pattern[str]) -> None:
    """Raise `InvalidRequest` for an empty map, or a key that is malformed or too long."""
    if not keys:
        raise InvalidRequest(f"{parameter} must not be empty")
    for key in keys:
        if len(key) > MAX_EXPRESSION_PLACEHOLDER_BYTES or not pattern.fullmatch(key):
            raise InvalidRequest(f"{parameter} contains invalid key: {_build_key_error(key, pattern).reason}")


def _build_key_error(key: str, pattern: re.Pattern[str]) -> ExpressionError:
    """Return the reason why a placeholder key is invalid: empty, malformed or too long."""
    if not key:
        return build_expression_error("The expression attribute map contains an empty key")
    if len(key) <= MAX_EXPRESSION_PLACEHOLDER_BYTES:
        return build_expression_error("Syntax error", key=f'"{key}"')
    # DynamoDB reports the size only for the key of a name.
    details: dict[str, object] = {"size_of_key": len(key)} if pattern is _NAME_KEY_PATTERN else {}
    return build_expression_error("The expression attribute map contains a key that is too long", **details)


def _build_unused_error(parameter: str, placeholders: Iterable[str], used: set[str]) -> InvalidRequest:
    keys = ", ".join(key for key in placeholders if key not in used)
    return InvalidRequest(f"Value provided in {parameter} unused in expressions: keys: {{{keys}}}")
