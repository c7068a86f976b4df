"""Reads the levels of employees that a statement is about.

Codes, ranges, titles and groups outside the ladder.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Final

from tripcortex.domain.policy_rules.extraction.vocabulary import (
    OUTSIDE_LADDER,
    Vocabulary,
    list_titles,
    normalize_level,
)
from tripcortex.domain.policy_rules.regions import find_places
from tripcortex.domain.policy_rules.rules import ORDINARY

_CODE: Final = (
    r"(?:(?:[Ll]evel|[Gg]rade|[Bb]and|[Gg]rades|[Ll]evels|[Bb]ands|[Tt]iers?) ?-? ?(?:\d{1,2}|[A-H])\b"
    r"|\b[LMEGPB]\d{1,2}\b|\bIC\d\b)"
)
_SECOND: Final = r"(?:(?:[Ll]evel|[Gg]rade|[Bb]and) )?(?:[LMEGPB]?\d{1,2}|[A-H])\b"
_UP: Final = re.compile(
    r"^ ?(?:\+|\)? ?(?:and|or|&) (?:above|higher|up|more senior|over|senior)|upwards?)", re.IGNORECASE
)
_DOWN: Final = re.compile(r"^ ?\)? ?(?:and|or|&) (?:below|lower|under|more junior)", re.IGNORECASE)
_ABOVE: Final = re.compile(r"\b(?:above|higher than|senior to) (?:the )?$", re.IGNORECASE)
_BELOW: Final = re.compile(r"\b(?:below|under|lower than|junior to) (?:the )?$", re.IGNORECASE)
_EXCEPT: Final = re.compile(
    r"\b(?:except(?:ing)?(?: for)?|other than|excluding|unless)\b[^.;]*$", re.IGNORECASE
)
_APPROVER_AFTER: Final = re.compile(
    r"^(?:'s?)?(?:[ -]level)?(?: \([^)]*\))?(?: (?:and|or|\+|&|plus) [\w ]{2,30}?)?(?:'s)? (?:written "
    r"|prior |advance |manager )*"
    r"(?:approv|sign|authori[sz]|consent|must approve|may approve|approves|has to|have to|confirms?|agrees?)",
    re.IGNORECASE,
)
_APPROVER_BEFORE: Final = re.compile(
    r"\b(?:approv\w+|authori[sz]\w+|sign(?:ed)?[- ]?off|consent|permission|agreement|signed|confirmed|ok)"
    r"(?: in writing)?(?: (?:from|of|by|at|is required from|required from))(?: (?:a|an|the|their|your|both"
    r"|one of the|either))?"
    r"(?: [\w'-]+){0,6}? ?$",
    re.IGNORECASE,
)
_NOT_A_LEVEL: Final = re.compile(
    r"^ (?:advisor|travel advis|warning|alert|risk|countr|destination)", re.IGNORECASE
)
_TOO: Final = re.compile(r"^ (?:not excepted|included|too\b)", re.IGNORECASE)
_LIST_BEFORE: Final = re.compile(
    r"\b(?:list|section|clause|part|annex|appendix|paragraph|see|table|in|\() ?$", re.IGNORECASE
)
_PERSON_OF: Final = re.compile(
    r"\b(?:travel|line|your|their|'s|account|hiring|reporting|direct) $", re.IGNORECASE
)


_GROUP_ONLY: Final = re.compile(
    r"\b(?:restricted to|reserved for|limited to|only (?:available )?(?:to|for)|available only (?:to"
    r"|for)) (?:the |our )?"
    r"(?P<group>[A-Z][\w-]+(?: [A-Z][\w-]+){0,2})"
)


def find_levels(text: str, vocabulary: Vocabulary) -> tuple[tuple[str, ...], tuple[str, ...], str]:
    """Return the levels that a text is about, those that it excludes, and a level without a known rank."""
    included: list[str] = []
    excluded: list[str] = []
    group = _GROUP_ONLY.search(text)
    if group and not find_places(group["group"]):
        included += vocabulary.expand_level(group["group"])
    for names, start in _iter_levels(text, vocabulary):
        if names is None:
            return tuple(included), tuple(excluded), text[start : start + 30]
        is_excluded = bool(_EXCEPT.search(text[:start]))
        (excluded if is_excluded else included).extend(names)
    return (*_mark_ordinary(included, excluded, vocabulary), "")


def _mark_ordinary(
    included: list[str], excluded: list[str], vocabulary: Vocabulary
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the levels; they say whether ordinary employees are among them, if that is known."""
    if included and vocabulary.is_base(included):
        included.append(ORDINARY)
    elif (included and vocabulary.knows_order(included)) or (excluded and vocabulary.is_base(excluded)):
        excluded.append(ORDINARY)
    return tuple(dict.fromkeys(included)), tuple(dict.fromkeys(excluded))


