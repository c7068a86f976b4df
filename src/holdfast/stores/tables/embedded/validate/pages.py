"""Query and Scan checked against the table: the index, the key condition, the starting key, the selection.

The result is a `Span` to walk and a `Selection` of what to return of each item. The checks run in the
service's order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from holdfast.core.errors import EmptyKeyValue, InvalidRequest
from holdfast.operations.expressions.key_conditions import KeyTest
from holdfast.operations.expressions.mentions import paths_of, roots_of
from holdfast.operations.expressions.nodes import Condition, Projection
from holdfast.operations.tables import Query, Scan
from holdfast.operations.values import Item
from holdfast.stores.tables.checks.definitions import INVALID
from holdfast.stores.tables.embedded.plan.span import Position, Segment, Span, sort_bounds
from holdfast.stores.tables.embedded.table import Index, KeyPart, Keys, Table
from holdfast.stores.tables.embedded.validate.keys import (
    NOT_THE_SCHEMA,
    no_empty_key,
    place_of_key,
    sized,
)
from holdfast.stores.tables.embedded.validate.updates import check_nested_paths

START_KEY_INVALID = "The provided starting key is invalid"


class Selection(NamedTuple):
    """The parts of each item to return. `whole` fetches from the table what a local index does not hold."""

    projection: Projection | None
    whole: bool
    count_only: bool


def query(table: Table, operation: Query) -> tuple[Span, Selection]:
    index = index_of(table, operation.index, consistent=operation.consistent)
    keys = index.keys if index else table.keys
    if len(operation.key_condition) > 2:
        raise InvalidRequest(
            f"The number of query conditions ({len(operation.key_condition)}) exceeds the number of key "
            f"attributes defined in the schema ({len(keys.parts)})"
        )
    start = operation.start_key
    if start is not None and len(start) != len(start_key_names(table, index)):
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
    selection = _selection(table, index, operation, keys)
    bounds = sort_bounds(keys.sort, sort_test) if keys.sort and sort_test else {}
    after = None if start is None else position(table, index, start)
    return Span(table, index, partition, after=after, forward=operation.forward, **bounds), selection  # type: ignore[arg-type]


def scan(table: Table, operation: Scan) -> tuple[Span, Selection]:
    index = index_of(table, operation.index, consistent=operation.consistent)
    start = operation.start_key
    segment = after = None
    if operation.segments is not None and operation.segment is not None and operation.segments > 1:
        segment = Segment(operation.segment, operation.segments)
    if start is not None:
        after = _start_of_scan(table, index, operation, start)
        if segment is not None and not segment.holds(after[0]):
            raise InvalidRequest(
                f"{START_KEY_INVALID}: Invalid ExclusiveStartKey. Please use ExclusiveStartKey with correct"
                f" Segment. TotalSegments: {operation.segments} Segment: {operation.segment}"
            )
    selection = _selection(table, index, operation, None)
    return Span(table, index, segment=segment, after=after), selection


def index_of(table: Table, name: str | None, *, consistent: bool) -> Index | None:
    if name is None:
        return None
    index = table.indexes_by_name.get(name)
    if index is None:
        raise InvalidRequest(f"The table does not have the specified index: {name}")
    if index.is_global and consistent:
        raise InvalidRequest("Consistent reads are not supported on global secondary indexes")
    if not index.readable:
        raise InvalidRequest(f"Cannot read from backfilling global secondary index: {name}")
    return index


def start_key_names(table: Table, index: Index | None) -> tuple[str, ...]:
    return index.start_key_names if index else table.keys.names


def position(table: Table, index: Index | None, start: Item) -> Position:
    """Return where a page resumes: the place in the index, if it walks one, and the place in the table."""
    own = table.place(start)
    if index is None:
        return own
    in_index = index.place(start)
    if in_index is None:
        raise InvalidRequest(START_KEY_INVALID)
    return in_index + own


# --- key conditions -----------------------------------------------------------------------------------------


def _check_test(part: KeyPart, keys: Keys, tests: dict[str, KeyTest]) -> None:
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
            raise EmptyKeyValue(no_empty_key(part))
        sized(part, part.encode(value))
    if part.is_partition and test.operator != "=":
        raise InvalidRequest("Query key condition not supported")


# --- starting keys ------------------------------------------------------------------------------------------


def _check_start_part(part: KeyPart, start: Item) -> None:
    if part.name not in start:
        raise InvalidRequest(START_KEY_INVALID)
    value = start[part.name]
    if type(value) not in part.types:
        raise InvalidRequest(NOT_THE_SCHEMA)
    if not value and part.tag != "N":
        raise EmptyKeyValue(no_empty_key(part, opening=INVALID))
    sized(part, part.encode(value))


def _check_start_of_query(
    table: Table, keys: Keys, start: Item, tests: dict[str, KeyTest], sort_test: KeyTest | None
) -> None:
    _check_table_key_of_start(table, start)
    same_partition = start[keys.partition.name] == tests[keys.partition.name].values[0]
    if keys.sort is None or sort_test is None:
        if not same_partition:
            raise InvalidRequest(
                "The provided starting key is outside query boundaries based on provided conditions"
            )
        return
    if not _within(keys.sort, start, sort_test):
        raise InvalidRequest("The provided starting key does not match the range key predicate")
    if not same_partition:
        raise InvalidRequest("The query can return at most one row and cannot be restarted")


def _within(sort: KeyPart, start: Item, test: KeyTest) -> bool:
    bounds: dict[str, Any] = sort_bounds(sort, test)
    here, low, high = sort.encode(start[sort.name]), bounds.get("low"), bounds.get("high")
    if low is not None and (here <= low if bounds.get("low_open") else here < low):
        return False
    return high is None or (here < high if bounds.get("high_open") else here <= high)


def _start_of_scan(table: Table, index: Index | None, operation: Scan, start: Item) -> Position:
    """Return the position of the starting key. As in the service, the selection is checked after the index's
    part of the key and before the table's.
    """
    if len(start) != len(start_key_names(table, index)):
        raise InvalidRequest(START_KEY_INVALID if index else f"{START_KEY_INVALID}: {NOT_THE_SCHEMA}")
    if index is not None:
        for part in index.keys.parts:
            _check_start_part(part, start)
        _fetches_whole(index, operation)
    _check_table_key_of_start(table, start)
    return position(table, index, start)


def _check_table_key_of_start(table: Table, start: Item) -> None:
    key = {name: start[name] for name in table.keys.names if name in start}
    try:
        place_of_key(table, key, opening=INVALID)
    except InvalidRequest as refusal:
        raise InvalidRequest(f"{START_KEY_INVALID}: {refusal.message}") from None


# --- selections ---------------------------------------------------------------------------------------------


def _selection(table: Table, index: Index | None, operation: Query | Scan, keys: Keys | None) -> Selection:
    """Return the selection. A query's filter may not mention `keys`; a scan's may."""
    projection = operation.projection
    if projection is not None:
        check_nested_paths(table, projection)
    if keys is not None and operation.filter is not None:
        mentioned = roots_of(operation.filter)
        for name in keys.names:
            if name in mentioned:
                raise InvalidRequest(
                    "Filter Expression can only contain non-primary key attributes:"
                    f" Primary key attribute: {name}"
                )
    whole = _fetches_whole(index, operation)
    if operation.filter is not None:
        _check_filter_is_projected(index, operation.filter)
        check_nested_paths(table, paths_of(operation.filter))
    return Selection(projection, whole, operation.select == "COUNT")


def _check_filter_is_projected(index: Index | None, condition: Condition) -> None:
    if index is None or index.projected is None:
        return
    projected = index.projected
    missing = [name for name in roots_of(condition) if name not in projected]
    if missing:
        raise InvalidRequest(
            f"{INVALID}Secondary index {index.name} does not project one or more filter attributes:"
            f" [{', '.join(missing)}]"
        )


def _fetches_whole(index: Index | None, operation: Query | Scan) -> bool:
    """Return whether items must be read from the table because the index holds only a part. Only local
    indexes can do that.
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
