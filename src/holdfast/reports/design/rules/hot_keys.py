"""Find the partition key that all calls of a pattern use, from its example and the entity's declaration."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any

from holdfast.model.entities.declaration import KeyDeclaration
from holdfast.model.entities.reads import BaseQuery
from holdfast.model.entities.writes import Put
from holdfast.model.load import Load
from holdfast.model.operations import EntityOperation
from holdfast.reports.examples import Example
from holdfast.reports.measurement.pattern_measures import Target


def find_hot_key(load: Load, example: Example, target: Target) -> str | None:
    """Return the partition key that all calls use, or None if they spread over several keys.

    The key is a literal, or as the load declares it (`EVENT#*`). If one operation of a pattern uses such a
    key, all units of the pattern on that target count for this key.
    """
    declared = load.hot_keys.get(target.index or target.table, ())
    for part in example.parts:
        if isinstance(part, EntityOperation) and part.table.name == target.table:
            key = _find_key_declaration(part, target)
            found = None if key is None else _get_constant(key) or _match_declared_key(declared, part, key)
            if found is not None:
                return found
    return None


def format_key(key: str) -> str:
    """Format a key for a finding: "the key ALL", or "one key EVENT#…" for the declared key `EVENT#*`."""
    return f"one key {key.replace('*', '…')}" if "*" in key else f"the key {key}"


def _find_key_declaration(part: EntityOperation[Any], target: Target) -> KeyDeclaration | None:
    """Return the key declaration that the operation uses on the target, or None."""
    if target.index is None:
        return part.declaration.primary
    several = part.declaration.indexes
    return next((each for each in several if each.index and each.index.name == target.index), None)


def _get_constant(key: KeyDeclaration) -> str | None:
    """Return the partition key if its template has no variable part, or None."""
    return None if key.partition.slots else key.partition.constant_prefix or None


def _match_declared_key(
    declared: Iterable[str], part: EntityOperation[Any], key: KeyDeclaration
) -> str | None:
    """Return the declared key that matches the example's partition key, or None."""
    value, start = _get_example_value(part, key), key.partition.constant_prefix
    for each in declared:
        if fnmatchcase(str(value), each) if value is not None else start and each.startswith(start):
            return each
    return None


def _get_example_value(part: EntityOperation[Any], key: KeyDeclaration) -> Any:
    """Return the partition key of the example; None if unknown, such as the index key of an update."""
    name = key.partition_name
    if isinstance(part, Put):
        return part.build_item().get(name)
    if isinstance(part, BaseQuery):
        equal = (each for each in part.key_condition if each.attribute == name and each.operator == "=")
        return next((each.values[0] for each in equal), None)
    return dict(getattr(part, "key", ())).get(name)
