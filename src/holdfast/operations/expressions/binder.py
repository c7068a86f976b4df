"""Bind templates to nodes: put the names and values of one request into a parsed expression.

The instructions of a template run on a stack. That is the order in which DynamoDB checks an expression: each
operand when it is met, each operator after its operands. Every type check that needs no item happens here. An
invalid expression raises `ExpressionError`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, get_args

from holdfast.core.limits import MAX_EXPRESSION_IN_OPERANDS, MAX_EXPRESSION_OPERATORS, MAX_NESTING_LEVELS
from holdfast.operations.expressions import nodes
from holdfast.operations.expressions.errors import build_expression_error
from holdfast.operations.expressions.grammar import ConditionTemplate, UpdateActionTemplate
from holdfast.operations.expressions.nodes import Condition, Literal, Path, Projection, Size, Update
from holdfast.operations.expressions.path_tree import PathTree
from holdfast.operations.expressions.placeholders import Placeholders
from holdfast.operations.expressions.token_reader import Instruction
from holdfast.operations.expressions.value_format import format_value
from holdfast.operations.values import TypeTag, get_type_tag

_Stack: TypeAlias = list[Any]

_TYPE_NAMES: Final = frozenset(get_args(TypeTag))
# DynamoDB's errors list all types in these two orders.
_ALL_TYPES_TEXT: Final = "{NS,SS,L,BS,N,M,B,BOOL,NULL,S}"
_TYPE_NAMES_TEXT: Final = "{B,NULL,SS,BOOL,L,BS,N,NS,S,M}"
_ADDABLE_TYPES: Final = frozenset(("N", "SS", "NS", "BS"))
_SET_TYPES: Final = frozenset(("SS", "NS", "BS"))
_ORDERED_TYPES: Final = frozenset(("S", "N", "B"))
_SIZED_TYPES: Final = frozenset(("S", "B", "SS", "NS", "BS", "L", "M"))
_STRING_TYPES: Final = frozenset(("S", "B"))
_LIST_TYPES: Final = frozenset(("L",))
_NUMBER_TYPES: Final = frozenset(("N",))
# The type names in errors about ADD and DELETE, which differ from those of every other operator.
_ACTION_TYPE_NAMES: Final = {
    "S": "STRING",
    "N": "NUMBER",
    "B": "BINARY",
    "BOOL": "BOOLEAN",
    "NULL": "NULL",
    "L": "LIST",
    "M": "MAP",
}


def bind_condition(template: ConditionTemplate, placeholders: Placeholders) -> Condition:
    """Bind a condition. One without placeholders is bound once and then cached in its template."""
    if template.bound_condition is not None:
        return template.bound_condition
    condition: Condition = _Binder(placeholders).run(template.instructions)
    if template.is_constant:
        template.bound_condition = condition
    return condition


def bind_projection(template: tuple[Path, ...], placeholders: Placeholders) -> Projection:
    """Bind the paths of a projection. Raise `ExpressionError` if two of them overlap."""
    return _bind_distinct_paths(template, placeholders)


def bind_update(template: tuple[UpdateActionTemplate, ...], placeholders: Placeholders) -> Update:
    """Bind an update: first the paths, then the actions, each from last to first as DynamoDB does."""
    paths = _bind_distinct_paths([action.path for action in template], placeholders)
    binder = _Binder(placeholders)
    by_section: dict[str, list[Any]] = {"SET": [], "REMOVE": [], "ADD": [], "DELETE": []}
    for action, path in zip(reversed(template), reversed(paths), strict=True):
        by_section[action.section].append(_ACTION_BINDERS[action.section](path, action.instructions, binder))
    sets, removes, adds, deletes = (tuple(reversed(actions)) for actions in by_section.values())
    return Update(sets, removes, adds, deletes)


# --- paths --------------------------------------------------------------------------------------------------


def _bind_distinct_paths(paths: Sequence[Path], placeholders: Placeholders) -> tuple[Path, ...]:
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
    """Replace the `#name` placeholders of a path. Raise `ExpressionError` if the path nests too deeply."""
    root, steps = path.root, path.steps
    if not steps:
        return Path(placeholders.resolve_name(root)) if root[0] == "#" else path
    if len(steps) >= MAX_NESTING_LEVELS:
        raise build_expression_error(
            "The document path has too many nesting levels", nesting_levels=len(steps) + 1
        )
    if root[0] == "#":
        root = placeholders.resolve_name(root)
    return Path(root, tuple([_bind_step(step, placeholders) for step in steps]))


def _bind_step(step: str | int, placeholders: Placeholders) -> str | int:
    """Replace a `#name` step by its attribute name; keep any other step."""
    return placeholders.resolve_name(step) if isinstance(step, str) and step[0] == "#" else step


# --- operators ----------------------------------------------------------------------------------------------


class _Binder:
    """A stack machine that runs instructions. It counts the operators of all parts of one expression
    together.
    """

    __slots__ = ("_operators", "_placeholders")

    def __init__(self, placeholders: Placeholders) -> None:
        self._placeholders = placeholders
        self._operators = 0

    def run(self, steps: tuple[Instruction, ...]) -> Any:
        """Run the instructions of one expression or value and return the node that they build."""
        stack: _Stack = []
        placeholders = self._placeholders
        for operation, argument in steps:
            if operation == "path":
                stack.append(_bind_path(argument, placeholders))
            elif operation == "value":
                stack.append(Literal(placeholders.resolve_value(argument)))
            else:
                self._apply_operator(operation, argument, stack)
        return stack[0]

    def _apply_operator(self, operation: str, operand_count: int | None, stack: _Stack) -> None:
        """Replace the operator's operands on the stack by its node. Raise `ExpressionError` for too many
        operators.
        """
        operator = _OPERATORS[operation]
        count = operand_count or operator.operands
        operands = stack[-count:]
        _check_operands(operation, operator, operands)
        stack[-count:] = [operator.build(operation, *operands)]
        self._operators += 1
        if self._operators > MAX_EXPRESSION_OPERATORS:
            raise build_expression_error(
                "The expression contains too many operators", operator_count=self._operators
            )


class _Operator(NamedTuple):
    """An operator: the function that builds its node, the number of its operands (0: any number), the types
    it accepts (None: all), and whether the first operand may be repeated.
    """

    build: Callable[..., Any]
    operands: int
    types: frozenset[str] | None = None
    can_repeat: bool = False


def _check_operands(operation: str, operator: _Operator, operands: list[Any]) -> None:
    """Raise `ExpressionError` for a wrong number of operands, a wrong type, or a first path that is
    repeated.
    """
    if operator.operands and operator.operands != len(operands):
        raise build_expression_error(
            "Incorrect number of operands for operator or function",
            operator_or_function=operation,
            number_of_operands=len(operands),
        )
    if operator.types is not None:
        for operand in operands:
            tag = _get_static_type(operand)
            if tag is not None and tag not in operator.types:
                raise _build_type_error(operation, tag)
    first = operands[0]
    if type(first) is Path and not operator.can_repeat and first in operands[1:]:
        raise build_expression_error(
            "The first operand must be distinct from the remaining operands for this operator or function",
            operator=operation,
            first_operand=first,
        )


def _get_static_type(operand: Any) -> TypeTag | None:
    """Return the operand's type if it does not depend on the item, else None."""
    if type(operand) is Literal:
        return get_type_tag(operand.value)
    if type(operand) in (Size, nodes.Plus, nodes.Minus):
        return "N"
    return None


