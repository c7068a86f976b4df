"""The size that an UpdateItem statement counts towards the 400 KB limit of an item.

UpdateItem is the only write that DynamoDB measures twice: the resulting item, which only the store knows,
and the statement, which counts only what it names. Each clause has a fixed cost, and so has each operand
that is not a value; the data that it reads or removes is free. The costs were measured; they are not
documented, and a third of DynamoDB's regions does not apply them. The `decode` of UpdateItem calls this
module last.
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
    """Raise for a statement that is too large for any item."""
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
    """Return the size of a path element: a name in UTF-8, or the digits of an index."""
    return len(str(element).encode())