def find_level_spans(text: str, vocabulary: Vocabulary) -> list[tuple[int, int]]:
    """Return the positions of all words that name levels, with "and above"."""
    spans: list[tuple[int, int]] = []
    for found in _compile_mentions(vocabulary.levels).finditer(text):
        follow = _UP.match(text[found.end() :]) or _DOWN.match(text[found.end() :])
        spans.append((found.start(), found.end() + (follow.end() if follow else 0)))
    return spans


def _iter_levels(text: str, vocabulary: Vocabulary) -> Iterator[tuple[tuple[str, ...] | None, int]]:
    """Yield the names of each mention of levels with its position; None for an unknown order."""
    for found in _compile_mentions(vocabulary.levels).finditer(text):
        before, after = text[: found.start()], text[found.end() :]
        if _is_approver(found[0], before, after):
            continue
        first, last = found["first"] or found["title"], found["last"]
        if last:
            prefix = re.match(r"[A-Za-z]*[ -]?(?=\d|[A-H]\b)", first)
            whole = (
                last
                if re.match(r"[A-Za-z]{1,}", last) and not re.fullmatch("[A-H]", last)
                else f"{prefix[0] if prefix else ''}{last}"
            )
            yield vocabulary.list_levels_between(_singular(first), _singular(whole)), found.start()
        elif _UP.match(after):
            yield vocabulary.list_levels_from(_singular(first)), found.start()
        elif _DOWN.match(after):
            yield vocabulary.list_levels_from(_singular(first), is_upward=False), found.start()
        elif _ABOVE.search(before) or _BELOW.search(before):
            is_upward = bool(_ABOVE.search(before))
            names = vocabulary.list_levels_from(_singular(first), is_upward=is_upward)
            own = vocabulary.expand_level(_singular(first))
            yield None if names is None else tuple(each for each in names if each not in own), found.start()
        else:
            yield vocabulary.expand_level(_singular(first)), found.start()


def _singular(name: str) -> str:
    return re.sub(r"^([Ll]evel|[Gg]rade|[Bb]and|[Tt]ier)s", r"\1", name)


def _is_approver(words: str, before: str, after: str) -> bool:
    """Return True if the words name who approves rather than who travels."""
    if _NOT_A_LEVEL.match(after) or _TOO.match(after) or _LIST_BEFORE.search(before):
        return True
    return bool(_APPROVER_AFTER.match(after) or _APPROVER_BEFORE.search(before) or _PERSON_OF.search(before))


@cache
def _compile_mentions(levels: tuple[tuple[str, ...], ...]) -> re.Pattern[str]:
    """Compile the pattern of codes, ranges of codes, titles and groups; the document's own names included."""
    own = {name for group in levels for name in group if len(name) > 2}
    titles = {*list_titles(), *OUTSIDE_LADDER, *own} - {
        "staff",
        "employee",
        "lead",
        "senior",
        "officer",
        "ic",
        "chair",
    }
    titles |= own
    known = "|".join(re.escape(each) + "(?:e?s)?" for each in sorted(titles, key=len, reverse=True))
    return re.compile(
        rf"(?P<first>{_CODE})(?:(?: ?(?:-|to|through) ?| - )(?P<last>{_SECOND}))?|\b(?P<title>(?i:{known}))\b"
    )


def match_level(level: str, names: tuple[str, ...]) -> bool:
    """Return True if an employee's level is one of the names."""
    return normalize_level(level) in {normalize_level(each) for each in names}