def _build_type_error(operation: str, type_name: str) -> Exception:
    return build_expression_error(
        "Incorrect operand type for operator or function",
        operator_or_function=operation,
        operand_type=type_name,
    )


def _build_compare(operator: Any, left: Any, right: Any) -> nodes.Compare:
    return nodes.Compare(operator, left, right)


def _build_between(_: str, operand: Any, low: Any, high: Any) -> nodes.Between:
    """Build a BETWEEN node. Raise `ExpressionError` if its literal bounds differ in type or are in the wrong
    order.
    """
    if type(low) is Literal and type(high) is Literal:
        if _get_static_type(low) != _get_static_type(high):
            raise _build_bounds_error("same data type for lower and upper bounds", low, high)
        if low.value > high.value:  # type: ignore[operator]
            raise _build_bounds_error("upper bound to be greater than or equal to lower bound", low, high)
    return nodes.Between(operand, low, high)


def _build_bounds_error(required: str, low: Literal, high: Literal) -> Exception:
    """Build the error for BETWEEN bounds; `required` is the rule they break."""
    return build_expression_error(
        f"The BETWEEN operator requires {required}",
        lower_bound_operand=f"AttributeValue: {format_value(low.value)}",
        upper_bound_operand=f"AttributeValue: {format_value(high.value)}",
    )


