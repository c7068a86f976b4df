"""Bind templates to nodes: put the names and values of one request into an expression.

The steps of a template run on a stack. That is the order in which DynamoDB checks an expression: each operand
when it is met, each operator after its operands. Every type check that needs no item happens here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, get_args

from holdfast.core.limits import EXPRESSION_IN_OPERANDS_MAX, EXPRESSION_OPERATORS_MAX, NESTING_LEVELS_MAX
from holdfast.operations.expressions import nodes
from holdfast.operations.expressions.describe import describe
from holdfast.operations.expressions.grammar import ActionTemplate, ConditionTemplate
from holdfast.operations.expressions.nodes import Condition, Literal, Path, Projection, Size, Update
from holdfast.operations.expressions.paths import PathTree
from holdfast.operations.expressions.placeholders import Placeholders
from holdfast.operations.expressions.reader import Step
from holdfast.operations.expressions.refusal import refusal
from holdfast.operations.values import TypeTag, type_of

_Stack: TypeAlias = list[Any]

_TYPES: Final = frozenset(get_args(TypeTag))
# DynamoDB lists all types in these two orders.
_ALL_TYPES_TOLD: Final = "{NS,SS,L,BS,N,M,B,BOOL,NULL,S}"
_TYPE_NAMES_TOLD: Final = "{B,NULL,SS,BOOL,L,BS,N,NS,S,M}"
_ADDABLE: Final = frozenset(("N", "SS", "NS", "BS"))
_SETS: Final = frozenset(("SS", "NS", "BS"))
_ORDERED: Final = frozenset(("S", "N", "B"))
_SIZED: Final = frozenset(("S", "B", "SS", "NS", "BS", "L", "M"))
_STRINGS: Final = frozenset(("S", "B"))
_LISTS: Final = frozenset(("L",))
_NUMBERS: Final = frozenset(("N",))
# The type names in errors about ADD and DELETE, which differ from those of every other operator.
_TYPE_WORDS: Final = {
    "S": "STRING",
    "N": "NUMBER",
    "B": "BINARY",
    "BOOL": "BOOLEAN",
    "NULL": "NULL",
    "L": "LIST",
    "M": "MAP",
}


def bind_condition(template: ConditionTemplate, placeholders: Placeholders) -> Condition:
    if template.bound is not None:
        return template.bound
    condition: Condition = _Binder(placeholders).run(template.steps)
    if template.is_closed:
        template.bound = condition
    return condition


def bind_projection(template: tuple[Path, ...], placeholders: Placeholders) -> Projection:
    return _bind_apart(template, placeholders)


def bind_update(template: tuple[ActionTemplate, ...], placeholders: Placeholders) -> Update:
    """Bind an update: first the paths, then the actions, each from last to first as DynamoDB does."""
    paths = _bind_apart([action.path for action in template], placeholders)
    binder = _Binder(placeholders)
    made: dict[str, list[Any]] = {"SET": [], "REMOVE": [], "ADD": [], "DELETE": []}
    for action, path in zip(reversed(template), reversed(paths), strict=True):
        made[action.section].append(_ACTIONS[action.section](path, action.steps, binder))
    sets, removes, adds, deletes = (tuple(reversed(actions)) for actions in made.values())
    return Update(sets, removes, adds, deletes)


# --- paths --------------------------------------------------------------------------------------------------


def _bind_apart(paths: Sequence[Path], placeholders: Placeholders) -> tuple[Path, ...]:
    """Bind paths that must not overlap, from last to first: DynamoDB's order, which decides the error it
    reports.
    """
    if len(paths) == 1:
        return (_bind_path(paths[0], placeholders),)
    tree = PathTree()
    bound = []
    for path in reversed(paths):
        bound.append(_bind_path(path, placeholders))
        tree.add(bound[-1])
    return tuple(reversed(bound))


def _bind_path(path: Path, placeholders: Placeholders) -> Path:
    root, steps = path.root, path.steps
    if not steps:
        return Path(placeholders.name(root)) if root[0] == "#" else path
    if len(steps) >= NESTING_LEVELS_MAX:
        raise refusal("The document path has too many nesting levels", nesting_levels=len(steps) + 1)
    if root[0] == "#":
        root = placeholders.name(root)
    return Path(root, tuple([_bind_step(step, placeholders) for step in steps]))


def _bind_step(step: str | int, placeholders: Placeholders) -> str | int:
    return placeholders.name(step) if isinstance(step, str) and step[0] == "#" else step


# --- operators ----------------------------------------------------------------------------------------------


class _Binder:
    """A stack machine that runs steps. It counts the operators of all parts of one expression together."""

    __slots__ = ("_operators", "_placeholders")

    def __init__(self, placeholders: Placeholders) -> None:
        self._placeholders = placeholders
        self._operators = 0

    def run(self, steps: tuple[Step, ...]) -> Any:
        stack: _Stack = []
        placeholders = self._placeholders
        for operation, argument in steps:
            if operation == "path":
                stack.append(_bind_path(argument, placeholders))
            elif operation == "value":
                stack.append(Literal(placeholders.value(argument)))
            else:
                self._operate(operation, argument, stack)
        return stack[0]

    def _operate(self, operation: str, given: int | None, stack: _Stack) -> None:
        operator = _OPERATORS[operation]
        count = given or operator.operands
        operands = stack[-count:]
        _check_operands(operation, operator, operands)
        stack[-count:] = [operator.make(operation, *operands)]
        self._operators += 1
        if self._operators > EXPRESSION_OPERATORS_MAX:
            raise refusal("The expression contains too many operators", operator_count=self._operators)


class _Operator(NamedTuple):
    """The number of operands an operator takes (0: any number), their types, and whether the first may be
    repeated.
    """

    make: Callable[..., Any]
    operands: int
    types: frozenset[str] | None = None
    may_repeat: bool = False


def _check_operands(operation: str, operator: _Operator, operands: list[Any]) -> None:
    if operator.operands and operator.operands != len(operands):
        raise refusal(
            "Incorrect number of operands for operator or function",
            operator_or_function=operation,
            number_of_operands=len(operands),
        )
    if operator.types is not None:
        for operand in operands:
            tag = _known_type(operand)
            if tag is not None and tag not in operator.types:
                raise _wrong_type(operation, tag)
    first = operands[0]
    if type(first) is Path and not operator.may_repeat and first in operands[1:]:
        raise refusal(
            "The first operand must be distinct from the remaining operands for this operator or function",
            operator=operation,
            first_operand=first,
        )


def _known_type(operand: Any) -> TypeTag | None:
    """Return the operand's type if it does not depend on the item, else None."""
    if type(operand) is Literal:
        return type_of(operand.value)
    if type(operand) in (Size, nodes.Plus, nodes.Minus):
        return "N"
    return None


