"""Checks of an operation's fields, made before any table is looked up.

The wire has already checked its requests, with the service's error texts. Python code builds operations
directly, and not always under a type checker: an invalid field that passed here would be stored, or fail
later with an unrelated error.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final

import msgspec

from holdfast.core.errors import InvalidRequest
from holdfast.core.limits import (
    MAX_BATCH_READS,
    MAX_BATCH_WRITES,
    MAX_RECOVERY_DAYS,
    MAX_SCAN_SEGMENTS,
    MAX_TRANSACTION_ACTIONS,
)
from holdfast.operations import tables as ops
from holdfast.operations.expressions.key_conditions import KeyTest
from holdfast.operations.expressions.nodes import Node, Path, Update
from holdfast.operations.expressions.path_tree import check_no_overlap
from holdfast.operations.tables import Operation
from holdfast.stores.tables.checks.definitions import check_definition, check_index

_CAPACITY_DETAILS: Final = frozenset({"NONE", "TOTAL", "INDEXES"})
_OLD_VALUES: Final = frozenset({"NONE", "ALL_OLD"})
_RETURN_VALUES: Final = frozenset({"NONE", "ALL_OLD", "UPDATED_OLD", "ALL_NEW", "UPDATED_NEW"})
_SELECTIONS: Final = frozenset(
    {None, "ALL_ATTRIBUTES", "ALL_PROJECTED_ATTRIBUTES", "SPECIFIC_ATTRIBUTES", "COUNT"}
)
_encode: Final = msgspec.msgpack.Encoder().encode


def check(operation: Operation[Any]) -> None:
    """Raise `InvalidRequest` if a field of the operation has an invalid type or value."""
    check_operation = _CHECKS.get(type(operation))
    if check_operation is not None:
        check_operation(operation)
    elif not isinstance(operation, ops.ItemOperation):
        _check_types(operation)


def _require(holds: bool, operation: Any, field: str, expected: str) -> None:
    """Raise `InvalidRequest` about this field of the operation unless the condition `holds`."""
    if not holds:
        actual = getattr(operation, field)
        raise InvalidRequest(
            f"One or more parameter values were invalid: {type(operation).__name__}.{field} must be "
            f"{expected},"
            f" not {actual!r}"
        )


# --- items --------------------------------------------------------------------------------------------------


def _check_get(operation: Any) -> None:
    """Check the fields of GetItem."""
    _require(type(operation.table) is str, operation, "table", "the name of a table")
    _require(type(operation.key) is dict, operation, "key", "a dict of the key's attributes")
    _check_projection(operation)
    _check_capacity(operation)


def _check_item_history(operation: Any) -> None:
    """Check the fields of GetItemAt and ListItemChanges."""
    _require(type(operation.table) is str, operation, "table", "the name of a table")
    _require(type(operation.key) is dict, operation, "key", "a dict of the key's attributes")


def _check_put(operation: Any) -> None:
    """Check the fields of PutItem."""
    _require(type(operation.table) is str, operation, "table", "the name of a table")
    _require(type(operation.item) is dict, operation, "item", "a dict of attributes")
    _check_write(operation)


def _check_delete(operation: Any) -> None:
    """Check the fields of DeleteItem."""
    _require(type(operation.table) is str, operation, "table", "the name of a table")
    _require(type(operation.key) is dict, operation, "key", "a dict of the key's attributes")
    _check_write(operation)


def _check_update(operation: Any) -> None:
    """Check the fields of UpdateItem; the paths of its actions must not overlap."""
    _require(type(operation.table) is str, operation, "table", "the name of a table")
    _require(type(operation.key) is dict, operation, "key", "a dict of the key's attributes")
    update = operation.update
    _require(update is None or type(update) is Update, operation, "update", "an update from parse_update")
    if update is not None and len(actions := update.actions) > 1:
        check_no_overlap((action.path for action in actions), "UpdateExpression")
    _check_condition(operation)
    _require(operation.returns in _RETURN_VALUES, operation, "returns", "one of DynamoDB's ReturnValues")
    _check_capacity(operation)


def _check_condition_check(operation: Any) -> None:
    """Check the fields of a transaction's condition check, whose condition is required."""
    _require(type(operation.table) is str, operation, "table", "the name of a table")
    _require(type(operation.key) is dict, operation, "key", "a dict of the key's attributes")
    _require(
        isinstance(operation.condition, Node), operation, "condition", "a condition from parse_condition"
    )
    _require(operation.returns_on_failure in _OLD_VALUES, operation, "returns_on_failure", "NONE or ALL_OLD")


