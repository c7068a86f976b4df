"""Untrusted text for a terminal: control characters are escaped, other text is unchanged."""

from __future__ import annotations

import sys
import unicodedata

import pytest

from holdfast.core.terminal import escape_control_chars


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]0;pwned\x07\x1b[2J\x1b[31mhi", r"\x1b]0;pwned\x07\x1b[2J\x1b[31mhi"),
        ("one\rtwo\bthree\x7f", r"one\x0dtwo\x08three\x7f"),
        ("\x9b2J", r"\x9b2J"),
        ("invoice\u202efdp.exe\u2066", r"invoice\u202efdp.exe\u2066"),
        ("half \ud800 a pair", r"half \ud800 a pair"),
    ],
)
def test_control_sequences_are_escaped(text: str, shown: str) -> None:
    assert escape_control_chars(text) == shown


@pytest.mark.parametrize("text", ["a\tb\nc", "Grüße, 中文, שלום", "👩\u200d🚀", r"C:\x1b"])
def test_other_text_is_unchanged(text: str) -> None:
    assert escape_control_chars(text) == text


def test_crlf_becomes_a_line_break() -> None:
    assert escape_control_chars("Dear all,\r\nyours") == "Dear all,\nyours"


def test_only_tab_and_newline_remain_of_control_characters() -> None:
    every = "".join(map(chr, range(sys.maxunicode + 1)))

    left = {each for each in escape_control_chars(every) if unicodedata.category(each) in ("Cc", "Cs")}

    assert left == {"\t", "\n"}