def _build_in(_: str, operand: Any, *choices: Any) -> nodes.In:
    """Build an IN node. Raise `ExpressionError` for too many choices."""
    if len(choices) > MAX_EXPRESSION_IN_OPERANDS:
        raise build_expression_error(
            "The IN operator is provided with too many operands", number_of_operands=len(choices)
        )
    return nodes.In(operand, choices)


def _build_attribute_exists(operation: str, path: Any) -> nodes.AttributeExists:
    """Build the node. Raise `ExpressionError` if the operand is not a path."""
    return nodes.AttributeExists(_require_path(operation, path))


def _build_attribute_not_exists(operation: str, path: Any) -> nodes.AttributeNotExists:
    """Build the node. Raise `ExpressionError` if the operand is not a path."""
    return nodes.AttributeNotExists(_require_path(operation, path))


def _require_path(operation: str, operand: Any) -> Path:
    """Return the operand if it is a path, else raise `ExpressionError`."""
    if not isinstance(operand, Path):
        raise build_expression_error(
            "Operator or function requires a document path", operator_or_function=operation
        )
    return operand


def _build_attribute_type(operation: str, operand: Any, tag: Any) -> nodes.AttributeType:
    """Build an attribute_type node. Raise `ExpressionError` unless the tag is the name of a DynamoDB type."""
    known = _get_static_type(tag)
    if known != "S":
        raise _build_type_error(operation, known or _ALL_TYPES_TEXT)
    if tag.value not in _TYPE_NAMES:
        raise build_expression_error(
            "Invalid attribute type name found", type=tag.value, valid_types=_TYPE_NAMES_TEXT
        )
    return nodes.AttributeType(operand, tag.value)


def _build_begins_with(_: str, operand: Any, prefix: Any) -> nodes.BeginsWith:
    return nodes.BeginsWith(operand, prefix)


def _build_contains(_: str, operand: Any, element: Any) -> nodes.Contains:
    return nodes.Contains(operand, element)


def _build_size(_: str, operand: Any) -> Size:
    return Size(operand)


def _build_not(_: str, condition: Any) -> nodes.Not:
    return nodes.Not(condition)


def _build_and(_: str, left: Any, right: Any) -> nodes.And:
    """Build an AND node, with nested ANDs flattened."""
    return nodes.And(_flatten(nodes.And, left) + _flatten(nodes.And, right))


def _build_or(_: str, left: Any, right: Any) -> nodes.Or:
    """Build an OR node, with nested ORs flattened."""
    return nodes.Or(_flatten(nodes.Or, left) + _flatten(nodes.Or, right))


def _flatten(kind: type[nodes.And | nodes.Or], condition: Any) -> tuple[Condition, ...]:
    """Return the parts of a condition of this kind (And or Or), or the condition itself as the only part."""
    return condition.conditions if isinstance(condition, kind) else (condition,)


def _build_if_not_exists(operation: str, path: Any, operand: Any) -> nodes.IfNotExists:
    """Build the node. Raise `ExpressionError` if the first operand is not a path."""
    return nodes.IfNotExists(_require_path(operation, path), operand)