def _wrong_type(operation: str, told: str) -> Exception:
    return refusal(
        "Incorrect operand type for operator or function", operator_or_function=operation, operand_type=told
    )


def _compare(operator: Any, left: Any, right: Any) -> nodes.Compare:
    return nodes.Compare(operator, left, right)


def _between(_: str, operand: Any, low: Any, high: Any) -> nodes.Between:
    if type(low) is Literal and type(high) is Literal:
        if _known_type(low) != _known_type(high):
            raise _wrong_bounds("same data type for lower and upper bounds", low, high)
        if low.value > high.value:  # type: ignore[operator]
            raise _wrong_bounds("upper bound to be greater than or equal to lower bound", low, high)
    return nodes.Between(operand, low, high)


def _wrong_bounds(required: str, low: Literal, high: Literal) -> Exception:
    return refusal(
        f"The BETWEEN operator requires {required}",
        lower_bound_operand=f"AttributeValue: {describe(low.value)}",
        upper_bound_operand=f"AttributeValue: {describe(high.value)}",
    )


def _in(_: str, operand: Any, *choices: Any) -> nodes.In:
    if len(choices) > EXPRESSION_IN_OPERANDS_MAX:
        raise refusal("The IN operator is provided with too many operands", number_of_operands=len(choices))
    return nodes.In(operand, choices)


def _attribute_exists(operation: str, path: Any) -> nodes.AttributeExists:
    return nodes.AttributeExists(_a_path(operation, path))


def _attribute_not_exists(operation: str, path: Any) -> nodes.AttributeNotExists:
    return nodes.AttributeNotExists(_a_path(operation, path))


def _a_path(operation: str, operand: Any) -> Path:
    if not isinstance(operand, Path):
        raise refusal("Operator or function requires a document path", operator_or_function=operation)
    return operand


