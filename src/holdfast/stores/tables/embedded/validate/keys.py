"""Validation of keys against a table's schema: returns the encoded key, or raises DynamoDB's error."""

from __future__ import annotations

from typing import Final

from holdfast.core.errors import EmptyKeyValue, InvalidRequest
from holdfast.operations.values import Item, Value, get_type_tag
from holdfast.stores.tables.checks.definitions import INVALID
from holdfast.stores.tables.embedded.table import KeyBytes, KeyPart, Table

NOT_VALID: Final = "One or more parameter values are not valid. "
SCHEMA_MISMATCH: Final = "The provided key element does not match the schema"


def validate_key(table: Table, key: Item, *, prefix: str = NOT_VALID) -> KeyBytes:
    """Return a key as bytes. It must have exactly the schema's attributes.

    `prefix` is the beginning of the error for an empty value: DynamoDB uses an older text for a starting key.
    """
    keys = table.keys
    if len(key) != len(keys.parts):
        raise InvalidRequest(SCHEMA_MISMATCH)
    partition = _encode_key_part(keys.partition, key, prefix)
    return partition, b"" if keys.sort is None else _encode_key_part(keys.sort, key, prefix)


def _encode_key_part(part: KeyPart, key: Item, prefix: str) -> bytes:
    """Return the bytes of one attribute of a key. Raise if it is missing, mistyped, empty or too large."""
    value = key.get(part.name)
    if type(value) not in part.types:
        raise InvalidRequest(SCHEMA_MISMATCH)
    if not value and part.tag != "N":
        raise EmptyKeyValue(format_empty_key_error(part, prefix=prefix))
    return check_key_size(part, part.encode(value))


def check_key_size(part: KeyPart, encoded: bytes) -> bytes:
    """Return the bytes of a key attribute. Raise `InvalidRequest` if there are too many."""
    if len(encoded) > part.bytes_max:
        raise InvalidRequest(
            INVALID
            + (
                "Size of hashkey has exceeded the maximum size limit of2048 bytes"
                if part.is_partition
                else "Aggregated size of all range keys has exceeded the size limit of 1024 bytes"
            )
        )
    return encoded


def format_empty_key_error(part: KeyPart, *, prefix: str = NOT_VALID) -> str:
    """Return DynamoDB's text for an empty value of a key of the table."""
    return f"{prefix}{format_empty_value_error(part)} Key: {part.name}"


def format_empty_value_error(part: KeyPart) -> str:
    """Return DynamoDB's sentence about an empty string or binary value."""
    noun = "string" if part.tag == "S" else "binary"
    return f"The AttributeValue for a key attribute cannot contain an empty {noun} value."


def validate_item_key(table: Table, item: Item) -> KeyBytes:
    """Return the key of a whole item as bytes. Its index keys, where present, must be valid."""
    keys = table.keys
    partition = _encode_item_key_part(keys.partition, item)
    sort = b"" if keys.sort is None else _encode_item_key_part(keys.sort, item)
    check_index_keys(table, item)
    return partition, sort


def _encode_item_key_part(part: KeyPart, item: Item) -> bytes:
    """Return the bytes of an item's key attribute. Raise if it is missing, mistyped, empty or too large."""
    if part.name not in item:
        raise InvalidRequest(f"{INVALID}Missing the key {part.name} in the item")
    value = item[part.name]
    if type(value) not in part.types:
        raise InvalidRequest(
            f"{INVALID}Type mismatch for key {part.name} expected: {part.tag} actual: {get_type_tag(value)}"
        )
    if not value and part.tag != "N":
        raise EmptyKeyValue(format_empty_key_error(part))
    return check_key_size(part, part.encode(value))


def check_index_keys(table: Table, item: Item) -> None:
    """Raise if an index key attribute has the wrong type, is empty or is too large. It may be absent."""
    for index in table.indexes:
        for part in index.keys.parts:
            if part.name in item:
                check_index_key(index.name, part, item[part.name])


def check_index_key(index_name: str, part: KeyPart, value: Value) -> None:
    """Raise if the value of an index key attribute has the wrong type, is empty or is too large."""
    if type(value) not in part.types:
        raise InvalidRequest(
            f"{INVALID}Type mismatch for Index Key {part.name} Expected: {part.tag}"
            f" Actual: {get_type_tag(value)} IndexName: {index_name}"
        )
    if not value and part.tag != "N":
        raise EmptyKeyValue(
            f"{NOT_VALID}A value specified for a secondary index key is not supported. "
            f"{format_empty_value_error(part)}"
            f" IndexName: {index_name}, IndexKey: {part.name}"
        )
    check_key_size(part, part.encode(value))
