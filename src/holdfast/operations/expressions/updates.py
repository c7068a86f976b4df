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
from holdfast.operations.expressions.evaluation import MISSING, resolve_path
from holdfast.operations.expressions.nodes import (
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
    UpdateAction,
)
from holdfast.operations.expressions.projections import project
from holdfast.operations.values import Item, Value, get_type_tag

NO_SUCH_ATTRIBUTE: Final = "The provided expression refers to an attribute that does not exist in the item"
WRONG_TYPE: Final = "An operand in the update expression has an incorrect data type"
WRONG_PATH: Final = "The document path provided in the update expression is invalid for update"

# The change at each name or index: one action, or changes inside (another tree).
_Tree: TypeAlias = dict[Any, Any]


def apply_update(update: Update, item: Item | None, key: Item) -> Item:
    """Return the item after the update. An absent item (None) starts with its key attributes.

    Raise `InvalidRequest` for a path, an operand or a number that DynamoDB rejects for this item.
    """
    before = key if item is None else item
    return _apply_to_map(_build_tree(update), before, before)


def get_written_paths(update: Update) -> tuple[Path, ...]:
    """Return the paths that an update writes, for its return values."""
    return tuple(action.path for action in update.actions)


def select_written_values(paths: tuple[Path, ...], item: Mapping[str, Value]) -> Item:
    """Return only the item's values at the written paths, for UPDATED_OLD and UPDATED_NEW."""
    return project(paths, item)


# --- paths --------------------------------------------------------------------------------------------------


def _build_tree(update: Update) -> _Tree:
    """Merge the actions into one tree by the elements of their paths."""
    tree: _Tree = {}
    for action in update.actions:
        branch = tree
        *way, last = action.path.elements
        for element in way:
            branch = branch.setdefault(element, {})
        branch[last] = action
    return tree


def _apply_change(change: _Tree | UpdateAction, value: Any, item: Item) -> Any:
    """Return the value that replaces the old `value`, or MISSING if the change removes it. `item` is the old
    item.
    """
    if not isinstance(change, dict):
        return _APPLIERS[type(change)](change, value, item)
    if type(value) is dict and type(next(iter(change))) is str:
        return _apply_to_map(change, value, item)
    if type(value) is list and type(next(iter(change))) is int:
        return _apply_to_list(change, value, item)
    raise InvalidRequest(WRONG_PATH)


def _apply_to_map(changes: _Tree, value: dict[str, Value], item: Item) -> dict[str, Value]:
    """Return a changed copy of the map; `item` is the whole old item, which operands read."""
    after = dict(value)
    for name, change in changes.items():
        result = _apply_change(change, value.get(name, MISSING), item)
        if result is MISSING:
            after.pop(name, None)
        else:
            after[name] = result
    return after


def _apply_to_list(changes: _Tree, value: list[Value], item: Item) -> list[Value]:
    """Return the changed list. Values set beyond its end are appended in the order of their indexes."""
    after: list[Any] = list(value)
    for index in sorted(changes):
        inside = index < len(value)
        result = _apply_change(changes[index], value[index] if inside else MISSING, item)
        if inside:
            after[index] = result
        else:
            after.append(result)
    return [element for element in after if element is not MISSING]


# --- values -------------------------------------------------------------------------------------------------


def _apply_set(action: SetAction, value: Any, item: Item) -> Any:
    """Return the operand's value, which replaces the old one."""
    return _evaluate_operand(action.operand, item)


def _apply_remove(action: RemoveAction, value: Any, item: Item) -> Any:
    """Return MISSING, which removes the value."""
    return MISSING


def _apply_add(action: AddAction, value: Any, item: Item) -> Any:
    """Return the sum or the union with the old value; the action's value alone if the old one is absent."""
    if value is MISSING:
        return action.value
    if get_type_tag(value) != get_type_tag(action.value):
        raise InvalidRequest(WRONG_TYPE)
    added: Any = action.value
    return value | added if isinstance(value, frozenset) else _add_exactly(value, added)


def _apply_delete(action: DeleteAction, value: Any, item: Item) -> Any:
    """Return the old set without the action's elements, or MISSING if none remain."""
    if value is MISSING:
        return MISSING
    if get_type_tag(value) != get_type_tag(action.value):
        raise InvalidRequest(WRONG_TYPE)
    return (value - action.value) or MISSING


_APPLIERS: Final[dict[type, Callable[[Any, Any, Item], Any]]] = {
    SetAction: _apply_set,
    RemoveAction: _apply_remove,
    AddAction: _apply_add,
    DeleteAction: _apply_delete,
}


def _evaluate_operand(operand: SetOperand, item: Item) -> Any:
    """Return the operand's value on the old item. Raise `InvalidRequest` for an absent attribute or a wrong
    type.
    """
    match operand:
        case Literal():
            return operand.value
        case Path():
            return _get_existing(operand, item)
        case IfNotExists():
            value, otherwise = resolve_path(operand.path, item), _evaluate_operand(operand.operand, item)
            return otherwise if value is MISSING else value
        case ListAppend():
            return _evaluate_list(operand.left, item) + _evaluate_list(operand.right, item)
        case Plus():
            return _add_exactly(_evaluate_number(operand.left, item), _evaluate_number(operand.right, item))
        case Minus():
            left = _evaluate_number(operand.left, item)
            return _add_exactly(left, numbers.EXACT_CONTEXT.minus(_evaluate_number(operand.right, item)))


def _get_existing(path: Path, item: Item) -> Any:
    """Return the value at a path. Raise `InvalidRequest` if there is none."""
    value = resolve_path(path, item)
    if value is MISSING:
        raise InvalidRequest(NO_SUCH_ATTRIBUTE)
    return value


def _evaluate_list(operand: SetOperand, item: Item) -> list[Value]:
    """Return the operand as a list. Raise `InvalidRequest` for another type."""
    value = _evaluate_operand(operand, item)
    if type(value) is not list:
        raise InvalidRequest(WRONG_TYPE)
    return value


def _evaluate_number(operand: SetOperand, item: Item) -> int | Decimal:
    """Return the operand as a number. Raise `InvalidRequest` for another type."""
    value: int | Decimal = _evaluate_operand(operand, item)
    if type(value) not in (int, Decimal):
        raise InvalidRequest(WRONG_TYPE)
    return value


def _add_exactly(left: int | Decimal, right: int | Decimal) -> int | Decimal:
    """Return the exact sum. Raise `InvalidRequest` if DynamoDB could not store it.

    DynamoDB reports too many digits with the text for a number that is too large.
    """
    exact = left + right if type(left) is type(right) is int else numbers.EXACT_CONTEXT.add(left, right)
    try:
        return numbers.canonicalize(exact)
    except InvalidRequest as error:
        if error.message == numbers.TOO_PRECISE:
            raise InvalidRequest(numbers.OVERFLOW) from None
        raise