def _attribute_type(operation: str, operand: Any, tag: Any) -> nodes.AttributeType:
    known = _known_type(tag)
    if known != "S":
        raise _wrong_type(operation, known or _ALL_TYPES_TOLD)
    if tag.value not in _TYPES:
        raise refusal("Invalid attribute type name found", type=tag.value, valid_types=_TYPE_NAMES_TOLD)
    return nodes.AttributeType(operand, tag.value)


def _begins_with(_: str, operand: Any, prefix: Any) -> nodes.BeginsWith:
    return nodes.BeginsWith(operand, prefix)


def _contains(_: str, operand: Any, element: Any) -> nodes.Contains:
    return nodes.Contains(operand, element)


def _size(_: str, operand: Any) -> Size:
    return Size(operand)


def _not(_: str, condition: Any) -> nodes.Not:
    return nodes.Not(condition)


def _and(_: str, left: Any, right: Any) -> nodes.And:
    return nodes.And(_flat(nodes.And, left) + _flat(nodes.And, right))


def _or(_: str, left: Any, right: Any) -> nodes.Or:
    return nodes.Or(_flat(nodes.Or, left) + _flat(nodes.Or, right))


def _flat(kind: type[nodes.And | nodes.Or], condition: Any) -> tuple[Condition, ...]:
    return condition.conditions if isinstance(condition, kind) else (condition,)


def _if_not_exists(operation: str, path: Any, operand: Any) -> nodes.IfNotExists:
    return nodes.IfNotExists(_a_path(operation, path), operand)


def _list_append(_: str, left: Any, right: Any) -> nodes.ListAppend:
    return nodes.ListAppend(left, right)


def _plus(_: str, left: Any, right: Any) -> nodes.Plus:
    return nodes.Plus(left, right)


def _minus(_: str, left: Any, right: Any) -> nodes.Minus:
    return nodes.Minus(left, right)


_OPERATORS: Final = {
    "=": _Operator(_compare, 2),
    "<>": _Operator(_compare, 2),
    "<": _Operator(_compare, 2, _ORDERED),
    "<=": _Operator(_compare, 2, _ORDERED),
    ">": _Operator(_compare, 2, _ORDERED),
    ">=": _Operator(_compare, 2, _ORDERED),
    "BETWEEN": _Operator(_between, 3, _ORDERED),
    "IN": _Operator(_in, 0),
    "attribute_exists": _Operator(_attribute_exists, 1),
    "attribute_not_exists": _Operator(_attribute_not_exists, 1),
    "attribute_type": _Operator(_attribute_type, 2),
    "begins_with": _Operator(_begins_with, 2, _STRINGS),
    "contains": _Operator(_contains, 2),
    "size": _Operator(_size, 1, _SIZED),
    "NOT": _Operator(_not, 1),
    "AND": _Operator(_and, 2),
    "OR": _Operator(_or, 2),
    "if_not_exists": _Operator(_if_not_exists, 2),
    "list_append": _Operator(_list_append, 2, _LISTS, may_repeat=True),
    "+": _Operator(_plus, 2, _NUMBERS, may_repeat=True),
    "-": _Operator(_minus, 2, _NUMBERS, may_repeat=True),
}


# --- actions ------------------------------------------------------------------------------------------------


def _set(path: Path, steps: tuple[Step, ...], binder: _Binder) -> nodes.SetAction:
    return nodes.SetAction(path, binder.run(steps))


def _remove(path: Path, steps: tuple[Step, ...], binder: _Binder) -> nodes.RemoveAction:
    return nodes.RemoveAction(path)


def _add(path: Path, steps: tuple[Step, ...], binder: _Binder) -> nodes.AddAction:
    operand: Literal = binder.run(steps)
    _check_action_type("ADD", operand, _ADDABLE)
    return nodes.AddAction(path, operand.value)


def _delete(path: Path, steps: tuple[Step, ...], binder: _Binder) -> nodes.DeleteAction:
    operand: Literal = binder.run(steps)
    _check_action_type("DELETE", operand, _SETS)
    return nodes.DeleteAction(path, operand.value)


def _check_action_type(action: str, operand: Literal, allowed: frozenset[str]) -> None:
    tag = type_of(operand.value)
    if tag not in allowed:
        raise refusal(
            "Incorrect operand type for operator or function", operator=action, operand_type=_TYPE_WORDS[tag]
        )


_ACTIONS: Final[dict[str, Callable[[Path, tuple[Step, ...], _Binder], Any]]] = {
    "SET": _set,
    "REMOVE": _remove,
    "ADD": _add,
    "DELETE": _delete,
}
