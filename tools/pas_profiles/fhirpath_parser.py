"""Parse FHIRPath into the syntax tree that `pagw.domain.profiles.fhirpath` evaluates.

A tree is a JSON array whose first item names the kind of node, for example `["=", ["get", ["this"], "code"],
["lit", "1"]]`; `choice` is a `get` of an element such as `value[x]`. Only what FHIR's constraints use is
parsed; anything else raises `ValueError`.
"""

from __future__ import annotations

import re
from typing import Any, Final

Tree = list[Any]

_TOKEN: Final = re.compile(
    r"""\s*(?:
      (?P<string>'(?:\\.|[^'\\])*')
    | (?P<number>\d+(?:\.\d+)?)
    | (?P<name>`[^`]+`|%?[A-Za-z_][A-Za-z0-9_\-]*(?<!-)|\$this|\$index|\$total)
    | (?P<op><=|>=|!=|!~|[=~<>|&+\-*/.,()\[\]{}])
    )""",
    re.VERBOSE,
)
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}
# From the weakest to the strongest.
_BINARY: Final[tuple[frozenset[str], ...]] = (
    frozenset({"implies"}),
    frozenset({"or", "xor"}),
    frozenset({"and"}),
    frozenset({"in", "contains"}),
    frozenset({"=", "!=", "~", "!~"}),
    frozenset({"<", ">", "<=", ">="}),
    frozenset({"|"}),
    frozenset({"is", "as"}),
    frozenset({"+", "-", "&"}),
    frozenset({"*", "/", "div", "mod"}),
)
_TYPE_LEVEL: Final = 7


def parse(expression: str, choices: frozenset[str]) -> Tree:
    """Parse an expression into a tree. `choices` are the names of the elements that have several types.

    Raise `ValueError` for what this parser does not know.
    """
    parser = _Parser(_tokenize(expression), expression, choices)
    tree = parser.parse_binary(0)
    if parser.peek() is not None:
        raise ValueError(f"Invalid FHIRPath {expression!r}: unexpected {parser.peek()!r}.")
    return tree


def _tokenize(expression: str) -> list[tuple[str, str]]:
    tokens, at = [], 0
    text = expression.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ValueError(f"Invalid FHIRPath {expression!r}: unknown symbol at {at}.")
        kind = str(match.lastgroup)
        value = match[kind]
        if kind == "name" and not value.startswith(("`", "%")) and "-" in value:
            # A hyphen belongs to a name only after `%`.
            plain = _NAME.match(value)
            value = plain[0] if plain is not None else value
        tokens.append((kind, value))
        at = match.start(kind) + len(value)
    return tokens


class _Parser:
    def __init__(self, tokens: list[tuple[str, str]], expression: str, choices: frozenset[str]) -> None:
        self._tokens, self._at, self._expression, self._choices = tokens, 0, expression, choices

    def peek(self) -> str | None:
        return self._tokens[self._at][1] if self._at < len(self._tokens) else None

    def parse_binary(self, level: int) -> Tree:
        if level == len(_BINARY):
            return self._parse_unary()
        left = self.parse_binary(level + 1)
        while (operator := self.peek()) in _BINARY[level] and operator is not None:
            self._take()
            if level == _TYPE_LEVEL:
                left = [operator, left, self._parse_type()]
            else:
                left = [operator, left, self.parse_binary(level + 1)]
        return left

    def _parse_unary(self) -> Tree:
        if self.peek() in {"-", "+"}:
            sign = self._take()[1]
            tree = self._parse_postfix()
            return ["*", ["lit", -1], tree] if sign == "-" else tree
        return self._parse_postfix()

    def _parse_postfix(self) -> Tree:
        tree = self._parse_term()
        while (symbol := self.peek()) in {".", "["}:
            self._take()
            if symbol == ".":
                tree = self._parse_name(tree, is_first=False)
            else:
                tree = ["index", tree, self.parse_binary(0)]
                self._expect("]")
        return tree

    def _parse_term(self) -> Tree:
        kind, value = self._take()
        if kind == "string":
            return ["lit", re.sub(r"\\(u[0-9a-fA-F]{4}|.)", _unescape, value[1:-1])]
        if kind == "number":
            return ["lit", float(value) if "." in value else int(value)]
        if value == "(":
            tree = self.parse_binary(0)
            self._expect(")")
            return tree
        if value == "{":
            self._expect("}")
            return ["empty"]
        if kind != "name":
            raise ValueError(f"Invalid FHIRPath {self._expression!r}: unexpected {value!r}.")
        if value.startswith("%"):
            return ["var", value[1:]]
        if value in {"true", "false"}:
            return ["lit", value == "true"]
        self._at -= 1
        return self._parse_name(["this"], is_first=True)

    def _parse_name(self, base: Tree, *, is_first: bool) -> Tree:
        """Parse a member or a function call on `base`."""
        _, name = self._take()
        name = name.strip("`")
        if name in {"$this", "$index", "$total"}:
            return ["this"] if name == "$this" else ["var", name]
        if self.peek() != "(":
            # A first name with a capital is the type of the focus: `Appointment.status`.
            if is_first and name[0].isupper():
                return ["root", base, name]
            return ["choice" if name in self._choices else "get", base, name]
        self._take()
        arguments: list[Tree] = []
        if name in {"is", "as", "ofType"}:
            tree: Tree = ["is" if name == "is" else "as", base, self._parse_type()]
            self._expect(")")
            return tree
        while self.peek() != ")":
            arguments.append(self.parse_binary(0))
            if self.peek() == ",":
                self._take()
        self._expect(")")
        return ["call", base, name, *arguments]

    def _parse_type(self) -> str:
        name = self._take()[1].strip("`")
        while self.peek() == ".":
            self._take()
            name = self._take()[1].strip("`")
        return name

    def _take(self) -> tuple[str, str]:
        if self._at >= len(self._tokens):
            raise ValueError(f"Invalid FHIRPath {self._expression!r}: it ends too early.")
        self._at += 1
        return self._tokens[self._at - 1]

    def _expect(self, symbol: str) -> None:
        found = self._take()[1]
        if found != symbol:
            raise ValueError(f"Invalid FHIRPath {self._expression!r}: expected {symbol!r}, found {found!r}.")


def _unescape(match: re.Match[str]) -> str:
    escaped = match[1]
    return chr(int(escaped[1:], 16)) if len(escaped) == 5 else _ESCAPES.get(escaped, escaped)
