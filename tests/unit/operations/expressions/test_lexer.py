"""The lexer: expression text split into tokens, and the text that an error quotes around a token."""

from __future__ import annotations

import pytest

from holdfast.operations.expressions.lexer import quote_context, tokenize
from tests.cases import all_cases


@all_cases(
    ("text", "tokens"),
    [
        ("a", ["word"]),
        ("a_1.B[0]", ["word", "symbol", "word", "symbol", "index", "symbol"]),
        ("#a = :1", ["name", "symbol", "value"]),
        ("and Or nOT", ["keyword"] * 3),
        ("android", ["word"]),
        ("01", ["index", "index"]),
        ("<>=", ["symbol", "symbol"]),
        ("_a", ["unknown", "word"]),
        ("# :", ["unknown", "unknown"]),
        ("'a b' \"c\"", ["unknown", "unknown"]),
        ("é\u00a0", ["unknown", "unknown"]),
        (" \t\r\n", []),
    ],
)
def test_tokenize_returns_the_kinds_of_the_tokens(text: str, tokens: list[str]) -> None:
    assert [token.kind for token in tokenize(text)] == [*tokens, "end"]


def test_keywords_compare_in_capitals_and_keep_their_text() -> None:
    token = tokenize("bEtWeEn")[0]
    assert (token.key, token.text) == ("BETWEEN", "bEtWeEn")


@pytest.mark.parametrize(
    ("text", "at", "quoted"),
    [
        ("a  x  b", 1, "a  x  b"),
        ("  x b", 0, "  x b"),
        ("a x  ", 1, "a x  "),
        ("a = ", 2, "= "),
        (" ", 0, " "),
    ],
)
def test_near_text_spans_the_previous_and_next_token(text: str, at: int, quoted: str) -> None:
    assert quote_context(text, tokenize(text), at) == quoted
