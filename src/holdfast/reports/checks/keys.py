"""Which partition key a pattern falls on, where all its calls fall on one: read from its example and the declaration."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any

from holdfast.model.declaration import KeyDeclaration
from holdfast.model.operations import EntityOperation
from holdfast.model.reads import AnyQuery
from holdfast.model.system import Load
from holdfast.model.writes import Put
from holdfast.reports.examples import Example
from holdfast.reports.measuring import Target


def one_key(load: Load, example: Example, target: Target) -> str | None:
    """The key, as it is or as the load declares it (`EVENT#*`); None where the calls spread.

    Of a pattern that is several operations, one that falls on such a key speaks for all: what else it writes there is
    counted with it, rather than not at all.
    """
    declared = load.one_key.get(target.index or target.table, ())
    for part in example.parts:
        if isinstance(part, EntityOperation) and part.table.name == target.table:
            key = _key(part, target)
            found = None if key is None else _constant(key) or _matching(declared, part, key)
            if found is not None:
                return found
    return None


def told_key(key: str) -> str:
    """As a finding names it."""
    return f"one key {key.replace('*', '…')}" if "*" in key else f"the key {key}"


def _key(part: EntityOperation[Any], target: Target) -> KeyDeclaration | None:
    if target.index is None:
        return part.declaration.primary
    several = part.declaration.indexes
    return next((each for each in several if each.index and each.index.name == target.index), None)


def _constant(key: KeyDeclaration) -> str | None:
    return None if key.partition.slots else key.partition.start or None


def _matching(declared: Iterable[str], part: EntityOperation[Any], key: KeyDeclaration) -> str | None:
    value, start = _value(part, key), key.partition.start
    for each in declared:
        if fnmatchcase(str(value), each) if value is not None else start and each.startswith(start):
            return each
    return None


def _value(part: EntityOperation[Any], key: KeyDeclaration) -> Any:
    """What the example has as its partition key; None where it does not tell, as an update of what an index has."""
    name = key.partition_name
    if isinstance(part, Put):
        return part.item().get(name)
    if isinstance(part, AnyQuery):
        equal = (each for each in part.key_condition if each.attribute == name and each.operator == "=")
        return next((each.values[0] for each in equal), None)
    return dict(getattr(part, "address", ())).get(name)
