"""Checks of a table definition that need no other table: names, keys, indexes and capacity.

A valid definition can be stored and compiled.
"""

from __future__ import annotations

import re
from typing import Final

from holdfast.core.errors import InvalidRequest
from holdfast.core.limits import MAX_GLOBAL_INDEXES, MAX_LOCAL_INDEXES
from holdfast.operations.tables import IndexDefinition, KeySchema, TableDefinition

INVALID: Final = "One or more parameter values were invalid: "
_NAME: Final = re.compile(r"[a-zA-Z0-9_.-]{3,255}")


def check_definition(definition: TableDefinition) -> None:
    """Raise `InvalidRequest` if a table definition is invalid."""
    _check_name("table", definition.name)
    declared = [attribute.name for attribute in definition.attributes]
    if len(set(declared)) != len(declared):
        raise InvalidRequest(f"{INVALID}Cannot have two attributes with the same name")
    _check_keys(definition.keys, declared)
    throughput = definition.throughput
    if definition.billing_mode == "PROVISIONED" and min(throughput.read, throughput.write) < 1:
        raise InvalidRequest(
            f"{INVALID}ReadCapacityUnits and WriteCapacityUnits must both be specified when BillingMode is"
            " PROVISIONED"
        )
    _check_indexes(definition, declared)


def _check_name(kind: str, name: str) -> None:
    """Raise `InvalidRequest` for an invalid name; `kind` is "table" or "index"."""
    if not _NAME.fullmatch(name):
        raise InvalidRequest(
            f"{INVALID}Invalid {kind} name {name!r}: expected 3 to 255 letters, digits, '_', '-' and '.'"
        )


def _check_keys(keys: KeySchema, declared: list[str]) -> None:
    """Raise `InvalidRequest` unless the keys differ and their attributes are `declared`."""
    if keys.partition == keys.sort:
        raise InvalidRequest(
            "Both the Hash Key and the Range Key element in the KeySchema have the same name"
        )
    if any(name not in declared for name in keys.names):
        raise InvalidRequest(
            f"{INVALID}Some index key attributes are not defined in AttributeDefinitions."
            f" Keys: [{', '.join(keys.names)}], AttributeDefinitions: [{', '.join(declared)}]"
        )


def _check_indexes(definition: TableDefinition, declared: list[str]) -> None:
    """Check every index, the uniqueness of their names and their number.

    Local ones must share the partition key.
    """
    indexes = definition.global_indexes + definition.local_indexes
    names = [index.name for index in indexes]
    for name in names:
        if names.count(name) > 1:
            raise InvalidRequest(f"{INVALID}Duplicate index name: {name}")
    for index in indexes:
        check_index(index)
        _check_keys(index.keys, declared)
    for index in definition.local_indexes:
        if index.keys.sort is None or index.keys.partition != definition.keys.partition:
            raise InvalidRequest(
                f"{INVALID}Invalid local index {index.name}:"
                " expected the table's partition key and a sort key"
            )
    if len(definition.global_indexes) > MAX_GLOBAL_INDEXES:
        raise InvalidRequest(
            f"{INVALID}GlobalSecondaryIndex count exceeds the per-table limit of {MAX_GLOBAL_INDEXES}"
        )
    if len(definition.local_indexes) > MAX_LOCAL_INDEXES:
        raise InvalidRequest(
            f"{INVALID}Number of LocalSecondaryIndexes exceeds per-table limit of {MAX_LOCAL_INDEXES}"
        )


def check_index(index: IndexDefinition) -> None:
    """Raise `InvalidRequest` if the index's name or projection is invalid."""
    _check_name("index", index.name)
    kind, attributes = index.projection.kind, index.projection.attributes
    if kind == "INCLUDE" and not attributes:
        raise InvalidRequest(f"{INVALID}ProjectionType is INCLUDE, but NonKeyAttributes is not specified")
    if kind != "INCLUDE" and attributes:
        raise InvalidRequest(f"{INVALID}ProjectionType is {kind}, but NonKeyAttributes is specified")
