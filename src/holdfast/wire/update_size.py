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
from holdfast.core.limits import MAX_ITEM_BYTES
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

_UPDATE_SIZE: Final = 3
_WRITE_CLAUSE_SIZE: Final = 19
_REMOVE_CLAUSE_SIZE: Final = 1
_TARGET_ELEMENT_SIZE: Final = 4
_PATH_READ_SIZE: Final = 1
_PATH_READ_ELEMENT_SIZE: Final = 14
_IF_NOT_EXISTS_SIZE: Final = 39
_COMBINATION_SIZES: Final[dict[type, int]] = {ListAppend: 37, Plus: 34, Minus: 37}


def check_update_size(update: Update) -> None:
    """Raise `InvalidRequest` for a statement that is too large for any item."""
    if _compute_size(update) > MAX_ITEM_BYTES:
        raise InvalidRequest("Item size to update has exceeded the maximum allowed size")


def _compute_size(update: Update) -> int:
    """Return the bytes that the update's clauses count, by the measured costs above."""
    total = _UPDATE_SIZE
    for change in update.sets:
        total += (
            _WRITE_CLAUSE_SIZE + _compute_target_size(change.path) + _compute_operand_size(change.operand)
        )
    for addition in update.adds:
        total += _WRITE_CLAUSE_SIZE + _compute_target_size(addition.path) + value_size(addition.value)
    for removal in update.removes:
        total += _REMOVE_CLAUSE_SIZE + _compute_target_size(removal.path)
    for deletion in update.deletes:
        total += _REMOVE_CLAUSE_SIZE + _compute_target_size(deletion.path)
    return total


def _compute_target_size(path: Path) -> int:
    """Return the size of a path that a clause writes or removes."""
    root, *steps = map(_compute_element_size, path.elements)
    return root + sum(_TARGET_ELEMENT_SIZE + step for step in steps)


def _compute_operand_size(operand: SetOperand) -> int:
    """Return the size of a SET operand: of a literal its value, else the cost of what it names."""
    if isinstance(operand, Literal):
        return value_size(operand.value)
    if isinstance(operand, Path):
        return _PATH_READ_SIZE + sum(
            _PATH_READ_ELEMENT_SIZE + _compute_element_size(each) for each in operand.elements
        )
    if isinstance(operand, IfNotExists):
        return (
            _IF_NOT_EXISTS_SIZE + _compute_operand_size(operand.path) + _compute_operand_size(operand.operand)
        )
    return (
        _COMBINATION_SIZES[type(operand)]
        + _compute_operand_size(operand.left)
        + _compute_operand_size(operand.right)
    )


def _compute_element_size(element: str | int) -> int:
    """Return the size of a path element: a name in UTF-8, or the digits of an index."""
    return len(str(element).encode())
