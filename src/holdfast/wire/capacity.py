"""Consumed capacity in responses.

The `encode` of every operation on items calls this module. `TOTAL` reports the sum; `INDEXES` also reports
the units of the table and of each index. Transactions also report reads and writes separately.
"""

from __future__ import annotations

from typing import Final

from holdfast.operations.tables import CapacityDetail, ConsumedCapacity, Units
from holdfast.wire.shapes import Answer, Text, string

RETURN_CONSUMED_CAPACITY: Final[Text] = string(enum=("INDEXES", "TOTAL", "NONE"))


def tell(answer: Answer, capacity: ConsumedCapacity | None, detail: CapacityDetail) -> Answer:
    """Return the answer, with the consumed capacity of one table if the caller requested it."""
    if capacity is not None and detail != "NONE":
        answer["ConsumedCapacity"] = consumed(capacity, detail)
    return answer


def tell_all(answer: Answer, capacities: tuple[ConsumedCapacity, ...], detail: CapacityDetail) -> Answer:
    """Return the answer, with the consumed capacity of each table if the caller requested it."""
    if detail != "NONE":
        answer["ConsumedCapacity"] = [consumed(each, detail) for each in capacities]
    return answer


def consumed(capacity: ConsumedCapacity, detail: CapacityDetail) -> Answer:
    told: Answer = {"TableName": capacity.table} | _units(capacity.total, capacity.transactional)
    if detail == "INDEXES":
        told["Table"] = _units(capacity.own, capacity.transactional)
        if capacity.local_indexes:
            told["LocalSecondaryIndexes"] = _by_index(capacity.local_indexes, capacity.transactional)
        if capacity.global_indexes:
            told["GlobalSecondaryIndexes"] = _by_index(capacity.global_indexes, capacity.transactional)
    return told


def _by_index(indexes: dict[str, Units], transactional: bool) -> Answer:
    return {name: _units(units, transactional) for name, units in indexes.items()}


def _units(units: Units, transactional: bool) -> Answer:
    told: Answer = {"CapacityUnits": units.total}
    if transactional and units.read:
        told["ReadCapacityUnits"] = units.read
    if transactional and units.write:
        told["WriteCapacityUnits"] = units.write
    return told
