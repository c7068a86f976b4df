"""Validation of Query and Scan against the table: index, key condition, starting key and selection.

The result is the `Span` to read and the `Selection` of each item's parts. The checks run in the service's
order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from holdfast.core.errors import EmptyKeyValue, InvalidRequest
from holdfast.operations.expressions.condition_paths import find_paths, find_root_attributes
from holdfast.operations.expressions.key_conditions import KeyTest
from holdfast.operations.expressions.nodes import Condition, Projection
from holdfast.operations.tables import Query, Scan
from holdfast.operations.values import Item
from holdfast.stores.tables.checks.definitions import INVALID
from holdfast.stores.tables.embedded.plan.span import Position, Segment, Span, build_sort_bounds
from holdfast.stores.tables.embedded.table import Index, KeyPart, Keys, Table
from holdfast.stores.tables.embedded.validate.keys import (
    SCHEMA_MISMATCH,
    check_key_size,
    format_empty_key_error,
    validate_key,
)
from holdfast.stores.tables.embedded.validate.updates import check_nested_paths

START_KEY_INVALID = "The provided starting key is invalid"


class Selection(NamedTuple):
    """The parts of each item to return.

    `whole` fetches attributes from the table that a local index lacks.
    """

    projection: Projection | None
    whole: bool
    count_only: bool


def validate_query(table: Table, operation: Query) -> tuple[Span, Selection]:
    """Return the span and the selection of a query."""
    index = find_index(table, operation.index, consistent=operation.consistent)
    keys = index.keys if index else table.keys
    if len(operation.key_condition) > 2:
        raise InvalidRequest(
            f"The number of query conditions ({len(operation.key_condition)}) exceeds the number of key "
            f"attributes defined in the schema ({len(keys.parts)})"
        )
    start = operation.start_key
    if start is not None and len(start) != len(get_start_key_names(table, index)):
        raise InvalidRequest(START_KEY_INVALID)
    tests = {test.attribute: test for test in operation.key_condition}
    for part in keys.parts:
        if start is not None:
            _check_start_part(part, start)
        _check_test(part, keys, tests)
    partition = keys.partition.encode(tests[keys.partition.name].values[0])
    sort_test = tests.get(keys.sort.name) if keys.sort else None
    if start is not None:
        _check_start_of_query(table, keys, start, tests, sort_test)
    selection = _validate_selection(table, index, operation, keys)
    bounds = build_sort_bounds(keys.sort, sort_test) if keys.sort and sort_test else {}
    after = None if start is None else encode_position(table, index, start)
    return Span(table, index, partition, after=after, forward=operation.forward, **bounds), selection  # type: ignore[arg-type]


def validate_scan(table: Table, operation: Scan) -> tuple[Span, Selection]:
    """Return the span and the selection of a scan."""
    index = find_index(table, operation.index, consistent=operation.consistent)
    start = operation.start_key
    segment = after = None
    if operation.segments is not None and operation.segment is not None and operation.segments > 1:
        segment = Segment(operation.segment, operation.segments)
    if start is not None:
        after = _validate_start_of_scan(table, index, operation, start)
        if segment is not None and not segment.contains(after[0]):
            raise InvalidRequest(
                f"{START_KEY_INVALID}: Invalid ExclusiveStartKey. Please use ExclusiveStartKey with correct"
                f" Segment. TotalSegments: {operation.segments} Segment: {operation.segment}"
            )
    selection = _validate_selection(table, index, operation, None)
    return Span(table, index, segment=segment, after=after), selection


def find_index(table: Table, name: str | None, *, consistent: bool) -> Index | None:
    """Return the index to read, or None for the table.

    Raise `InvalidRequest` if it does not exist, is being backfilled, or is global and the read consistent.
    """
    if name is None:
        return None
    index = table.indexes_by_name.get(name)
    if index is None:
        raise InvalidRequest(f"The table does not have the specified index: {name}")
    if index.is_global and consistent:
        raise InvalidRequest("Consistent reads are not supported on global secondary indexes")
    if not index.is_readable:
        raise InvalidRequest(f"Cannot read from backfilling global secondary index: {name}")
    return index


def get_start_key_names(table: Table, index: Index | None) -> tuple[str, ...]:
    """Return the attributes of a starting key."""
    return index.start_key_names if index else table.keys.names


def encode_position(table: Table, index: Index | None, start: Item) -> Position:
    """Encode a starting key: its key in the index, if there is one, then its key in the table."""
    own = table.encode_key(start)
    if index is None:
        return own
    index_key = index.encode_key(start)
    if index_key is None:
        raise InvalidRequest(START_KEY_INVALID)
    return index_key + own


# --- key conditions -----------------------------------------------------------------------------------------


def _check_test(part: KeyPart, keys: Keys, tests: dict[str, KeyTest]) -> None:
    """Raise unless the key condition tests this key attribute validly: `=` on the partition key, values of
    the right type.
    """
    if keys.sort is None and len(tests) > 1:
        raise InvalidRequest("Query key condition not supported")
    test = tests.get(part.name)
    if test is None:
        if part.is_partition or len(tests) > 1:
            raise InvalidRequest(f"Query condition missed key schema element: {part.name}")
        return
    for value in test.values:
        if type(value) not in part.types:
            raise InvalidRequest(INVALID + "Condition parameter type does not match schema type")
        if not value and part.tag != "N":
            raise EmptyKeyValue(format_empty_key_error(part))
        check_key_size(part, part.encode(value))
    if part.is_partition and test.operator != "=":
        raise InvalidRequest("Query key condition not supported")


# --- starting keys ------------------------------------------------------------------------------------------


def _check_start_part(part: KeyPart, start: Item) -> None:
    """Raise unless the starting key has a valid value for this key attribute."""
    if part.name not in start:
        raise InvalidRequest(START_KEY_INVALID)
    value = start[part.name]
    if type(value) not in part.types:
        raise InvalidRequest(SCHEMA_MISMATCH)
    if not value and part.tag != "N":
        raise EmptyKeyValue(format_empty_key_error(part, prefix=INVALID))
    check_key_size(part, part.encode(value))


def _check_start_of_query(
    table: Table, keys: Keys, start: Item, tests: dict[str, KeyTest], sort_test: KeyTest | None
) -> None:
    """Raise if the starting key is outside what the query's condition selects."""
    _check_table_key_of_start(table, start)
    same_partition = start[keys.partition.name] == tests[keys.partition.name].values[0]
    if keys.sort is None or sort_test is None:
        if not same_partition:
            raise InvalidRequest(
                "The provided starting key is outside query boundaries based on provided conditions"
            )
        return
    if not _is_within(keys.sort, start, sort_test):
        raise InvalidRequest("The provided starting key does not match the range key predicate")
    if not same_partition:
        raise InvalidRequest("The query can return at most one row and cannot be restarted")


