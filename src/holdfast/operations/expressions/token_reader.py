"""The token reader that the grammars share: it reads paths, values and function calls.

The reader writes instructions in postfix order: operands before the operator. Building and running a list of
instructions needs no recursion, however deep the expression nests, and running it visits the expression in
the order in which DynamoDB checks it.

DynamoDB's parser reports the first token that cannot continue the expression. Only if the whole text is well
formed does it check names and functions, in the order of the text: `deferred_errors` collects those errors.
"""

from __future__ import annotations

from typing import Any, Final, Literal, NamedTuple, NoReturn, TypeAlias

from holdfast.operations.expressions.errors import ExpressionError, build_expression_error
from holdfast.operations.expressions.lexer import END_TEXT, Token, quote_context, tokenize
from holdfast.operations.expressions.nodes import Path
from holdfast.operations.expressions.reserved_words import is_reserved

MAX_LIST_INDEX: Final = 2**31 - 1

CONDITION_FUNCTIONS: Final = frozenset(
    ("attribute_exists", "attribute_not_exists", "attribute_type", "begins_with", "contains", "size")
)
VALUE_FUNCTIONS: Final = frozenset(("if_not_exists", "list_append"))

Grammar: TypeAlias = Literal["condition", "update", "projection"]


class Instruction(NamedTuple):
    """One instruction of an expression in postfix order. `operation` names an operator of `binder.py`, "path"
    or "value"; `argument` is the path, the value's placeholder, or the number of operands.
    """

    operation: str
    argument: Any = None


