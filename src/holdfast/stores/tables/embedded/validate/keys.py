"""Key validation against a table's schema: returns the place of a key or an item, or raises DynamoDB's
error.
"""

from __future__ import annotations

from typing import Final

from holdfast.core.errors import EmptyKeyValue, InvalidRequest
from holdfast.operations.values import Item, Value, type_of
from holdfast.stores.tables.checks.definitions import INVALID
from holdfast.stores.tables.embedded.table import KeyPart, Place, Table

NOT_VALID: Final = "One or more parameter values are not valid. "
NOT_THE_SCHEMA: Final = "The provided key element does not match the schema"


def place_of_key(table: Table, key: Item, *, opening: str = NOT_VALID) -> Place:
    """Return the place of the item with this key. The key must have exactly the schema's attributes.

    `opening` is the beginning of the error for an empty value: DynamoDB uses an older text for a starting
    key.
    """
    keys = table.keys
    if len(key) != len(keys.parts):
        raise InvalidRequest(NOT_THE_SCHEMA)
    partition = _key_bytes(keys.partition, key, opening)
    return partition, b"" if keys.sort is None else _key_bytes(keys.sort, key, opening)


def _key_bytes(part: KeyPart, key: Item, opening: str) -> bytes:
    value = key.get(part.name)
    if type(value) not in part.types:
        raise InvalidRequest(NOT_THE_SCHEMA)
    if not value and part.tag != "N":
        raise EmptyKeyValue(no_empty_key(part, opening=opening))
    return sized(part, part.encode(value))


def sized(part: KeyPart, encoded: bytes) -> bytes:
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


def no_empty_key(part: KeyPart, *, opening: str = NOT_VALID) -> str:
    return f"{opening}{empty_value(part)} Key: {part.name}"


def empty_value(part: KeyPart) -> str:
    noun = "string" if part.tag == "S" else "binary"
    return f"The AttributeValue for a key attribute cannot contain an empty {noun} value."


def place_of_item(table: Table, item: Item) -> Place:
    """Return the place of a whole item. Its key must be present, and its index keys must have their types."""
    keys = table.keys
    partition = _item_key_bytes(keys.partition, item)
    sort = b"" if keys.sort is None else _item_key_bytes(keys.sort, item)
    check_index_keys(table, item)
    return partition, sort


def _item_key_bytes(part: KeyPart, item: Item) -> bytes:
    if part.name not in item:
        raise InvalidRequest(f"{INVALID}Missing the key {part.name} in the item")
    value = item[part.name]
    if type(value) not in part.types:
        raise InvalidRequest(
            f"{INVALID}Type mismatch for key {part.name} expected: {part.tag} actual: {type_of(value)}"
        )
    if not value and part.tag != "N":
        raise EmptyKeyValue(no_empty_key(part))
    return sized(part, part.encode(value))


def check_index_keys(table: Table, item: Item) -> None:
    """Raise if an index key attribute has the wrong type. It may be absent."""
    for index in table.indexes:
        for part in index.keys.parts:
            if part.name in item:
                check_index_key(index.name, part, item[part.name])


def check_index_key(index_name: str, part: KeyPart, value: Value) -> None:
    if type(value) not in part.types:
        raise InvalidRequest(
            f"{INVALID}Type mismatch for Index Key {part.name} Expected: {part.tag}"
            f" Actual: {type_of(value)} IndexName: {index_name}"
        )
    if not value and part.tag != "N":
        raise EmptyKeyValue(
            f"{NOT_VALID}A value specified for a secondary index key is not supported. {empty_value(part)}"
            f" IndexName: {index_name}, IndexKey: {part.name}"
        )
    sized(part, part.encode(value))
