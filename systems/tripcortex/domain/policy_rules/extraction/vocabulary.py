"""The words that a document defines for itself.

Its levels, its kinds of flight, its zones, and its home country.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

from tripcortex.domain.policy_rules.extraction.currencies import Money
from tripcortex.domain.policy_rules.extraction.wording import normalize
from tripcortex.domain.policy_rules.rules import Basis, RuleScope

# Ranks of titles where the document has no order of its own, the lowest first.
_TITLE_RANKS: Final = (
    ("intern", "trainee", "apprentice", "student"),
    (
        "individual contributor",
        "ic",
        "staff",
        "analyst",
        "associate",
        "employee",
        "specialist",
        "coordinator",
    ),
    ("senior", "senior associate", "senior individual contributor", "professional"),
    ("team lead", "lead", "supervisor", "team leader"),
    ("manager", "project manager", "people manager"),
    ("senior manager", "principal", "senior principal", "counsel"),
    ("director", "head of department", "department head"),
    ("senior director", "managing director"),
    ("vice president", "vp"),
    ("senior vice president", "svp", "partner"),
    ("executive vice president", "evp"),
    (
        "c-suite",
        "c-level",
        "executive",
        "executive committee",
        "chief",
        "ceo",
        "cfo",
        "coo",
        "cto",
        "president",
        "managing partner",
        "executives",
        "officer",
    ),
    ("board", "board member", "chair"),
)
# Analysts and staff are ordinary employees; trainees and everybody above them are not.
_ORDINARY_RANKS: Final = (1, 2)
_LEVEL_CODE: Final = re.compile(
    r"^(?:level|grade|band|tier|class|group|l|g|b|m|e|p|ic|t)[ -]?(\d{1,2}|[a-h])$"
)
# The groups that are outside the ladder of levels: a trip of an unknown level is not theirs.
OUTSIDE_LADDER: Final = frozenset(
    "intern trainee apprentice student contractor consultant candidate guest visitor speaker volunteer "
    "board temp"
    " freelancer dependant spouse".split()
)


@dataclass(frozen=True)
class Vocabulary:
    """What the document defines.

    `terms` are its own words for trips, such as "long-haul" or "zone 2". `levels` are groups of names of one
    level, the lowest first; `base` are the names of the ordinary employees' level. `aliases` are its words
    for authorities and directions, with what they stand for; `extensions` are countries that it counts to a
    region.
    """

    home: str = ""
    terms: Mapping[str, RuleScope] = field(default_factory=dict)
    levels: tuple[tuple[str, ...], ...] = ()
    base: frozenset[str] = frozenset()
    basis: Basis | None = None
    one_way_percent: Decimal | None = None
    # Kinds of airlines that the document lists, such as "flag carrier", in lower case.
    carriers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    money: Money = field(default_factory=Money)
    aliases: Mapping[str, str] = field(default_factory=dict)
    extensions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # Letters that stand for cabins in tables.
    cabin_codes: Mapping[str, str] = field(default_factory=dict)
    # The normalized bodies of the definitions: they are not rules.
    defined: frozenset[str] = frozenset()

    def is_definition(self, text: str) -> bool:
        """Return True if the normalized text is a definition of the document."""
        return any(text.endswith(body) for body in self.defined)

    def knows_order(self, names: Iterable[str]) -> bool:
        """Return True if the names are levels of which it is known whether ordinary employees have them."""
        known = {each for group in self.levels for each in group}
        return any(each in known or _get_title_rank(each) is not None for each in names)

    def is_base(self, names: Iterable[str]) -> bool:
        """Return True if one of the levels is that of ordinary employees."""
        if self.base:
            return bool(self.base & set(names))
        return any(_get_title_rank(each) in _ORDINARY_RANKS for each in names)

    def expand_level(self, name: str) -> tuple[str, ...]:
        """Return all names of a level, the given one first."""
        key = normalize_level(name)
        known = {each for group in self.levels for each in group}
        key = key if key in known or key.removesuffix("e") not in known else key.removesuffix("e")
        group = next((each for each in self.levels if key in each), ())
        return tuple(dict.fromkeys((key, *group)))

    def list_levels_from(self, name: str, *, is_upward: bool = True) -> tuple[str, ...] | None:
        """Return the names of this level and of all above it, or below it. None if it has no known rank."""
        key = normalize_level(name)
        for ladder in (self.levels, *_build_code_ladder(key), _TITLE_RANKS):
            index = next((at for at, group in enumerate(ladder) if key in group), None)
            if index is not None:
                part = ladder[index:] if is_upward else ladder[: index + 1]
                return tuple(dict.fromkeys(each for group in part for each in group))
        return None

    def list_levels_between(self, first: str, last: str) -> tuple[str, ...] | None:
        """Return the names of the levels from the first to the last, or None if their order is unknown."""
        upward, downward = self.list_levels_from(first), self.list_levels_from(last, is_upward=False)
        if upward is None or downward is None:
            return None
        return tuple(each for each in upward if each in downward) or None


def _get_title_rank(name: str) -> int | None:
    return next((rank for rank, group in enumerate(_TITLE_RANKS) if name in group), None)


def normalize_document(text: str, vocabulary: Vocabulary, *, is_cell: bool = False) -> str:
    """Return a text of the document in normalized form.

    Amounts are in US dollars, and the document's names for authorities are who they are.
    """
    text = normalize(vocabulary.money.convert(text.replace("**", "").replace("\xa0", " ")), is_cell=is_cell)
    if is_cell and (mark := vocabulary.cabin_codes.get(text.strip(" *†"))):
        return mark
    for name, meaning in vocabulary.aliases.items():
        verb = r"(?:\b(?:approval|consent|authori[sz]ation) (?:of|at|by) )?"
        text = re.sub(rf"{verb}(?<!\w){re.escape(name)}s?(?!\w)", meaning, text, flags=re.IGNORECASE)
    return text


def normalize_level(name: str) -> str:
    """Return a level's name for comparison: lower case, singular, `l3` for "Level 3"."""
    key = re.sub(r"[^\w+/& -]", "", name.casefold()).strip(" -")
    key = re.sub(r"\b(?:employees?|staff members?|travell?ers?|level|only)$", "", key).strip() or key
    code = re.match(r"^(?:level|l)[ -]?(\d{1,2})$", key)
    if code:
        return f"l{code[1]}"
    code = re.match(r"^(grade|band|tier|group|class|job grade|pay grade)[ -]?(\d{1,2}|[a-z])$", key)
    if code:
        return f"{code[1].split()[-1]} {code[2]}"
    key = re.sub(r"\bvice[- ]presidents?\b", "vice president", key)
    if key.endswith("s") and not key.endswith(("ss", "us", "is")) and len(key) > 3:
        key = key[:-1]
    return key


def _build_code_ladder(key: str) -> Sequence[tuple[tuple[str, ...], ...]]:
    """Return the ladder that a numbered or lettered level belongs to, if it is one."""
    found = re.match(r"^(.*?)(\d{1,2}|(?<= )[a-h])$", key)
    if not found:
        return ()
    prefix, number = found.groups()
    names = [str(each) for each in range(31)] if number.isdigit() else list("abcdefgh")
    return (tuple((f"{prefix}{each}",) for each in names),)


def is_title(name: str) -> bool:
    """Return True if the name is a known job title or a level's code."""
    key = normalize_level(name)
    return any(key in group for group in _TITLE_RANKS) or bool(_LEVEL_CODE.match(key))


def list_titles() -> Iterable[str]:
    """Return the known job titles."""
    return (title for group in _TITLE_RANKS for title in group)