class TokenReader:
    """A cursor over the tokens of one expression, which writes its instructions."""

    def __init__(self, text: str, grammar: Grammar) -> None:
        self.text = text
        self.grammar = grammar
        self.tokens = tokenize(text)
        self.position = 0
        self.instructions: list[Instruction] = []
        self.deferred_errors: list[tuple[int, ExpressionError]] = []
        # While the reader does not know whether it reads an operand or a condition, it only notes redundant
        # parentheses: a token that fits neither takes precedence as the error.
        self.is_undecided = False
        self.has_redundant_parentheses = False

    # --- the cursor ---

    def peek(self) -> Token:
        """Return the current token without stepping over it."""
        return self.tokens[self.position]

    def accept(self, key: str) -> bool:
        """Step over the current token if it has this key. Return whether it did."""
        if self.tokens[self.position].key != key:
            return False
        self.position += 1
        return True

    def expect(self, key: str) -> None:
        """Step over the current token, or raise a syntax error if it has another key."""
        if not self.accept(key):
            self.raise_syntax_error()

    def raise_syntax_error(self) -> NoReturn:
        """Raise DynamoDB's syntax error for the current token."""
        text = self.peek().text or END_TEXT
        raise build_expression_error(
            "Syntax error",
            token=f'"{text}"',
            near=f'"{quote_context(self.text, self.tokens, self.position)}"',
        )

    def finish(self) -> None:
        """Require the end of the text, then raise the deferred error that comes first in the text, if there
        is one.
        """
        if self.peek().kind != "end":
            self.raise_syntax_error()
        if self.deferred_errors:
            raise min(self.deferred_errors, key=lambda fault: fault[0])[1]

    # --- parentheses ---

    def read_opening(self) -> int:
        """Step over opening parentheses and return how many there were."""
        start = self.position
        while self.accept("("):
            pass
        return self.position - start

    def read_closing(self, count: int) -> None:
        """Require this many closing parentheses. The second one makes the parentheses redundant."""
        for closed in range(count):
            self.expect(")")
            if closed == 1:
                self.report_redundant_parentheses()

    def report_redundant_parentheses(self) -> None:
        """Raise for redundant parentheses, or note them while the kind of expression is unknown."""
        self.has_redundant_parentheses = True
        if not self.is_undecided:
            raise build_expression_error("The expression has redundant parentheses")

    def resolve_kind(self, parentheses: int = 0) -> None:
        """Record that the kind of expression is now known, with this number of parentheses around it."""
        self.is_undecided = False
        if self.has_redundant_parentheses or parentheses > 1:
            self.report_redundant_parentheses()

    # --- operands ---

    def read_operand(self) -> None:
        """Read one operand, with or without parentheses around it, and append its instructions."""
        parentheses = self.read_opening()
        function = self.read_atom()
        self.read_closing(parentheses)
        if function is not None:
            self.check_function(function, is_nested=True)

    def read_atom(self) -> int | None:
        """Read a path, a value or a call and append its instructions. Return the position of a call, so that
        the caller can check it once its role is known; None for a path or value.
        """
        calls: list[_Call] = []
        while True:
            parentheses = self.read_opening() if calls else 0
            if self.peek().kind == "word" and self.tokens[self.position + 1].key == "(":
                calls.append(self._open_call(parentheses, is_nested=bool(calls)))
                continue
            self._read_leaf()
            if not calls:
                return None
            function = self._close_calls(calls, parentheses)
            if function is not None:
                return function

    def _open_call(self, parentheses: int, *, is_nested: bool) -> _Call:
        """Step over a function name and its parenthesis; `parentheses` is the number around the call."""
        if is_nested:
            self.check_function(self.position, is_nested=True)
        call = _Call(self.position, self.peek().text, parentheses)
        self.position += 2
        return call

    def _close_calls(self, calls: list[_Call], parentheses: int) -> int | None:
        """Continue with the next argument or close calls. Return the position of the outermost call once it
        is closed, None if another argument follows.
        """
        while True:
            self.read_closing(parentheses)
            call = calls[-1]
            call.arguments += 1
            if self.accept(","):
                return None
            self.expect(")")
            self.instructions.append(Instruction(call.name, call.arguments))
            calls.pop()
            if not calls:
                return call.position
            parentheses = call.parentheses

    def _read_leaf(self) -> None:
        """Read a value or a path and append its instruction."""
        if self.peek().kind == "value":
            self.read_value()
        else:
            self.instructions.append(Instruction("path", self.read_path()))

    def read_value(self) -> None:
        """Read a `:value` placeholder and append its instruction."""
        token = self.peek()
        if token.kind != "value":
            self.raise_syntax_error()
        self.position += 1
        self.instructions.append(Instruction("value", token.text))

    def read_path(self) -> Path:
        """Read a path as written. A name placeholder keeps its `#`, which no plain name can begin with."""
        root = self._read_identifier()
        steps: list[str | int] = []
        while True:
            if self.accept("."):
                steps.append(self._read_identifier())
            elif self.accept("["):
                steps.append(self._read_index())
            else:
                return Path(root, tuple(steps))

    def _read_identifier(self) -> str:
        """Read a name or a `#name`. A reserved word is a deferred error."""
        token = self.peek()
        if token.kind not in ("word", "name"):
            self.raise_syntax_error()
        if token.kind == "word" and is_reserved(token.text):
            self._defer_error(
                build_expression_error("Attribute name is a reserved keyword", reserved_keyword=token.text)
            )
        self.position += 1
        return token.text

    def _read_index(self) -> int:
        """Read a list index and its closing bracket. An index out of range is a deferred error."""
        token = self.peek()
        if token.kind != "index":
            self.raise_syntax_error()
        if int(token.text) > MAX_LIST_INDEX:
            self._defer_error(
                build_expression_error(
                    "List index is not within the allowable range", index=f"[{token.text}]"
                )
            )
        self.position += 1
        self.expect("]")
        return int(token.text)

    # --- functions ---

    def check_function(self, position: int, *, is_nested: bool) -> None:
        """Defer an error if the function at this position may not be used here. `is_nested`: the call is an
        operand, not a condition or value by itself.
        """
        name = self.tokens[position].text
        reason = self._find_misuse(name, is_nested=is_nested)
        if reason:
            self._defer_error(build_expression_error(reason, function=name), position)

    def _find_misuse(self, name: str, *, is_nested: bool) -> str | None:
        """Return DynamoDB's reason why the function may not be used here, or None."""
        if name not in CONDITION_FUNCTIONS and name not in VALUE_FUNCTIONS:
            return "Invalid function name"
        if self.grammar == "condition":
            if name in VALUE_FUNCTIONS:
                return "The function is not allowed in a condition expression"
            misplaced = is_nested != (name == "size")
        else:
            if name in CONDITION_FUNCTIONS:
                return "The function is not allowed in an update expression"
            misplaced = is_nested and name != "if_not_exists"
        return "The function is not allowed to be used this way in an expression" if misplaced else None

    def _defer_error(self, error: ExpressionError, position: int | None = None) -> None:
        """Record an error at a position (None: the current one), to be raised by `finish`."""
        self.deferred_errors.append((self.position if position is None else position, error))


class _Call:
    """A call whose arguments are being read: its position, and the number of parentheses around it."""

    __slots__ = ("arguments", "position", "name", "parentheses")

    def __init__(self, position: int, name: str, parentheses: int) -> None:
        self.position, self.name, self.parentheses = position, name, parentheses
        self.arguments = 0
