"""Apply an update to an item and return a new item; the old one is unchanged.

An update reads only from the old item. Only the maps and lists on the path to a change are copied. List
indexes refer to the old positions, whatever else the update does to the list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final, TypeAlias

from holdfast.core.errors import InvalidRequest
from holdfast.operations import numbers
from holdfast.operations.expressions.evaluate import MISSING, lookup
from holdfast.operations.expressions.nodes import (
    Action,
    AddAction,
    DeleteAction,
    IfNotExists,
    ListAppend,
    Literal,
    Minus,
    Path,
    Plus,
    RemoveAction,
    SetAction,
    SetOperand,
    Update,
)
from holdfast.operations.expressions.project import project
from holdfast.operations.values import Item, Value, type_of

NO_SUCH_ATTRIBUTE: Final = "The provided expression refers to an attribute that does not exist in the item"
WRONG_TYPE: Final = "An operand in the update expression has an incorrect data type"
WRONG_PATH: Final = "The document path provided in the update expression is invalid for update"

# The change at each name or index: one action, or changes inside (another tree).
_Tree: TypeAlias = dict[Any, Any]


def apply(update: Update, item: Item | None, key: Item) -> Item:
    """Return the item after the update. An absent item (None) starts with its key attributes."""
    before = key if item is None else item
    return _changed_map(_tree(update), before, before)


def touched(update: Update) -> tuple[Path, ...]:
    """Return the paths that an update writes, for its return values."""
    return tuple(action.path for action in update.actions)


def updated_values(paths: tuple[Path, ...], item: Mapping[str, Value]) -> Item:
    """Return only the item's values at the written paths, for UPDATED_OLD and UPDATED_NEW."""
    return project(paths, item)


# --- paths --------------------------------------------------------------------------------------------------


def _tree(update: Update) -> _Tree:
    tree: _Tree = {}
    for action in update.actions:
        branch = tree
        *way, last = action.path.elements
        for element in way:
            branch = branch.setdefault(element, {})
        branch[last] = action
    return tree


def _changed(change: _Tree | Action, value: Any, item: Item) -> Any:
    """Return the value that replaces the old one, or MISSING if the change removes it."""
    if not isinstance(change, dict):
        return _ACTIONS[type(change)](change, value, item)
    if type(value) is dict and type(next(iter(change))) is str:
        return _changed_map(change, value, item)
    if type(value) is list and type(next(iter(change))) is int:
        return _changed_list(change, value, item)
    raise InvalidRequest(WRONG_PATH)


def _changed_map(changes: _Tree, value: dict[str, Value], item: Item) -> dict[str, Value]:
    after = dict(value)
    for name, change in changes.items():
        result = _changed(change, value.get(name, MISSING), item)
        if result is MISSING:
            after.pop(name, None)
        else:
            after[name] = result
    return after


def _changed_list(changes: _Tree, value: list[Value], item: Item) -> list[Value]:
    """Return the changed list. Values set beyond its end are appended in the order of their indexes."""
    after: list[Any] = list(value)
    for index in sorted(changes):
        inside = index < len(value)
        result = _changed(changes[index], value[index] if inside else MISSING, item)
        if inside:
            after[index] = result
        else:
            after.append(result)
    return [element for element in after if element is not MISSING]


# --- values -------------------------------------------------------------------------------------------------


def _set(action: SetAction, value: Any, item: Item) -> Any:
    return _operand(action.operand, item)


def _remove(action: RemoveAction, value: Any, item: Item) -> Any:
    return MISSING


def _add(action: AddAction, value: Any, item: Item) -> Any:
    if value is MISSING:
        return action.value
    if type_of(value) != type_of(action.value):
        raise InvalidRequest(WRONG_TYPE)
    added: Any = action.value
    return value | added if isinstance(value, frozenset) else _sum(value, added)


def _delete(action: DeleteAction, value: Any, item: Item) -> Any:
    if value is MISSING:
        return MISSING
    if type_of(value) != type_of(action.value):
        raise InvalidRequest(WRONG_TYPE)
    return (value - action.value) or MISSING


_ACTIONS: Final[dict[type, Callable[[Any, Any, Item], Any]]] = {
    SetAction: _set,
    RemoveAction: _remove,
    AddAction: _add,
    DeleteAction: _delete,
}


def _operand(operand: SetOperand, item: Item) -> Any:
    match operand:
        case Literal():
            return operand.value
        case Path():
            return _existing(operand, item)
        case IfNotExists():
            value, otherwise = lookup(operand.path, item), _operand(operand.operand, item)
            return otherwise if value is MISSING else value
        case ListAppend():
            return _list(operand.left, item) + _list(operand.right, item)
        case Plus():
            return _sum(_number(operand.left, item), _number(operand.right, item))
        case Minus():
            left = _number(operand.left, item)
            return _sum(left, numbers.EXACT.minus(_number(operand.right, item)))


def _existing(path: Path, item: Item) -> Any:
    value = lookup(path, item)
    if value is MISSING:
        raise InvalidRequest(NO_SUCH_ATTRIBUTE)
    return value


def _list(operand: SetOperand, item: Item) -> list[Value]:
    value = _operand(operand, item)
    if type(value) is not list:
        raise InvalidRequest(WRONG_TYPE)
    return value


def _number(operand: SetOperand, item: Item) -> int | Decimal:
    value: int | Decimal = _operand(operand, item)
    if type(value) not in (int, Decimal):
        raise InvalidRequest(WRONG_TYPE)
    return value


def _sum(left: int | Decimal, right: int | Decimal) -> int | Decimal:
    """Add exactly or raise. DynamoDB reports too many digits with the text for a number that is too large."""
    exact = left + right if type(left) is type(right) is int else numbers.EXACT.add(left, right)
    try:
        return numbers.canonical(exact)
    except InvalidRequest as refused:
        if refused.message == numbers.TOO_PRECISE:
            raise InvalidRequest(numbers.OVERFLOW) from None
        raise
