"""Consumed capacity: parsed from the service's responses, and summed over several of them.

Requests always ask for the most detailed form: it costs nothing, and allows units per index, as the embedded
engine reports them. Several requests for one operation are summed by table.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

from holdfast.operations.tables import CapacityDetail, ConsumedCapacity, Units

Kind: TypeAlias = Literal["read", "write"]


def encode_detail(detail: CapacityDetail) -> dict[str, str]:
    """Return the request member for consumed capacity; empty if the caller does not want it."""
    return {} if detail == "NONE" else {"ReturnConsumedCapacity": "INDEXES"}


def parse_capacity(response: dict[str, Any], kind: Kind, detail: CapacityDetail) -> ConsumedCapacity | None:
    """Return the capacity that one response reports for one table, or None if it reports none or the caller
    wants none.

    Some endpoints report it without a request for it. `kind` says whether a bare total counts as read or as
    write.
    """
    members = response.get("ConsumedCapacity")
    return None if members is None or detail == "NONE" else _parse_table(members, kind, transactional=False)


def sum_by_table(
    responses: Iterable[dict[str, Any]], kind: Kind, detail: CapacityDetail, *, transactional: bool = False
) -> tuple[ConsumedCapacity, ...]:
    """Return the capacity that several responses report, with one entry per table."""
    by_table: dict[str, ConsumedCapacity] = {}
    for response in () if detail == "NONE" else responses:
        for members in response.get("ConsumedCapacity", ()):
            one = _parse_table(members, kind, transactional=transactional)
            known = by_table.get(one.table)
            by_table[one.table] = one if known is None else _add(known, one)
    return tuple(by_table.values())


def _parse_table(members: dict[str, Any], kind: Kind, *, transactional: bool) -> ConsumedCapacity:
    """Return the capacity of one table and its indexes, from the members of one table."""
    local_indexes = _parse_indexes(members.get("LocalSecondaryIndexes"), kind)
    global_indexes = _parse_indexes(members.get("GlobalSecondaryIndexes"), kind)
    # An endpoint may report only the total: the table consumed the part that no index did.
    own = (
        _parse_units(members["Table"], kind)
        if "Table" in members
        else _subtract_indexes(_parse_units(members, kind), local_indexes, global_indexes)
    )
    return ConsumedCapacity(members["TableName"], own, local_indexes, global_indexes, transactional)


def _parse_indexes(members: dict[str, Any] | None, kind: Kind) -> dict[str, Units]:
    return {name: _parse_units(units, kind) for name, units in (members or {}).items()}


def _parse_units(members: dict[str, Any], kind: Kind) -> Units:
    """Return the units. `kind` says whether a bare total counts as read or as write.

    Transactions report reads and writes separately; other requests report only one of them.
    """
    read, write = members.get("ReadCapacityUnits"), members.get("WriteCapacityUnits")
    if read is not None or write is not None:
        return Units(read or 0.0, write or 0.0)
    total = members.get("CapacityUnits", 0.0)
    return Units(read=total) if kind == "read" else Units(write=total)


def _subtract_indexes(total: Units, *indexes: dict[str, Units]) -> Units:
    """Return the total without the units of these indexes."""
    for units in (units for by_name in indexes for units in by_name.values()):
        total = Units(total.read - units.read, total.write - units.write)
    return total


def _add(one: ConsumedCapacity, two: ConsumedCapacity) -> ConsumedCapacity:
    """Return the sum of two capacities of the same table."""
    return ConsumedCapacity(
        one.table,
        one.own + two.own,
        _add_by_index(one.local_indexes, two.local_indexes),
        _add_by_index(one.global_indexes, two.global_indexes),
        one.transactional,
    )


def _add_by_index(one: dict[str, Units], two: dict[str, Units]) -> dict[str, Units]:
    """Return the sums by index name; an index may be in only one of them."""
    return {name: one.get(name, Units()) + two.get(name, Units()) for name in {**one, **two}}