def _build_list_append(_: str, left: Any, right: Any) -> nodes.ListAppend:
    return nodes.ListAppend(left, right)


def _build_plus(_: str, left: Any, right: Any) -> nodes.Plus:
    return nodes.Plus(left, right)


def _build_minus(_: str, left: Any, right: Any) -> nodes.Minus:
    return nodes.Minus(left, right)


_OPERATORS: Final = {
    "=": _Operator(_build_compare, 2),
    "<>": _Operator(_build_compare, 2),
    "<": _Operator(_build_compare, 2, _ORDERED_TYPES),
    "<=": _Operator(_build_compare, 2, _ORDERED_TYPES),
    ">": _Operator(_build_compare, 2, _ORDERED_TYPES),
    ">=": _Operator(_build_compare, 2, _ORDERED_TYPES),
    "BETWEEN": _Operator(_build_between, 3, _ORDERED_TYPES),
    "IN": _Operator(_build_in, 0),
    "attribute_exists": _Operator(_build_attribute_exists, 1),
    "attribute_not_exists": _Operator(_build_attribute_not_exists, 1),
    "attribute_type": _Operator(_build_attribute_type, 2),
    "begins_with": _Operator(_build_begins_with, 2, _STRING_TYPES),
    "contains": _Operator(_build_contains, 2),
    "size": _Operator(_build_size, 1, _SIZED_TYPES),
    "NOT": _Operator(_build_not, 1),
    "AND": _Operator(_build_and, 2),
    "OR": _Operator(_build_or, 2),
    "if_not_exists": _Operator(_build_if_not_exists, 2),
    "list_append": _Operator(_build_list_append, 2, _LIST_TYPES, can_repeat=True),
    "+": _Operator(_build_plus, 2, _NUMBER_TYPES, can_repeat=True),
    "-": _Operator(_build_minus, 2, _NUMBER_TYPES, can_repeat=True),
}


# --- actions ------------------------------------------------------------------------------------------------


def _bind_set(path: Path, steps: tuple[Instruction, ...], binder: _Binder) -> nodes.SetAction:
    """Build the SET action of a path from the instructions for its value."""
    return nodes.SetAction(path, binder.run(steps))


def _bind_remove(path: Path, steps: tuple[Instruction, ...], binder: _Binder) -> nodes.RemoveAction:
    """Build the REMOVE action. It has no value, so `steps` and `binder` are unused."""
    return nodes.RemoveAction(path)


def _bind_add(path: Path, steps: tuple[Instruction, ...], binder: _Binder) -> nodes.AddAction:
    """Build the ADD action. Raise `ExpressionError` unless its value is a number or a set."""
    operand: Literal = binder.run(steps)
    _check_action_type("ADD", operand, _ADDABLE_TYPES)
    return nodes.AddAction(path, operand.value)


def _bind_delete(path: Path, steps: tuple[Instruction, ...], binder: _Binder) -> nodes.DeleteAction:
    """Build the DELETE action. Raise `ExpressionError` unless its value is a set."""
    operand: Literal = binder.run(steps)
    _check_action_type("DELETE", operand, _SET_TYPES)
    return nodes.DeleteAction(path, operand.value)


def _check_action_type(action: str, operand: Literal, allowed: frozenset[str]) -> None:
    """Raise `ExpressionError` if the value of an ADD or DELETE action is not of an allowed type."""
    tag = get_type_tag(operand.value)
    if tag not in allowed:
        raise build_expression_error(
            "Incorrect operand type for operator or function",
            operator=action,
            operand_type=_ACTION_TYPE_NAMES[tag],
        )


_ACTION_BINDERS: Final[dict[str, Callable[[Path, tuple[Instruction, ...], _Binder], Any]]] = {
    "SET": _bind_set,
    "REMOVE": _bind_remove,
    "ADD": _bind_add,
    "DELETE": _bind_delete,
}
