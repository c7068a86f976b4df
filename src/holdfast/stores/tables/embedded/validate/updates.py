"""Validation of updates against a table's schema: keys must not change, index keys must stay valid."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from holdfast.core.errors import EmptyKeyValue, InvalidRequest
from holdfast.operations.expressions.nodes import AddAction, Literal, Minus, Path, Plus, SetAction, Update
from holdfast.operations.values import Item, get_type_tag
from holdfast.stores.tables.checks.definitions import INVALID
from holdfast.stores.tables.embedded.table import Index, KeyPart, Table
from holdfast.stores.tables.embedded.validate.keys import NOT_VALID, check_index_key, format_empty_value_error


def check_update(table: Table, update: Update) -> None:
    """Raise if the update changes a key, sets an index key to a wrong type, or leads into a key."""
    roots = {action.path.root for action in update.actions}
    for name in table.keys.names:
        if name in roots:
            raise InvalidRequest(
                f"{INVALID}Cannot update attribute {name}. This attribute is part of the key"
            )
    if table.indexes:
        _check_index_types(table, update)
    check_nested_paths(table, (action.path for action in update.actions))


def _check_index_types(table: Table, update: Update) -> None:
    """Raise for errors visible in the expression alone.

    These are index keys set to a constant or a sum of the wrong type.
    """
    for index, part in iterate_index_parts(table):
        actions: tuple[SetAction | AddAction, ...] = (*update.sets, *update.adds)
        for action in actions:
            if action.path.root == part.name and not action.path.steps:
                _check_action(index, part, action)


def _check_action(index: Index, part: KeyPart, action: SetAction | AddAction) -> None:
    """Raise if the action certainly gives an index key a wrong type; other operands are checked in the
    result.
    """
    if isinstance(action, AddAction):
        value = action.value
    elif isinstance(action.operand, Literal):
        value = action.operand.value
    elif isinstance(action.operand, Plus | Minus):
        value = 0
    else:
        return
    if type(value) not in part.types:
        raise InvalidRequest(
            f"{INVALID}Type mismatch for Index Key {part.name} Expected: {part.tag}"
            f" Actual: {get_type_tag(value)} IndexName: {index.name}"
        )


def check_updated_index_keys(table: Table, update: Update, item: Item) -> None:
    """Raise for errors visible only in the result: an index key with the wrong type, empty or too large."""
    touched = {action.path.root for action in update.actions}
    for index, part in iterate_index_parts(table):
        if part.name in touched and part.name in item:
            value = item[part.name]
            if type(value) not in part.types:
                raise InvalidRequest(
                    "The update expression attempted to update the secondary index key to unsupported type"
                )
            if not value and part.tag != "N":
                raise EmptyKeyValue(
                    f"{NOT_VALID}The update expression attempted to update a secondary index key to a value"
                    f" that is not supported. {format_empty_value_error(part)}"
                )
            check_index_key(index.name, part, value)


def check_nested_paths(table: Table, paths: Iterable[Path]) -> None:
    """Raise if a path leads into a key: keys are scalars."""
    nested = {path.root for path in paths if path.steps}
    if not nested:
        return
    for name in table.keys.names:
        if name in nested:
            raise InvalidRequest(_NESTED_KEY_ERROR + f"Key: {name}")
    for _, part in iterate_index_parts(table):
        if part.name in nested:
            raise InvalidRequest(_NESTED_KEY_ERROR + f"IndexKey: {part.name}")


_NESTED_KEY_ERROR = (
    "Key attributes must be scalars; list random access '[]' and map lookup '.' are not allowed: "
)


def iterate_index_parts(table: Table) -> Iterator[tuple[Index, KeyPart]]:
    """Iterate over the key attributes of all indexes."""
    for index in table.indexes:
        for part in index.keys.parts:
            yield index, part
