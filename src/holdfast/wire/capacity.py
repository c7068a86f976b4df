"""Encode consumed capacity into responses.

The `encode` of every operation on items calls this module. `TOTAL` reports the sum; `INDEXES` also reports
the units of the table and of each index. Transactions also report reads and writes separately.
"""

from __future__ import annotations

from typing import Final

from holdfast.operations.tables import CapacityDetail, ConsumedCapacity, Units
from holdfast.wire.shapes import Response, Text, string

RETURN_CONSUMED_CAPACITY: Final[Text] = string(enum=("INDEXES", "TOTAL", "NONE"))


def add_consumed_capacity(
    response: Response, capacity: ConsumedCapacity | None, detail: CapacityDetail
) -> Response:
    """Add the consumed capacity of one table to the response if the caller requested it. Return the
    response.
    """
    if capacity is not None and detail != "NONE":
        response["ConsumedCapacity"] = encode_capacity(capacity, detail)
    return response


def add_consumed_capacities(
    response: Response, capacities: tuple[ConsumedCapacity, ...], detail: CapacityDetail
) -> Response:
    """Add the consumed capacity of each table to the response if the caller requested it. Return the
    response.
    """
    if detail != "NONE":
        response["ConsumedCapacity"] = [encode_capacity(each, detail) for each in capacities]
    return response


def encode_capacity(capacity: ConsumedCapacity, detail: CapacityDetail) -> Response:
    """Encode the capacity of one table; with the detail INDEXES also for the table and each index."""
    encoded: Response = {"TableName": capacity.table} | _encode_units(capacity.total, capacity.transactional)
    if detail == "INDEXES":
        encoded["Table"] = _encode_units(capacity.own, capacity.transactional)
        if capacity.local_indexes:
            encoded["LocalSecondaryIndexes"] = _encode_by_index(
                capacity.local_indexes, capacity.transactional
            )
        if capacity.global_indexes:
            encoded["GlobalSecondaryIndexes"] = _encode_by_index(
                capacity.global_indexes, capacity.transactional
            )
    return encoded


def _encode_by_index(indexes: dict[str, Units], transactional: bool) -> Response:
    return {name: _encode_units(units, transactional) for name, units in indexes.items()}


def _encode_units(units: Units, transactional: bool) -> Response:
    """Encode units as their sum; for a transaction also as reads and writes, unless 0."""
    encoded: Response = {"CapacityUnits": units.total}
    if transactional and units.read:
        encoded["ReadCapacityUnits"] = units.read
    if transactional and units.write:
        encoded["WriteCapacityUnits"] = units.write
    return encoded
