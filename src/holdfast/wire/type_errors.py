"""The texts of SerializationException: DynamoDB's errors for a request member of the wrong type.

The two request readers, `shapes` and `values`, use them. The text depends on the found type, the expected
type, and whether the value is inside a structure or inside a list or map (`element`).
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


def not_scalar(value: object, wanted: str) -> MalformedRequest:
    if type(value) is list:
        return MalformedRequest(f"Unrecognized collection type class java.lang.{wanted}")
    if type(value) is dict:
        return MalformedRequest(UNEXPECTED_MAP)
    return MalformedRequest(f"{_token_of(value)} cannot be converted to {wanted}")


def _token_of(value: object) -> str:
    """Return DynamoDB's name for a JSON scalar."""
    if type(value) is bool:
        return "TRUE_VALUE" if value else "FALSE_VALUE"
    if type(value) is str:
        return "STRING_VALUE"
    return "DECIMAL_VALUE" if type(value) is float else "NUMBER_VALUE"


def not_binary(value: object) -> MalformedRequest:
    if type(value) is list:
        return MalformedRequest("Unrecognized collection type class java.nio.ByteBuffer")
    if type(value) is dict:
        return MalformedRequest(UNEXPECTED_MAP)
    return MalformedRequest("only base-64-encoded strings are convertible to bytes")


def not_structure(value: object, java: str, *, element: bool) -> MalformedRequest:
    if type(value) is list:
        return MalformedRequest(f"Unrecognized collection type class {java}")
    return MalformedRequest(UNEXPECTED_ELEMENT if element else UNEXPECTED_FIELD)


def not_list(value: object, *, element: bool) -> MalformedRequest:
    if type(value) is dict:
        return MalformedRequest(UNEXPECTED_MAP)
    return MalformedRequest(UNEXPECTED_NESTED if element else UNEXPECTED_FIELD)


def not_map(value: object, java: str, *, element: bool) -> MalformedRequest:
    if type(value) is list:
        return MalformedRequest(f"Unrecognized collection type {java}")
    return MalformedRequest(UNEXPECTED_NESTED if element else UNEXPECTED_FIELD)
