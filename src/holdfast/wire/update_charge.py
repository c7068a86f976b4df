"""What an UpdateItem is charged against the 400 KB that an item may have: by its statement.

UpdateItem is the one write that the service measures twice: the finished item, which only the store can know,
and the statement, which only writes what it names. Each clause has a fixed price, and so have the operands
other than values; what an operand reads or removes is free. The prices were measured, they are documented
nowhere, and a third of the service's regions does without them. Called last by the `decode` of UpdateItem.
"""

from __future__ import annotations

from typing import Final

from holdfast.core.errors import InvalidRequest
from holdfast.core.limits import ITEM_BYTES_MAX
from holdfast.operations.expressions.nodes import (
    IfNotExists,
    ListAppend,
    Literal,
    Minus,
    Path,
    Plus,
    SetOperand,
    Update,
)
from holdfast.operations.values import value_size

_UPDATE: Final = 3
_WRITING_CLAUSE: Final = 19
_REMOVING_CLAUSE: Final = 1
_TARGET_STEP: Final = 4
_PATH_READ: Final = 1
_PATH_READ_ELEMENT: Final = 14
_IF_NOT_EXISTS: Final = 39
_COMBINATIONS: Final[dict[type, int]] = {ListAppend: 37, Plus: 34, Minus: 37}


def check_charge(update: Update) -> None:
    """Refuse a statement that would be too large whatever the item it meets."""
    if _charge(update) > ITEM_BYTES_MAX:
        raise InvalidRequest("Item size to update has exceeded the maximum allowed size")


def _charge(update: Update) -> int:
    total = _UPDATE
    for change in update.sets:
        total += _WRITING_CLAUSE + _target(change.path) + _operand(change.operand)
    for addition in update.adds:
        total += _WRITING_CLAUSE + _target(addition.path) + value_size(addition.value)
    for removal in update.removes:
        total += _REMOVING_CLAUSE + _target(removal.path)
    for deletion in update.deletes:
        total += _REMOVING_CLAUSE + _target(deletion.path)
    return total


def _target(path: Path) -> int:
    root, *steps = map(_element, path.elements)
    return root + sum(_TARGET_STEP + step for step in steps)


def _operand(operand: SetOperand) -> int:
    if isinstance(operand, Literal):
        return value_size(operand.value)
    if isinstance(operand, Path):
        return _PATH_READ + sum(_PATH_READ_ELEMENT + _element(each) for each in operand.elements)
    if isinstance(operand, IfNotExists):
        return _IF_NOT_EXISTS + _operand(operand.path) + _operand(operand.operand)
    return _COMBINATIONS[type(operand)] + _operand(operand.left) + _operand(operand.right)


def _element(element: str | int) -> int:
    """A name in UTF-8, or the digits of an index."""
    return len(str(element).encode())
