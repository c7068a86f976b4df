"""Tests of the accuracy measurement: which passages count as right, and which headings as the same."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tripcortex.policies.accuracy import is_quoted, is_same_section

TABLE = "Caps in USD\n\n| Route | Cap |\n| --- | --- |\n| Domestic | $400 |"


@pytest.mark.parametrize(
    ("quote", "passage", "is_right"),
    [
        ("Domestic $400", TABLE, True),
        ("Route Cap Domestic", TABLE, True),
        ("Domestic $900", TABLE, False),
        ("Domestic $400", "Route: Domestic; Cap: $400", True),
        ("book early and cheap", "- book early\n  and cheap", True),
        ("the traveller's own", "the traveller’s  own", True),
        ("Economy only", "economy is the rule", False),
    ],
)
def test_compares_words_and_cells(quote: str, passage: str, *, is_right: bool) -> None:
    assert is_quoted(quote, passage) is is_right


def test_headings_are_compared_without_their_numbers() -> None:
    assert is_same_section("4.2 Cabin class", "Cabin Class")
    assert is_same_section("Cabin class", "SECTION C. CABIN CLASS")
    assert not is_same_section("Cabin class", "Hotels")
    assert not is_same_section("Cabin class", None)


def test_prints_only_counts_unless_failures_are_listed(tmp_path: Path) -> None:
    (tmp_path / "policy.md").write_text("# Travel\n\n## Hotels\n\nA room costs at most 200 USD a night.\n")
    asked = [
        {"question": "What may a hotel cost?", "answer_quotes": ["at most 200 USD"], "section": "Hotels"},
        {"question": "What may a train cost?", "answer_quotes": ["second class"], "section": "Trains"},
    ]
    (tmp_path / "questions.json").write_text(json.dumps(asked))

    def run(*options: str) -> str:
        command = [sys.executable, "-m", "tripcortex.policies.accuracy", str(tmp_path), *options]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=100).stdout

    assert "top five 1 of 2, section 1, page 1" in run() and "train" not in run()
    assert "not found: What may a train cost?" in run("--list")
