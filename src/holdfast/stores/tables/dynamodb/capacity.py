"""Consumed capacity, converted from the service's response members to ours.

The most detailed form is always requested: it costs nothing, and allows units per index, as the embedded
engine reports them. Several requests for one operation are summed by table.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

from holdfast.operations.tables import CapacityDetail, ConsumedCapacity, Units

Kind: TypeAlias = Literal["read", "write"]


def asked(detail: CapacityDetail) -> dict[str, str]:
    """Return the request member that asks for consumed capacity, or nothing if the caller does not want
    it.
    """
    return {} if detail == "NONE" else {"ReturnConsumedCapacity": "INDEXES"}


def consumed(answer: dict[str, Any], kind: Kind, detail: CapacityDetail) -> ConsumedCapacity | None:
    """Return the capacity that one response reports for one table. Some endpoints report it without being
    asked.
    """
    told = answer.get("ConsumedCapacity")
    return None if told is None or detail == "NONE" else _of_table(told, kind, transactional=False)


def summed(
    answers: Iterable[dict[str, Any]], kind: Kind, detail: CapacityDetail, *, transactional: bool = False
) -> tuple[ConsumedCapacity, ...]:
    """Return the capacity that several responses report, with one entry per table."""
    by_table: dict[str, ConsumedCapacity] = {}
    for answer in () if detail == "NONE" else answers:
        for told in answer.get("ConsumedCapacity", ()):
            one = _of_table(told, kind, transactional=transactional)
            known = by_table.get(one.table)
            by_table[one.table] = one if known is None else _sum(known, one)
    return tuple(by_table.values())


def _of_table(told: dict[str, Any], kind: Kind, *, transactional: bool) -> ConsumedCapacity:
    local = _by_index(told.get("LocalSecondaryIndexes"), kind)
    everywhere = _by_index(told.get("GlobalSecondaryIndexes"), kind)
    # An endpoint may report only the total: the table consumed what no index did.
    own = _units(told["Table"], kind) if "Table" in told else _rest(_units(told, kind), local, everywhere)
    return ConsumedCapacity(told["TableName"], own, local, everywhere, transactional)


def _by_index(told: dict[str, Any] | None, kind: Kind) -> dict[str, Units]:
    return {name: _units(units, kind) for name, units in (told or {}).items()}


def _units(told: dict[str, Any], kind: Kind) -> Units:
    """Return the units. Transactions report reads and writes separately; all others have only one of them."""
    read, write = told.get("ReadCapacityUnits"), told.get("WriteCapacityUnits")
    if read is not None or write is not None:
        return Units(read or 0.0, write or 0.0)
    total = told.get("CapacityUnits", 0.0)
    return Units(read=total) if kind == "read" else Units(write=total)


def _rest(total: Units, *indexes: dict[str, Units]) -> Units:
    for units in (units for by_name in indexes for units in by_name.values()):
        total = Units(total.read - units.read, total.write - units.write)
    return total


def _sum(one: ConsumedCapacity, two: ConsumedCapacity) -> ConsumedCapacity:
    return ConsumedCapacity(
        one.table,
        one.own + two.own,
        _sum_by_index(one.local_indexes, two.local_indexes),
        _sum_by_index(one.global_indexes, two.global_indexes),
        one.transactional,
    )


def _sum_by_index(one: dict[str, Units], two: dict[str, Units]) -> dict[str, Units]:
    return {name: one.get(name, Units()) + two.get(name, Units()) for name in {**one, **two}}
