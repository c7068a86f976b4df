"""The grammars of conditions, updates and projections: parse text into a template with unbound placeholders.

A template depends on the text alone, so templates are cached: the same few texts come with every request.
Long texts are not cached, so that a stream of them cannot fill the memory. `binder.py` binds a template to
the names and values of one request. Invalid text raises `ExpressionError`.

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

from holdfast.core.limits import MAX_EXPRESSION_BYTES
from holdfast.operations.expressions.errors import build_expression_error
from holdfast.operations.expressions.nodes import Condition, Path
from holdfast.operations.expressions.token_reader import Instruction, TokenReader

MAX_TEMPLATES: Final = 1024
MAX_CACHED_TEXT_CHARACTERS: Final = 512

_COMPARATORS: Final = frozenset(("=", "<>", "<", "<=", ">", ">="))
_PRECEDENCE: Final = {"OR": 1, "AND": 2, "NOT": 3}
_SECTIONS: Final = frozenset(("SET", "REMOVE", "ADD", "DELETE"))


_Template = TypeVar("_Template")


class ConditionTemplate:
    """A parsed condition. One without placeholders means the same in every request: `bound_condition` caches
    its nodes.
    """

    __slots__ = ("bound_condition", "is_constant", "instructions")

    def __init__(self, instructions: list[Instruction]) -> None:
        self.instructions = tuple(instructions)
        self.is_constant = not any(map(_has_placeholder, instructions))
        self.bound_condition: Condition | None = None


def _has_placeholder(instruction: Instruction) -> bool:
    """Return whether the instruction uses a `#name` or a `:value` placeholder."""
    if instruction.operation == "path":
        return any(str(element).startswith("#") for element in instruction.argument.elements)
    return instruction.operation == "value"


class UpdateActionTemplate(NamedTuple):
    """One action of an update: its section (SET, REMOVE, ADD or DELETE), its path, and the instructions for
    its value.
    """

    section: str
    path: Path
    instructions: tuple[Instruction, ...]


def _cache_templates(parse: Callable[[str], _Template]) -> Callable[[str], _Template]:
    """Decorate a parser so that the templates of short texts are cached; a long text is parsed each time."""
    cached = lru_cache(maxsize=MAX_TEMPLATES)(parse)

    def template(text: str) -> _Template:
        return cached(text) if len(text) <= MAX_CACHED_TEXT_CHARACTERS else parse(text)

    return template


@_cache_templates
def parse_condition_template(text: str) -> ConditionTemplate:
    """Parse the text of a condition into a template."""
    _check_size(text, {"expression_size": len(text)})
    reader = TokenReader(text, "condition")
    _read_condition(reader)
    reader.finish()
    return ConditionTemplate(reader.instructions)


@_cache_templates
def parse_update_template(text: str) -> tuple[UpdateActionTemplate, ...]:
    """Parse the text of an update into its actions, in the order of the text."""
    _check_size(text, {})
    reader = TokenReader(text, "update")
    actions = _read_sections(reader)
    reader.finish()
    return tuple(actions)


@_cache_templates
def parse_projection_template(text: str) -> tuple[Path, ...]:
    """Parse the text of a projection into its paths, in the order of the text."""
    _check_size(text, {})
    reader = TokenReader(text, "projection")
    paths = [reader.read_path()]
    while reader.accept(","):
        paths.append(reader.read_path())
    reader.finish()
    return tuple(paths)


def _check_size(text: str, details: dict[str, object]) -> None:
    """Raise `ExpressionError` for an empty or too long text; `details` are appended to the second error."""
    if not text:
        raise build_expression_error("The expression can not be empty")
    if len(text) > MAX_EXPRESSION_BYTES:
        raise build_expression_error("Expression size has exceeded the maximum allowed size", **details)


# --- conditions ---------------------------------------------------------------------------------------------


def _read_condition(reader: TokenReader) -> None:
    """Parse a whole condition by operator precedence, with an explicit stack of pending operators and
    positions of open groups.
    """
    waiting: list[str | int] = []
    while True:
        opened = _read_prefixes(reader, waiting)
        _read_simple_condition(reader, waiting, opened)
        if not _read_continuation(reader, waiting):
            return


def _read_prefixes(reader: TokenReader, pending: list[str | int]) -> int:
    """Read NOTs and opening parentheses before a condition and push them on `pending`. Return the number of
    parentheses directly before the condition's start.
    """
    opened = 0
    while True:
        if reader.peek().key == "(":
            pending.append(reader.position)
            opened += 1
        elif reader.peek().key == "NOT":
            pending.append("NOT")
            opened = 0
        else:
            return opened
        reader.position += 1


def _read_simple_condition(reader: TokenReader, pending: list[str | int], opened: int) -> None:
    """Read one condition. Only the token after the operand shows whether the parentheses before it enclose
    the operand or the condition.
    """
    reader.is_undecided = True
    function = reader.read_atom()
    closed = _read_closing(reader, opened)
    if reader.peek().key in _COMPARATORS or reader.peek().key in ("IN", "BETWEEN"):
        reader.resolve_kind(closed)
        del pending[len(pending) - closed :]
        if function is not None:
            reader.check_function(function, is_nested=True)
        _read_comparison(reader)
    elif function is not None and (closed == opened or reader.peek().key in _PRECEDENCE):
        reader.resolve_kind()
        reader.check_function(function, is_nested=False)
        reader.position -= closed  # these parentheses close groups
    else:
        reader.raise_syntax_error()


def _read_closing(reader: TokenReader, maximum: int) -> int:
    """Read at most `maximum` closing parentheses and return how many there were."""
    closed = 0
    while closed < maximum and reader.accept(")"):
        closed += 1
    return closed


def _read_comparison(reader: TokenReader) -> None:
    """Read the rest of a condition whose first operand has been read."""
    operator = reader.peek().key
    reader.position += 1
    if operator == "IN":
        reader.expect("(")
        choices = _read_operands(reader)
        reader.expect(")")
        reader.instructions.append(Instruction("IN", 1 + choices))
    elif operator == "BETWEEN":
        reader.read_operand()
        reader.expect("AND")
        reader.read_operand()
        reader.instructions.append(Instruction("BETWEEN"))
    else:
        reader.read_operand()
        reader.instructions.append(Instruction(operator))


def _read_operands(reader: TokenReader) -> int:
    """Read operands separated by commas and return how many there were."""
    reader.read_operand()
    count = 1
    while reader.accept(","):
        reader.read_operand()
        count += 1
    return count


def _read_continuation(reader: TokenReader, pending: list[str | int]) -> bool:
    """Close groups after a condition. Return whether AND or OR and another condition follow."""
    group: tuple[int, int] | None = None
    while reader.peek().key == ")" and _emit_operators(reader, pending, 0):
        opening = pending.pop()
        if group == (opening + 1, reader.position - 1):  # type: ignore[operator]
            reader.report_redundant_parentheses()
        group = (opening, reader.position)  # type: ignore[assignment]
        reader.position += 1
    operator = reader.peek().key
    if operator in ("AND", "OR"):
        _emit_operators(reader, pending, _PRECEDENCE[operator])
        pending.append(operator)
        reader.position += 1
        return True
    if _emit_operators(reader, pending, 0) or reader.peek().kind != "end":
        reader.raise_syntax_error()
    return False


def _emit_operators(reader: TokenReader, pending: list[str | int], precedence: int) -> bool:
    """Append the pending operators of at least this precedence to the instructions. Return whether an open
    group is then on top.
    """
    while pending:
        operator = pending[-1]
        if isinstance(operator, int):
            return True
        if _PRECEDENCE[operator] < precedence:
            return False
        reader.instructions.append(Instruction(operator))
        pending.pop()
    return False


# --- updates ------------------------------------------------------------------------------------------------


def _read_sections(reader: TokenReader) -> list[UpdateActionTemplate]:
    """Read all sections of an update. A section that occurs twice is a deferred error."""
    actions: list[UpdateActionTemplate] = []
    seen: set[str] = set()
    while not seen or reader.peek().key in _SECTIONS:
        section = reader.peek().key
        if section not in _SECTIONS:
            reader.raise_syntax_error()
        reader.position += 1
        actions.append(_read_action(reader, section))
        while reader.accept(","):
            actions.append(_read_action(reader, section))
        if section in seen:
            error = build_expression_error(
                f'The "{section}" section can only be used once in an update expression'
            )
            reader.deferred_errors.append((reader.position, error))
        seen.add(section)
    return actions


def _read_action(reader: TokenReader, section: str) -> UpdateActionTemplate:
    """Read one action of a section: its path and, except for REMOVE, the instructions for its value."""
    reader.instructions = []
    path = reader.read_path()
    if section == "SET":
        reader.expect("=")
        _read_set_value(reader)
    elif section != "REMOVE":
        reader.read_value()
    return UpdateActionTemplate(section, path, tuple(reader.instructions))


def _read_set_value(reader: TokenReader) -> None:
    """Read the value of a SET. Only the token after the operand shows whether the parentheses before it
    enclose the operand or a sum.
    """
    opened = reader.read_opening()
    reader.is_undecided = True
    function = reader.read_atom()
    closed = _read_closing(reader, opened)
    operator = reader.peek().key
    if operator in ("+", "-"):
        reader.resolve_kind(closed)
        reader.position += 1
        reader.read_operand()
        reader.read_closing(opened - closed)
        reader.instructions.append(Instruction(operator))
    elif closed == opened:
        reader.resolve_kind(closed)
    else:
        reader.raise_syntax_error()
    if function is not None:
        reader.check_function(function, is_nested=operator in ("+", "-"))
