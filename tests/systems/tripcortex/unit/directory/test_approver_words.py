"""Tests of the words with which policies name approvers."""

from __future__ import annotations

import pytest

from tests.cases import all_cases
from tripcortex.directory.approver_words import (
    DEFAULT_LEVELS,
    Meaning,
    find_meanings,
    parse_levels,
    parse_meaning,
    parse_words,
    rank_level,
    rank_wanted_level,
    split_alternatives,
)

LEVELS = parse_levels(DEFAULT_LEVELS)


@all_cases(
    ("word", "kind", "value"),
    [
        ("L1 manager", "manager", "1"),
        ("L1 approval", "manager", "1"),
        ("your line manager", "manager", "1"),
        ("line-manager", "manager", "1"),
        ("the traveller's manager", "manager", "1"),
        ("One-up manager", "manager", "1"),
        ("your manager's manager", "manager", "2"),
        ("Direct Supervisor", "manager", "1"),
        ("L2", "manager", "2"),
        ("Skip-level manager", "manager", "2"),
        ("L3+", "level", "l3"),
        ("VP (L3+)", "level", "l3"),
        ("VP or above", "level", "vp"),
        ("Level 4 and above", "level", "level 4"),
        ("Grade 7", "level", "grade 7"),
        ("Finance", "role", "finance"),
        ("Travel Desk", "role", "travel desk"),
        ("CFO", "role", "cfo"),
        ("Board", "role", "board"),
        ("Department head", "department-head", ""),
        ("the Head of Department", "department-head", ""),
    ],
)
def test_understands_the_usual_words(word: str, kind: str, value: str) -> None:
    assert find_meanings(word, {})[0] == (kind, value)


def test_a_title_may_be_a_role_or_a_level() -> None:
    assert find_meanings("VP", {}) == (Meaning("role", "vp"), Meaning("level", "vp"))
    assert find_meanings("Finance team", {})[:2] == (
        Meaning("role", "finance team"),
        Meaning("role", "finance"),
    )


def test_companys_own_words_win() -> None:
    words = parse_words("L1 = level:5; Finance=role:controlling; Budget owner approval = department-head")
    assert find_meanings("L1 approval", words) == (Meaning("level", "5"),)
    assert find_meanings("the finance", words) == (Meaning("role", "controlling"),)
    assert find_meanings("Budget Owner", words) == (Meaning("department-head"),)
    assert find_meanings("L1 manager", words) == (Meaning("manager", "1"),)


@all_cases(
    ("level", "rank"),
    [
        ("L3", 3),
        ("3", 3),
        ("Level 12", 12),
        ("Grade 7", 7),
        ("VP", 3),
        ("Senior Vice President, Sales", 4),
        ("Vice President", 3),
        ("Director of Sales", 2),
        ("CFO", 5),
        ("Chief People Officer", 5),
        ("Account Executive", None),
        ("Engineer", None),
        ("", None),
        (None, None),
    ],
)
def test_levels_are_numbers(level: str | None, rank: int | None) -> None:
    assert rank_level(level, LEVELS) == rank


@all_cases(
    ("wanted", "rank"),
    [
        ("vp", 3),
        ("L3", 3),
        ("Regional Director", 2),
        ("Director of your department", None),
        ("Senior Vice President", 4),
        ("VP of Finance", None),
        ("Vice President, Finance", None),
        ("CFO", None),
        ("Chief Financial Officer", None),
        ("Finance", None),
    ],
)
def test_title_of_another_function_is_no_level(wanted: str, rank: int | None) -> None:
    assert rank_wanted_level(wanted, LEVELS) == rank


@all_cases(
    ("word", "alternatives"),
    [
        ("CFO or COO", ("CFO", "COO")),
        ("VP or above", ("VP or above",)),
        ("Finance / Legal", ("Finance", "Legal")),
        ("Director", ("Director",)),
    ],
)
def test_alternatives_are_decided_by_any_one(word: str, alternatives: tuple[str, ...]) -> None:
    assert split_alternatives(word) == alternatives


@all_cases("text", ["manager", "manager:0", "manager:x", "role:", "department-head:x", "boss:1", ""])
def test_rejects_an_invalid_meaning(text: str) -> None:
    with pytest.raises(ValueError, match="expected manager:1"):
        parse_meaning(text)


@all_cases("text", ["vp", "vp=high", "=3"])
def test_rejects_invalid_levels(text: str) -> None:
    with pytest.raises(ValueError, match="expected title=number"):
        parse_levels(text)