def _check_write(operation: Any) -> None:
    """Check what PutItem and DeleteItem have in common: condition, return values and capacity."""
    _check_condition(operation)
    _require(operation.returns in _OLD_VALUES, operation, "returns", "NONE or ALL_OLD")
    _check_capacity(operation)


def _check_condition(operation: Any) -> None:
    """Check an optional condition, and what is returned if it fails."""
    condition = operation.condition
    if condition is not None:
        _require(isinstance(condition, Node), operation, "condition", "a condition from parse_condition")
    _require(operation.returns_on_failure in _OLD_VALUES, operation, "returns_on_failure", "NONE or ALL_OLD")


def _check_projection(operation: Any) -> None:
    """Require None or a tuple of paths."""
    projection = operation.projection
    if projection is not None:
        is_projection = type(projection) is tuple and all(type(path) is Path for path in projection)
        _require(is_projection, operation, "projection", "a projection from parse_projection")


def _check_capacity(operation: Any) -> None:
    _require(operation.capacity in _CAPACITY_DETAILS, operation, "capacity", "NONE, TOTAL or INDEXES")


# --- pages --------------------------------------------------------------------------------------------------


def _check_query(operation: ops.Query) -> None:
    """Check the fields of Query."""
    tests = operation.key_condition
    is_tests = type(tests) is tuple and all(type(test) is KeyTest for test in tests)
    _require(is_tests, operation, "key_condition", "the result of split_key_condition(parse_condition(…))")
    _check_page(operation)


def _check_scan(operation: ops.Scan) -> None:
    """Check the fields of Scan; segment and number of segments come together."""
    segment, segments = operation.segment, operation.segments
    if segment is not None or segments is not None:
        is_total_valid = type(segments) is int and 1 <= segments <= MAX_SCAN_SEGMENTS
        _require(is_total_valid, operation, "segments", f"an integer from 1 to {MAX_SCAN_SEGMENTS}")
        is_segment_valid = type(segment) is int and 0 <= segment < segments  # type: ignore[operator]
        _require(is_segment_valid, operation, "segment", "an integer from 0 to segments - 1")
    _check_page(operation)


def _check_page(operation: ops.Query | ops.Scan) -> None:
    """Check what Query and Scan have in common."""
    _require(type(operation.table) is str, operation, "table", "the name of a table")
    limit = operation.limit
    _require(
        limit is None or (type(limit) is int and limit >= 1),
        operation,
        "limit",
        "None or an integer of at least 1",
    )
    _require(operation.select in _SELECTIONS, operation, "select", "one of DynamoDB's Select values")
    condition = operation.filter
    if condition is not None:
        _require(isinstance(condition, Node), operation, "filter", "a condition from parse_condition")
    start = operation.start_key
    _require(start is None or type(start) is dict, operation, "start_key", "None or the last_key of a page")
    _check_projection(operation)
    _check_capacity(operation)


# --- batches and transactions -------------------------------------------------------------------------------


def _check_batch_get(operation: ops.BatchGetItem) -> None:
    """Require 1 to 100 keys in total, and valid projections."""
    count = sum(len(request.keys) for request in operation.requests)
    _require(1 <= count <= MAX_BATCH_READS, operation, "requests", f"1 to {MAX_BATCH_READS} keys in total")
    for request in operation.requests:
        _check_projection(request)
    _check_capacity(operation)


