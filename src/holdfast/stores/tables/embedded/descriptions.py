"""Builds the result of DescribeTable from a table's record and counts. Pure."""

from __future__ import annotations

from holdfast.operations.tables import IndexState, TableDescription
from holdfast.stores.tables.embedded.records import TableRecord

Counts = dict[int, tuple[int, int]]


def build_description(record: TableRecord, counts: Counts, now: float) -> TableDescription:
    """Build the result of DescribeTable from a table's record and counts.

    `counts` has the number of items and of bytes by slot: slot 0 is the table, the others are its indexes.
    """
    items, size = counts.get(0, (0, 0))
    definition = record.definition
    return TableDescription(
        definition,
        record.id,
        record.status,
        record.created_at,
        items,
        size,
        {index.name: _build_index_state(record, index.name, counts) for index in definition.global_indexes},
        {index.name: _build_index_state(record, index.name, counts) for index in definition.local_indexes},
        record.stream_label,
        definition.stream_view,
        record.billing_changed_at,
        record.table_class_changed_at,
        record.throughput_raised_at,
        record.throughput_lowered_at,
        record.restore,
        count_decreases_today(record, now),
    )


def count_decreases_today(record: TableRecord, now: float) -> int:
    """Return how often throughput was lowered on the current UTC day."""
    lowered = record.throughput_lowered_at
    return record.decreases if lowered is not None and lowered // 86400 == now // 86400 else 0


def _build_index_state(record: TableRecord, name: str, counts: Counts) -> IndexState:
    """Return status, backfilling, item count and size of one index."""
    index = record.indexes[name]
    return IndexState(index.status, index.backfilling, *counts.get(index.slot, (0, 0)))
