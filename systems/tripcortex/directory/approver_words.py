"""The meaning of a policy's words for approvers: “L1 manager”, “VP (L3+)”, “Finance”, “Department head”.

What “L1 approval” means differs by company, so TRIPCORTEX_APPROVER_WORDS can give every word a meaning:

    manager:1         the first manager above the traveller; manager:2 the manager's manager
    level:3           the first manager above the traveller with at least this level; also level:VP
    role:finance      every employee with this role; any one of them decides
    department-head   the head of the traveller's department
    employee:emp-7    this employee

Levels are compared as numbers: that of L3 and Grade 3 is 3, that of a title is in TRIPCORTEX_LEVELS. Pure
functions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from tripcortex.directory.checks import normalize_role

Kind = Literal["manager", "level", "role", "department-head", "employee"]
KINDS: Final[tuple[Kind, ...]] = ("manager", "level", "role", "department-head", "employee")

DEFAULT_LEVELS: Final = "manager=1,director=2,vp=3,svp=4,c-level=5"
TRAVEL_DESK: Final = "travel desk"
DEPARTMENT_HEAD_ROLES: Final = ("department head", "head of department")

_LINE_MANAGER: Final = (
    "manager",
    "line manager",
    "direct manager",
    "reporting manager",
    "immediate manager",
    "people manager",
    "supervisor",
    "direct supervisor",
    "immediate supervisor",
    "first level manager",
    "first line manager",
    "one up",
    "one up manager",
)
_SKIP_LEVEL: Final = (
    "skip level",
    "skip level manager",
    "second level manager",
    "second line manager",
    "manager's manager",
    "two up",
    "two up manager",
)
# Words next to a title that do not make it the title of another function: "regional director".
_ADJECTIVES: Final = frozenset(
    "senior regional divisional department departmental area group managing associate deputy business unit "
    "line responsible level of".split()
)
_CHIEF: Final = re.compile(r"\bchief (?:\w+ ){1,3}officer\b")
_TITLES: Final[Mapping[str, str]] = {
    "vice president": "vp",
    "senior vice president": "svp",
    "executive vice president": "svp",
    "evp": "svp",
    "c suite": "c level",
    **dict.fromkeys(("ceo", "cfo", "coo", "cto"), "c level"),
}
# Titles of one person: another person of the same level does not stand for them.
SINGULAR_TITLES: Final = frozenset({"ceo", "cfo", "coo", "cto"})
_NOISE: Final = re.compile(
    r"^(?:the|your|his|her|their|an?|(?:employee|traveller|traveler|requester|requestor|staff member)'s)\s+"
    r"|\s+(?:approvals?|approver|sign ?off|authori[sz]ation|consent)$",
    re.I,
)
_OR_ABOVE: Final = re.compile(r"\s*(?:\+|(?:(?:or|and) )?(?:above|higher|up|more senior))\s*\)?$")
_NUMBER: Final = re.compile(r"\b(?:l|level|grade|band|tier)\s*(\d{1,2})\b")
_STEP: Final = re.compile(r"(?:l|level)\s*(\d{1,2})(?: (?:manager|approver|supervisor))?")
_PARENTHESIS: Final = re.compile(r"^(.*?)\s*\(([^)]*)\)\s*$")
_UNIT: Final = re.compile(r"\s+(?:department|team|dept|office|group|function)$")
_OR: Final = re.compile(r"\s*(?:\bor\b(?!\s+(?:above|higher|up|more senior)\b)|/)\s*", re.I)


class Meaning(NamedTuple):
    """Whom a word means. The value is a number, a level, a role or an id, by its kind."""

    kind: Kind
    value: str = ""


def parse_meaning(text: str) -> Meaning:
    """Return the meaning of a text such as `manager:1`. Raise `ValueError` if it is invalid."""
    kind, _, value = (part.strip() for part in text.partition(":"))
    for known in KINDS:
        if kind == known and bool(value) is (known != "department-head"):
            if known == "manager" and not (value.isdecimal() and int(value)):
                break
            return Meaning(known, value)
    raise ValueError(
        f"{text!r:.60} is invalid: expected manager:1, level:3, role:finance, department-head or "
        "employee:emp-7"
    )


def split_alternatives(word: str) -> tuple[str, ...]:
    """Return the approvers of “CFO or COO”, of whom any one decides; “VP or above” is one."""
    return tuple(filter(None, map(str.strip, _OR.split(word))))


def find_meanings(word: str, words: Mapping[str, Meaning]) -> tuple[Meaning, ...]:
    """Return what a word may mean, the most likely first. `words` are the company's own, normalized."""
    text = normalize_word(word)
    if text in words:
        return (words[text],)
    if found := _PARENTHESIS.match(word.strip()):
        # "VP (L3+)": the text in parentheses says the level, or is another name.
        inner, outer = find_meanings(found[2], words), find_meanings(found[1], words)
        leads = inner and inner[0].kind == "level"
        return (*inner, *outer) if leads else (*outer, *inner)
    return tuple(dict.fromkeys(_guess_meanings(text)))