def _check_batch_write(operation: ops.BatchWriteItem) -> None:
    """Require 1 to 25 puts and deletes."""
    is_count_valid = 1 <= len(operation.writes) <= MAX_BATCH_WRITES
    _require(is_count_valid, operation, "writes", f"1 to {MAX_BATCH_WRITES} puts and deletes")
    are_writes = all(type(write) in (ops.Put, ops.Delete) for write in operation.writes)
    _require(are_writes, operation, "writes", "a tuple of Put and Delete")
    _check_capacity(operation)


def _check_transact_write(operation: ops.TransactWriteItems) -> None:
    """Require 1 to 100 actions, and check each."""
    is_count_valid = 1 <= len(operation.actions) <= MAX_TRANSACTION_ACTIONS
    _require(is_count_valid, operation, "actions", f"1 to {MAX_TRANSACTION_ACTIONS} actions")
    for action in operation.actions:
        check_action = _ACTION_CHECKS.get(type(action))
        _require(
            check_action is not None, operation, "actions", "puts, updates, deletes and condition checks"
        )
        check_action(action)  # type: ignore[misc]
    _check_capacity(operation)


def _check_transact_get(operation: ops.TransactGetItems) -> None:
    """Require 1 to 100 gets, and valid projections."""
    is_count_valid = 1 <= len(operation.gets) <= MAX_TRANSACTION_ACTIONS
    _require(is_count_valid, operation, "gets", f"1 to {MAX_TRANSACTION_ACTIONS} gets")
    for get in operation.gets:
        _check_projection(get)
    _check_capacity(operation)


# --- tables -------------------------------------------------------------------------------------------------


def _check_types(operation: Operation[Any]) -> None:
    """Raise unless every field of a table operation has its declared type, at every depth."""
    try:
        _get_decoder(type(operation)).decode(_encode(operation))
    except (msgspec.MsgspecError, TypeError, OverflowError, UnicodeEncodeError) as error:
        raise InvalidRequest(
            f"One or more parameter values were invalid: {type(operation).__name__}: {error}"
        ) from error


@cache
def _get_decoder(kind: type[Operation[Any]]) -> msgspec.msgpack.Decoder[Any]:
    """Return a decoder that checks the declared types of this kind of operation."""
    return msgspec.msgpack.Decoder(kind)


def _check_create_table(operation: ops.CreateTable) -> None:
    _check_types(operation)
    check_definition(operation.definition)


def _check_update_table(operation: ops.UpdateTable) -> None:
    """Check the types of all fields, and every index to be created."""
    _check_types(operation)
    for change in operation.index_changes:
        if isinstance(change, ops.CreateIndex):
            check_index(change.index)


def _check_recovery(operation: ops.UpdateContinuousBackups) -> None:
    """Check the types of all fields, and a window of 1 to 35 days, if one is given."""
    _check_types(operation)
    days = operation.recovery_days
    is_valid = days is None or 1 <= days <= MAX_RECOVERY_DAYS
    _require(is_valid, operation, "recovery_days", f"None or 1 to {MAX_RECOVERY_DAYS}")


_ACTION_CHECKS: Final[dict[type, Callable[[Any], None]]] = {
    ops.PutItem: _check_put,
    ops.UpdateItem: _check_update,
    ops.DeleteItem: _check_delete,
    ops.ConditionCheck: _check_condition_check,
}
_CHECKS: Final[dict[type, Callable[[Any], None]]] = {
    ops.GetItem: _check_get,
    ops.PutItem: _check_put,
    ops.UpdateItem: _check_update,
    ops.DeleteItem: _check_delete,
    ops.Query: _check_query,
    ops.Scan: _check_scan,
    ops.BatchGetItem: _check_batch_get,
    ops.BatchWriteItem: _check_batch_write,
    ops.TransactWriteItems: _check_transact_write,
    ops.TransactGetItems: _check_transact_get,
    ops.CreateTable: _check_create_table,
    ops.UpdateTable: _check_update_table,
    ops.UpdateContinuousBackups: _check_recovery,
    ops.GetItemAt: _check_item_history,
    ops.ListItemChanges: _check_item_history,
}
