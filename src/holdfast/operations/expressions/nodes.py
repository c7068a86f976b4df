"""The syntax tree of an expression, which the parser builds from text and typed Python builds directly.

Nodes contain no text and no placeholders: a path holds attribute names, a literal holds a value. The parser
(`parser.py`, `binder.py`) builds these nodes; `evaluation.py`, `updates.py` and `projections.py` read them.
"""

from __future__ import annotations

from typing import Literal as Choice
from typing import TypeAlias

import msgspec

from holdfast.operations.values import TypeTag, Value

Comparator: TypeAlias = Choice["=", "<>", "<", "<=", ">", ">="]


class Node(msgspec.Struct, frozen=True):
    """The base of all nodes: values that are equal when their parts are."""


# --- operands -----------------------------------------------------------------------------------------------


class Path(Node, frozen=True):
    """The location of a value in an item: an attribute, then names into maps and indexes into lists."""

    root: str
    steps: tuple[str | int, ...] = ()

    @property
    def elements(self) -> tuple[str | int, ...]:
        """The root attribute and the steps, as one tuple."""
        return (self.root, *self.steps)

    def __str__(self) -> str:
        """Format the path as DynamoDB does in its errors: `[a, b, [1]]`."""
        elements = (f"[{element}]" if isinstance(element, int) else element for element in self.elements)
        return f"[{', '.join(elements)}]"


class Literal(Node, frozen=True):
    """A value given with the expression. It is hashable only if its value is: a list or a map is not."""

    value: Value


class Size(Node, frozen=True):
    """The size of a value: characters of a string, bytes of a binary, elements of a set, list or map."""

    operand: Path | Literal


Operand: TypeAlias = Path | Literal | Size


# --- conditions ---------------------------------------------------------------------------------------------


class Compare(Node, frozen=True):
    operator: Comparator
    left: Operand
    right: Operand


class Between(Node, frozen=True):
    operand: Operand
    low: Operand
    high: Operand


class In(Node, frozen=True):
    operand: Operand
    choices: tuple[Operand, ...]


class AttributeExists(Node, frozen=True):
    path: Path


class AttributeNotExists(Node, frozen=True):
    path: Path


class AttributeType(Node, frozen=True):
    operand: Operand
    tag: TypeTag


class BeginsWith(Node, frozen=True):
    operand: Operand
    prefix: Operand


class Contains(Node, frozen=True):
    operand: Operand
    element: Operand


class Not(Node, frozen=True):
    condition: Condition


class And(Node, frozen=True):
    """A conjunction of any number of conditions, so that a long chain of AND is flat."""

    conditions: tuple[Condition, ...]


class Or(Node, frozen=True):
    """A disjunction of any number of conditions, so that a long chain of OR is flat."""

    conditions: tuple[Condition, ...]


Condition: TypeAlias = (
    Compare
    | Between
    | In
    | AttributeExists
    | AttributeNotExists
    | AttributeType
    | BeginsWith
    | Contains
    | Not
    | And
    | Or
)


# --- updates ------------------------------------------------------------------------------------------------


class IfNotExists(Node, frozen=True):
    path: Path
    operand: SetOperand


class ListAppend(Node, frozen=True):
    left: SetOperand
    right: SetOperand


class Plus(Node, frozen=True):
    left: SetOperand
    right: SetOperand


class Minus(Node, frozen=True):
    left: SetOperand
    right: SetOperand


SetOperand: TypeAlias = Path | Literal | IfNotExists | ListAppend | Plus | Minus


class SetAction(Node, frozen=True):
    path: Path
    operand: SetOperand


class RemoveAction(Node, frozen=True):
    path: Path


class AddAction(Node, frozen=True):
    """Add a number to a number, or the elements of a set to a set."""

    path: Path
    value: Value


class DeleteAction(Node, frozen=True):
    """Remove the elements of a set from a set."""

    path: Path
    value: Value


UpdateAction: TypeAlias = SetAction | RemoveAction | AddAction | DeleteAction


class Update(Node, frozen=True):
    """The actions of one update. Their paths must not overlap: see `path_tree.check_no_overlap`."""

    sets: tuple[SetAction, ...] = ()
    removes: tuple[RemoveAction, ...] = ()
    adds: tuple[AddAction, ...] = ()
    deletes: tuple[DeleteAction, ...] = ()

    @property
    def actions(self) -> tuple[UpdateAction, ...]:
        """All actions: sets, removes, adds, then deletes."""
        return (*self.sets, *self.removes, *self.adds, *self.deletes)


# --- projections --------------------------------------------------------------------------------------------

Projection: TypeAlias = tuple[Path, ...]