def normalize_word(word: str) -> str:
    """Return the word in lower case, without articles and without “approval” at its end."""
    text = normalize_role(word.replace("’", "'"))
    while (shorter := _NOISE.sub("", text).strip()) != text:
        text = shorter
    return text


def rank_level(level: str | None, levels: Mapping[str, int]) -> int | None:
    """Return the number of a level: of `L3`, `Grade 3` and `3` it is 3, of a title that in `levels`.

    None if it is unknown.
    """
    text = normalize_role(level or "")
    if text.isdecimal():
        return int(text)
    if found := _NUMBER.search(text):
        return int(found[1])
    text = _CHIEF.sub("c level", text)
    for title in sorted((*levels, *_TITLES), key=len, reverse=True):
        if re.search(rf"\b{re.escape(title)}\b", text):
            return levels.get(title, levels.get(_TITLES.get(title, title)))
    return None


def rank_wanted_level(wanted: str, levels: Mapping[str, int]) -> int | None:
    """Return the number of a level that a policy asks for; None for the title of a certain function.

    “VP” is any vice president above the traveller, and “VP of Finance” is one person.
    """
    text = normalize_role(wanted)
    if text in SINGULAR_TITLES or _CHIEF.search(text):
        return None
    for title in sorted((*levels, *_TITLES), key=len, reverse=True):
        rest, count = re.subn(rf"\b{re.escape(title)}\b", "", text)
        if count:
            return rank_level(title, levels) if set(rest.split()) <= _ADJECTIVES else None
    return rank_level(text, levels)


def parse_levels(text: str) -> dict[str, int]:
    """Return the number of each title of `vp=3,director=2`. Raise `ValueError` if the text is invalid."""
    levels: dict[str, int] = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        title, _, number = (each.strip() for each in part.partition("="))
        if not (title and number.isdecimal()):
            raise ValueError(f"{part!r:.60} is invalid: expected title=number")
        levels[normalize_role(title)] = int(number)
    return levels


def parse_words(text: str) -> dict[str, Meaning]:
    """Return the meaning of each word of `Finance=role:controlling;L1=manager:1`.

    Raise `ValueError` if the text is invalid.
    """
    words: dict[str, Meaning] = {}
    for part in filter(None, (each.strip() for each in text.split(";"))):
        word, _, meaning = part.partition("=")
        if not word.strip():
            raise ValueError(f"{part!r:.60} is invalid: expected word=meaning")
        words[normalize_word(word)] = parse_meaning(meaning)
    return words


def _guess_meanings(text: str) -> tuple[Meaning, ...]:
    """Return what a normalized word may mean by default."""
    if text in _LINE_MANAGER:
        return (Meaning("manager", "1"),)
    if text in _SKIP_LEVEL:
        return (Meaning("manager", "2"),)
    if found := _STEP.fullmatch(text):
        return (Meaning("manager", found[1]),)
    if _OR_ABOVE.search(text):
        return (Meaning("level", _OR_ABOVE.sub("", text).strip()),)
    if text in DEPARTMENT_HEAD_ROLES or re.fullmatch(r"head of (?:the |your )?department", text):
        return (Meaning("department-head"),)
    if _NUMBER.fullmatch(text):
        return (Meaning("level", text),)
    shorter = _UNIT.sub("", text)
    roles = (Meaning("role", text), Meaning("role", shorter)) if shorter != text else (Meaning("role", text),)
    # A role of the directory wins over a title: "director" may be either.
    return (*roles, Meaning("level", text))
