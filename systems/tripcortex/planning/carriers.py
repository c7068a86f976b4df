"""Airlines in a sentence: which are preferred, and which are not wanted.

A full name ("Air France") counts anywhere. A short one ("United", "Delta", "Spirit") or a code is a word or a place as
well: it counts only after a word that leads to a carrier, beside another one, or before "flight" and the like.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from tripcortex.planning.gazetteer import table_rows
from tripcortex.planning.wording import worded

_FAR: Final = re.compile(
    r"\b(?:not|no|avoid(?:ing)?|except|anything but|any(?:one|body)? (?:except|but)|never|without|other than|hate|skip"
    r"|dont (?:want|like|book|put me)|rather not)(?: (?:to|on|with|by|fly|flying|use|the|book|take))* $"
)
_NEAR: Final = re.compile(
    r"\b(?:prefer(?:ably|ring|red|ence)?(?: is| for)?|ideally|on|with|by|fly(?:ing)?|using|use|take|taking|like|love|choose|carrier"
    r"|airlines?)(?: (?:to|on|with|by|fly|flying|use|the|an?|is))* $"
)
# Neither wanted nor unwanted.
_NO_MATTER: Final = re.compile(
    r"\b(?:no|without)(?: \w+)? (?:preference|need)(?: for| of)?(?: the)? $|\bdont (?:need|mind) $"
)
_BESIDE: Final = re.compile(r"%[01](?: ,| or| and| /)+ $")
_JOINT: Final = re.compile(r"(?: ,| or| and| /)+ ")
_AFTER: Final = re.compile(r" (?:flights?|preferred|if possible|please|only|tickets?)\b")
_NO_CARRIER: Final = re.compile(r" (?:states|kingdom|arab|nations|food|beer|cheese)\b")
# Full names that mean something else as well.
_PLAIN_WORDS: Final = frozenset({"norwegian", "swiss", "emirates", "sas", "gol", "iberia"})


def read_carriers(text: str) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """The text without carriers, those that are preferred, and those that are avoided."""
    wanted: list[str] = []
    avoided: list[str] = []
    left = ""
    at = 0
    for match in _names().finditer(text):
        left += text[at : match.start()]
        at = match.start()
        side = _side(left, match, text[match.end() :])
        if side is None:
            continue
        (avoided if side == "%1" else wanted).append(_codes()[match[1]])
        left += side
        at = match.end()
    left = re.sub(r"%[01]", "|", left + text[at:])
    kept = tuple(code for code in dict.fromkeys(wanted) if code not in avoided)
    return left, kept, tuple(dict.fromkeys(avoided))


def is_carrier(code: str) -> bool:
    return code.upper() in _codes().values()


def carrier_names(code: str) -> tuple[str, ...]:
    """The names of an airline, its full one first; of a code that is not known, the code."""
    return _named().get(code.upper(), (code,))


def _side(before: str, match: re.Match[str], after: str) -> str | None:
    """`%0` for a carrier that is wanted, `%1` for one that is not, None for a word that is no carrier."""
    if _NO_CARRIER.match(after) or _NO_MATTER.search(before):
        return None
    if beside := _BESIDE.search(before):
        return beside[0][:2]
    if _FAR.search(before):
        return "%1"
    is_named = match[1] in _full() or match[2]
    joint = _JOINT.match(after)
    following = _names().match(after, joint.end()) if joint else None
    is_named = is_named or (following is not None and following[1] in _full())
    is_followed = after.startswith(" preferred") if is_carrier(match[1]) else bool(_AFTER.match(after))
    return "%0" if is_named or is_followed or _NEAR.search(before) else None


@cache
def _codes() -> dict[str, str]:
    found = {}
    for row in table_rows("carriers.csv"):
        for name in (row["code"], row["name"], *filter(None, row["aliases"].split("|"))):
            found[worded(name)] = row["code"]
    return found


@cache
def _named() -> dict[str, tuple[str, ...]]:
    return {
        row["code"]: (row["name"], *filter(None, row["aliases"].split("|")))
        for row in table_rows("carriers.csv")
    }


@cache
def _full() -> frozenset[str]:
    return frozenset(worded(row["name"]) for row in table_rows("carriers.csv")) - _PLAIN_WORDS


@cache
def _names() -> re.Pattern[str]:
    known = "|".join(re.escape(each) for each in sorted(_codes(), key=len, reverse=True))
    return re.compile(rf"\b({known})( air ?lines?| airways)?\b")
