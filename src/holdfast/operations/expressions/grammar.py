"""The grammars of conditions, updates and projections: parse text into a template, whose placeholders are
still unbound.

A template depends on the text alone, so templates are cached: the same few texts come with every request.
Long texts are not cached, so that a stream of them cannot fill the memory. `bind.py` binds a template to the
names and values of one request.

    condition   condition AND|OR condition, NOT condition, ( condition ), function,
                operand comparator operand, operand BETWEEN operand AND operand, operand IN (operand, …)
    update      SET path = value, … REMOVE path, … ADD path :value, … DELETE path :value, …
    value       operand, operand + operand, operand - operand, ( value )
    operand     path, :value, function(operand, …), ( operand )
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final, NamedTuple, TypeVar

from holdfast.core.limits import EXPRESSION_BYTES_MAX
from holdfast.operations.expressions.nodes import Condition, Path
from holdfast.operations.expressions.reader import Reader, Step
from holdfast.operations.expressions.refusal import refusal

TEMPLATES_MAX: Final = 1024
KEPT_TEXT_CHARACTERS_MAX: Final = 512

_COMPARATORS: Final = frozenset(("=", "<>", "<", "<=", ">", ">="))
_PRECEDENCE: Final = {"OR": 1, "AND": 2, "NOT": 3}
_SECTIONS: Final = frozenset(("SET", "REMOVE", "ADD", "DELETE"))


_Template = TypeVar("_Template")


class ConditionTemplate:
    """A parsed condition. One without placeholders means the same in every request: `bound` caches its
    nodes.
    """

    __slots__ = ("bound", "is_closed", "steps")

    def __init__(self, steps: list[Step]) -> None:
        self.steps = tuple(steps)
        self.is_closed = not any(map(_is_open, steps))
        self.bound: Condition | None = None


def _is_open(step: Step) -> bool:
    if step.operation == "path":
        return any(str(element).startswith("#") for element in step.argument.elements)
    return step.operation == "value"


class ActionTemplate(NamedTuple):
    section: str
    path: Path
    steps: tuple[Step, ...]


def _kept(read: Callable[[str], _Template]) -> Callable[[str], _Template]:
    keep = lru_cache(maxsize=TEMPLATES_MAX)(read)

    def template(text: str) -> _Template:
        return keep(text) if len(text) <= KEPT_TEXT_CHARACTERS_MAX else read(text)

    return template


@_kept
def condition_template(text: str) -> ConditionTemplate:
    _check_size(text, {"expression_size": len(text)})
    reader = Reader(text, "condition")
    _condition(reader)
    reader.finish()
    return ConditionTemplate(reader.steps)


@_kept
def update_template(text: str) -> tuple[ActionTemplate, ...]:
    _check_size(text, {})
    reader = Reader(text, "update")
    actions = _sections(reader)
    reader.finish()
    return tuple(actions)


@_kept
def projection_template(text: str) -> tuple[Path, ...]:
    _check_size(text, {})
    reader = Reader(text, "projection")
    paths = [reader.path()]
    while reader.accept(","):
        paths.append(reader.path())
    reader.finish()
    return tuple(paths)


def _check_size(text: str, details: dict[str, object]) -> None:
    if not text:
        raise refusal("The expression can not be empty")
    if len(text) > EXPRESSION_BYTES_MAX:
        raise refusal("Expression size has exceeded the maximum allowed size", **details)


# --- conditions ---------------------------------------------------------------------------------------------


def _condition(reader: Reader) -> None:
    """Parse by operator precedence with an explicit stack of pending operators and positions of open
    groups.
    """
    waiting: list[str | int] = []
    while True:
        opened = _prefixes(reader, waiting)
        _simple_condition(reader, waiting, opened)
        if not _continues(reader, waiting):
            return


def _prefixes(reader: Reader, waiting: list[str | int]) -> int:
    """Read NOTs and parentheses before a condition. Return the number of parentheses directly before its
    start.
    """
    opened = 0
    while True:
        if reader.peek().key == "(":
            waiting.append(reader.at)
            opened += 1
        elif reader.peek().key == "NOT":
            waiting.append("NOT")
            opened = 0
        else:
            return opened
        reader.at += 1


def _simple_condition(reader: Reader, waiting: list[str | int], opened: int) -> None:
    """Read one condition. Only the token after the operand shows whether the parentheses before it enclose
    the operand or the condition.
    """
    reader.undecided = True
    function = reader.atom()
    closed = _count_closed(reader, opened)
    if reader.peek().key in _COMPARATORS or reader.peek().key in ("IN", "BETWEEN"):
        reader.decide(closed)
        del waiting[len(waiting) - closed :]
        if function is not None:
            reader.check_function(function, nested=True)
        _comparison(reader)
    elif function is not None and (closed == opened or reader.peek().key in _PRECEDENCE):
        reader.decide()
        reader.check_function(function, nested=False)
        reader.at -= closed  # these parentheses close groups
    else:
        reader.refuse()


def _count_closed(reader: Reader, most: int) -> int:
    closed = 0
    while closed < most and reader.accept(")"):
        closed += 1
    return closed


def _comparison(reader: Reader) -> None:
    """Read the rest of a condition whose first operand has been read."""
    operator = reader.peek().key
    reader.at += 1
    if operator == "IN":
        reader.expect("(")
        choices = _operands(reader)
        reader.expect(")")
        reader.steps.append(Step("IN", 1 + choices))
    elif operator == "BETWEEN":
        reader.operand()
        reader.expect("AND")
        reader.operand()
        reader.steps.append(Step("BETWEEN"))
    else:
        reader.operand()
        reader.steps.append(Step(operator))


def _operands(reader: Reader) -> int:
    reader.operand()
    count = 1
    while reader.accept(","):
        reader.operand()
        count += 1
    return count


def _continues(reader: Reader, waiting: list[str | int]) -> bool:
    """Close groups after a condition. Return whether AND or OR and another condition follow."""
    group: tuple[int, int] | None = None
    while reader.peek().key == ")" and _reduce(reader, waiting, 0):
        opening = waiting.pop()
        if group == (opening + 1, reader.at - 1):  # type: ignore[operator]
            reader.found_redundant()
        group = (opening, reader.at)  # type: ignore[assignment]
        reader.at += 1
    operator = reader.peek().key
    if operator in ("AND", "OR"):
        _reduce(reader, waiting, _PRECEDENCE[operator])
        waiting.append(operator)
        reader.at += 1
        return True
    if _reduce(reader, waiting, 0) or reader.peek().kind != "end":
        reader.refuse()
    return False


def _reduce(reader: Reader, waiting: list[str | int], precedence: int) -> bool:
    """Write the pending operators of at least this precedence. Return whether an open group is then on
    top.
    """
    while waiting:
        operator = waiting[-1]
        if isinstance(operator, int):
            return True
        if _PRECEDENCE[operator] < precedence:
            return False
        reader.steps.append(Step(operator))
        waiting.pop()
    return False


# --- updates ------------------------------------------------------------------------------------------------


def _sections(reader: Reader) -> list[ActionTemplate]:
    actions: list[ActionTemplate] = []
    seen: set[str] = set()
    while not seen or reader.peek().key in _SECTIONS:
        section = reader.peek().key
        if section not in _SECTIONS:
            reader.refuse()
        reader.at += 1
        actions.append(_action(reader, section))
        while reader.accept(","):
            actions.append(_action(reader, section))
        if section in seen:
            once = refusal(f'The "{section}" section can only be used once in an update expression')
            reader.faults.append((reader.at, once))
        seen.add(section)
    return actions


def _action(reader: Reader, section: str) -> ActionTemplate:
    reader.steps = []
    path = reader.path()
    if section == "SET":
        reader.expect("=")
        _set_value(reader)
    elif section != "REMOVE":
        reader.value()
    return ActionTemplate(section, path, tuple(reader.steps))


def _set_value(reader: Reader) -> None:
    """Read the value of a SET. Only the token after the operand shows whether the parentheses before it
    enclose the operand or a sum.
    """
    opened = reader.count_open()
    reader.undecided = True
    function = reader.atom()
    closed = _count_closed(reader, opened)
    operator = reader.peek().key
    if operator in ("+", "-"):
        reader.decide(closed)
        reader.at += 1
        reader.operand()
        reader.close_all(opened - closed)
        reader.steps.append(Step(operator))
    elif closed == opened:
        reader.decide(closed)
    else:
        reader.refuse()
    if function is not None:
        reader.check_function(function, nested=operator in ("+", "-"))
