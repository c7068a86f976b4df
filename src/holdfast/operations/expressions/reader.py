"""The token cursor that the grammars share: it reads paths, values and function calls.

The reader writes steps in postfix order: operands before the operator. Building and running a list of steps
needs no recursion, however deep the expression nests, and running it visits the expression in the order in
which DynamoDB checks it.

DynamoDB's parser reports the first token that cannot continue the expression. Only if the whole text is well
formed does it check names and functions, in the order of the text: `faults` collects those errors.
"""

from __future__ import annotations

from typing import Any, Final, Literal, NamedTuple, NoReturn, TypeAlias

from holdfast.operations.expressions.lexer import END_TEXT, Token, near, tokenize
from holdfast.operations.expressions.nodes import Path
from holdfast.operations.expressions.refusal import Refused, refusal
from holdfast.operations.expressions.reserved import is_reserved

LIST_INDEX_MAX: Final = 2**31 - 1

CONDITION_FUNCTIONS: Final = frozenset(
    ("attribute_exists", "attribute_not_exists", "attribute_type", "begins_with", "contains", "size")
)
VALUE_FUNCTIONS: Final = frozenset(("if_not_exists", "list_append"))

Grammar: TypeAlias = Literal["condition", "update", "projection"]


class Step(NamedTuple):
    """One step of an expression in postfix order. `operation` names a binder of `bind.py`."""

    operation: str
    argument: Any = None


class Reader:
    def __init__(self, text: str, grammar: Grammar) -> None:
        self.text = text
        self.grammar = grammar
        self.tokens = tokenize(text)
        self.at = 0
        self.steps: list[Step] = []
        self.faults: list[tuple[int, Refused]] = []
        # While the reader does not know whether it reads an operand or a condition, it only notes redundant
        # parentheses: a token that fits neither takes precedence as the error.
        self.undecided = False
        self.redundant = False

    # --- the cursor ---

    def peek(self) -> Token:
        return self.tokens[self.at]

    def accept(self, key: str) -> bool:
        if self.tokens[self.at].key != key:
            return False
        self.at += 1
        return True

    def expect(self, key: str) -> None:
        if not self.accept(key):
            self.refuse()

    def refuse(self) -> NoReturn:
        text = self.peek().text or END_TEXT
        raise refusal("Syntax error", token=f'"{text}"', near=f'"{near(self.text, self.tokens, self.at)}"')

    def finish(self) -> None:
        """Require the end of the text, then raise the first collected fault."""
        if self.peek().kind != "end":
            self.refuse()
        if self.faults:
            raise min(self.faults, key=lambda fault: fault[0])[1]

    # --- parentheses ---

    def count_open(self) -> int:
        start = self.at
        while self.accept("("):
            pass
        return self.at - start

    def close_all(self, count: int) -> None:
        for closed in range(count):
            self.expect(")")
            if closed == 1:
                self.found_redundant()

    def found_redundant(self) -> None:
        self.redundant = True
        if not self.undecided:
            raise refusal("The expression has redundant parentheses")

    def decide(self, parentheses: int = 0) -> None:
        """Record that the kind of expression is now known, with this number of parentheses around it."""
        self.undecided = False
        if self.redundant or parentheses > 1:
            self.found_redundant()

    # --- operands ---

    def operand(self) -> None:
        parentheses = self.count_open()
        function = self.atom()
        self.close_all(parentheses)
        if function is not None:
            self.check_function(function, nested=True)

    def atom(self) -> int | None:
        """Read a path, a value or a call. Return the position of a call, for a check once its role is
        known.
        """
        calls: list[_Call] = []
        while True:
            parentheses = self.count_open() if calls else 0
            if self.peek().kind == "word" and self.tokens[self.at + 1].key == "(":
                calls.append(self._open_call(parentheses, nested=bool(calls)))
                continue
            self._leaf()
            if not calls:
                return None
            function = self._close_calls(calls, parentheses)
            if function is not None:
                return function

    def _open_call(self, parentheses: int, *, nested: bool) -> _Call:
        if nested:
            self.check_function(self.at, nested=True)
        call = _Call(self.at, self.peek().text, parentheses)
        self.at += 2
        return call

    def _close_calls(self, calls: list[_Call], parentheses: int) -> int | None:
        """Continue with the next argument or close calls. Return the position of the outermost call once it
        is closed.
        """
        while True:
            self.close_all(parentheses)
            call = calls[-1]
            call.arguments += 1
            if self.accept(","):
                return None
            self.expect(")")
            self.steps.append(Step(call.name, call.arguments))
            calls.pop()
            if not calls:
                return call.at
            parentheses = call.parentheses

    def _leaf(self) -> None:
        if self.peek().kind == "value":
            self.value()
        else:
            self.steps.append(Step("path", self.path()))

    def value(self) -> None:
        token = self.peek()
        if token.kind != "value":
            self.refuse()
        self.at += 1
        self.steps.append(Step("value", token.text))

    def path(self) -> Path:
        """Read a path as written. A name placeholder keeps its `#`, which no plain name can begin with."""
        root = self._identifier()
        steps: list[str | int] = []
        while True:
            if self.accept("."):
                steps.append(self._identifier())
            elif self.accept("["):
                steps.append(self._index())
            else:
                return Path(root, tuple(steps))

    def _identifier(self) -> str:
        token = self.peek()
        if token.kind not in ("word", "name"):
            self.refuse()
        if token.kind == "word" and is_reserved(token.text):
            self._fault(refusal("Attribute name is a reserved keyword", reserved_keyword=token.text))
        self.at += 1
        return token.text

    def _index(self) -> int:
        token = self.peek()
        if token.kind != "index":
            self.refuse()
        if int(token.text) > LIST_INDEX_MAX:
            self._fault(refusal("List index is not within the allowable range", index=f"[{token.text}]"))
        self.at += 1
        self.expect("]")
        return int(token.text)

    # --- functions ---

    def check_function(self, at: int, *, nested: bool) -> None:
        """Check that a function may be used here. `nested`: the call is an operand, not a condition or value
        by itself.
        """
        name = self.tokens[at].text
        reason = self._misuse(name, nested=nested)
        if reason:
            self._fault(refusal(reason, function=name), at)

    def _misuse(self, name: str, *, nested: bool) -> str | None:
        if name not in CONDITION_FUNCTIONS and name not in VALUE_FUNCTIONS:
            return "Invalid function name"
        if self.grammar == "condition":
            if name in VALUE_FUNCTIONS:
                return "The function is not allowed in a condition expression"
            misplaced = nested != (name == "size")
        else:
            if name in CONDITION_FUNCTIONS:
                return "The function is not allowed in an update expression"
            misplaced = nested and name != "if_not_exists"
        return "The function is not allowed to be used this way in an expression" if misplaced else None

    def _fault(self, fault: Refused, at: int | None = None) -> None:
        self.faults.append((self.at if at is None else at, fault))


class _Call:
    """A call whose arguments are being read: its position, and the number of parentheses around it."""

    __slots__ = ("arguments", "at", "name", "parentheses")

    def __init__(self, at: int, name: str, parentheses: int) -> None:
        self.at, self.name, self.parentheses = at, name, parentheses
        self.arguments = 0