def _is_within(sort: KeyPart, start: Item, test: KeyTest) -> bool:
    """Return whether the starting key's sort value fulfils the condition on the sort key."""
    bounds: dict[str, Any] = build_sort_bounds(sort, test)
    sort_bytes, low, high = sort.encode(start[sort.name]), bounds.get("low"), bounds.get("high")
    if low is not None and (sort_bytes <= low if bounds.get("low_open") else sort_bytes < low):
        return False
    return high is None or (sort_bytes < high if bounds.get("high_open") else sort_bytes <= high)


def _validate_start_of_scan(table: Table, index: Index | None, operation: Scan, start: Item) -> Position:
    """Return the position of the starting key.

    As in the service, the selection is checked after the index's part of the key and before the table's.
    """
    if len(start) != len(get_start_key_names(table, index)):
        raise InvalidRequest(START_KEY_INVALID if index else f"{START_KEY_INVALID}: {SCHEMA_MISMATCH}")
    if index is not None:
        for part in index.keys.parts:
            _check_start_part(part, start)
        _needs_whole_items(index, operation)
    _check_table_key_of_start(table, start)
    return encode_position(table, index, start)


def _check_table_key_of_start(table: Table, start: Item) -> None:
    """Raise unless the starting key contains a valid key of the table."""
    key = {name: start[name] for name in table.keys.names if name in start}
    try:
        validate_key(table, key, prefix=INVALID)
    except InvalidRequest as refusal:
        raise InvalidRequest(f"{START_KEY_INVALID}: {refusal.message}") from None


# --- selections ---------------------------------------------------------------------------------------------


def _validate_selection(
    table: Table, index: Index | None, operation: Query | Scan, keys: Keys | None
) -> Selection:
    """Return the selection.

    A query passes its `keys`, which its filter may not mention; a scan passes None.
    """
    projection = operation.projection
    if projection is not None:
        check_nested_paths(table, projection)
    if keys is not None and operation.filter is not None:
        mentioned = find_root_attributes(operation.filter)
        for name in keys.names:
            if name in mentioned:
                raise InvalidRequest(
                    "Filter Expression can only contain non-primary key attributes:"
                    f" Primary key attribute: {name}"
                )
    whole = _needs_whole_items(index, operation)
    if operation.filter is not None:
        _check_filter_is_projected(index, operation.filter)
        check_nested_paths(table, find_paths(operation.filter))
    return Selection(projection, whole, operation.select == "COUNT")


def _check_filter_is_projected(index: Index | None, condition: Condition) -> None:
    """Raise if the filter uses an attribute that the index does not hold."""
    if index is None or index.projected is None:
        return
    projected = index.projected
    missing = [name for name in find_root_attributes(condition) if name not in projected]
    if missing:
        raise InvalidRequest(
            f"{INVALID}Secondary index {index.name} does not project one or more filter attributes:"
            f" [{', '.join(missing)}]"
        )


def _needs_whole_items(index: Index | None, operation: Query | Scan) -> bool:
    """Return whether items must be read from the table because the index holds only a part.

    Only local indexes allow that.
    """
    if index is None or index.projected is None:
        return False
    if operation.select == "ALL_ATTRIBUTES":
        if index.is_global:
            raise InvalidRequest(
                f"{INVALID}Select type ALL_ATTRIBUTES is not supported for global secondary index"
                f" {index.name} because its projection type is not ALL"
            )
        return True
    missing = [path.root for path in operation.projection or () if path.root not in index.projected]
    if missing and index.is_global:
        raise InvalidRequest(
            f"{INVALID}Global secondary index {index.name} does not project [{', '.join(missing)}]"
        )
    return bool(missing)
