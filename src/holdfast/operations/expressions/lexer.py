"""Split text into tokens, the first step of parsing an expression.

Only nine words are keywords, in any mix of upper and lower case; every other word is an identifier. A
character that starts no token is a token by itself, so that the parser can name it in its error.
"""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple, TypeAlias

TokenKind: TypeAlias = Literal["word", "name", "value", "index", "symbol", "keyword", "unknown", "end"]

KEYWORDS: Final = frozenset(("IN", "BETWEEN", "NOT", "AND", "OR", "SET", "ADD", "DELETE", "REMOVE"))
END_TEXT: Final = "<EOF>"

_TOKEN: Final = re.compile(
    r"""
      (?P<blank>[ \t\r\n]+)
    | (?P<word>[A-Za-z][A-Za-z0-9_]*)
    | (?P<name>\#[A-Za-z0-9_]+)
    | (?P<value>:[A-Za-z0-9_]+)
    | (?P<index>0|[1-9][0-9]*)
    | (?P<symbol><>|<=|>=|[=<>()\[\].,+\-])
    | (?P<unknown>'[^']*'|"[^"]*"|.)
    """,
    re.VERBOSE | re.DOTALL,
)


class Token(NamedTuple):
    """A token. `key` is the part that the parser compares: the symbol, the keyword in capitals, or else
    empty. `text` is the token as written, from `start` to `end`.
    """

    kind: TokenKind
    key: str
    text: str
    start: int
    end: int


def tokenize(text: str) -> list[Token]:
    """Return the tokens of a text, ending with one of kind "end" after its last character."""
    tokens = []
    for match in _TOKEN.finditer(text):
        if match.lastgroup != "blank":
            tokens.append(_build_token(match))
    tokens.append(Token("end", "", "", len(text), len(text)))
    return tokens


def _build_token(match: re.Match[str]) -> Token:
    """Return the token of a match; a word that is a keyword becomes one, in capitals."""
    text = match.group()
    kind: TokenKind = match.lastgroup  # type: ignore[assignment]
    if kind == "word" and text.upper() in KEYWORDS:
        return Token("keyword", text.upper(), text, match.start(), match.end())
    return Token(kind, text if kind == "symbol" else "", text, match.start(), match.end())


def quote_context(text: str, tokens: list[Token], position: int) -> str:
    """Return the text around a token as DynamoDB quotes it: from the token before it to the one after it."""
    start = tokens[position - 1].start if position else 0
    end = tokens[position + 1].end if position + 1 < len(tokens) else tokens[position].end
    return text[start:end]
