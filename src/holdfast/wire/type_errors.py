"""The texts of SerializationException: DynamoDB's errors for a request member of the wrong type.

The two request readers, `shapes` and `values`, use them. The text depends on the found type, the expected
type, and whether the value is inside a structure or inside a list or map (`is_element`).
"""

from __future__ import annotations

from typing import Final

from holdfast.core.errors import MalformedRequest

NAMESPACE: Final = "com.amazonaws.dynamodb.v20120810."

UNEXPECTED_MAP: Final = "Start of structure or map found where not expected"
UNEXPECTED_FIELD: Final = "Unexpected field type"
UNEXPECTED_ELEMENT: Final = "Unexpected value type in payload"
# DynamoDB's text when a nested value should be a list or a map and is neither.
UNEXPECTED_NESTED: Final = (
    "class sun.reflect.generics.reflectiveObjects.ParameterizedTypeImpl cannot be cast to class "
    "java.lang.Class (sun.reflect.generics.reflectiveObjects.ParameterizedTypeImpl and java.lang.Class "
    "are in module java.base of loader 'bootstrap')"
)


def build_scalar_error(value: object, expected: str) -> MalformedRequest:
    """Build the error for a value that is not a scalar of the `expected` Java type, such as String."""
    if type(value) is list:
        return MalformedRequest(f"Unrecognized collection type class java.lang.{expected}")
    if type(value) is dict:
        return MalformedRequest(UNEXPECTED_MAP)
    return MalformedRequest(f"{_get_token_name(value)} cannot be converted to {expected}")


def _get_token_name(value: object) -> str:
    """Return DynamoDB's name for a JSON scalar."""
    if type(value) is bool:
        return "TRUE_VALUE" if value else "FALSE_VALUE"
    if type(value) is str:
        return "STRING_VALUE"
    return "DECIMAL_VALUE" if type(value) is float else "NUMBER_VALUE"


def build_binary_error(value: object) -> MalformedRequest:
    """Build the error for a value that should be a base64 string."""
    if type(value) is list:
        return MalformedRequest("Unrecognized collection type class java.nio.ByteBuffer")
    if type(value) is dict:
        return MalformedRequest(UNEXPECTED_MAP)
    return MalformedRequest("only base-64-encoded strings are convertible to bytes")


def build_structure_error(value: object, java_type: str, *, is_element: bool) -> MalformedRequest:
    """Build the error for a value that should be a structure of this Java type."""
    if type(value) is list:
        return MalformedRequest(f"Unrecognized collection type class {java_type}")
    return MalformedRequest(UNEXPECTED_ELEMENT if is_element else UNEXPECTED_FIELD)


def build_list_error(value: object, *, is_element: bool) -> MalformedRequest:
    """Build the error for a value that should be a list."""
    if type(value) is dict:
        return MalformedRequest(UNEXPECTED_MAP)
    return MalformedRequest(UNEXPECTED_NESTED if is_element else UNEXPECTED_FIELD)


def build_map_error(value: object, java_type: str, *, is_element: bool) -> MalformedRequest:
    """Build the error for a value that should be a map of this Java type."""
    if type(value) is list:
        return MalformedRequest(f"Unrecognized collection type {java_type}")
    return MalformedRequest(UNEXPECTED_NESTED if is_element else UNEXPECTED_FIELD)
