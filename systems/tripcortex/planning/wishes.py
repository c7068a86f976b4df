"""What somebody wishes beside where and when: cabin, carriers, hours, stops. Each takes its words out of the text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Final

from tripcortex.model import Cabin
from tripcortex.planning.dates import RETURN
from tripcortex.planning.gazetteer import table_rows
from tripcortex.planning.wording import worded

_NOON: Final = 12
# The first hour of each part of the day.
_PARTS: Final = ((5, "morning"), (12, "afternoon"), (17, "evening"), (22, "night"))
_BREAK: Final = " | "


@dataclass(frozen=True)
class Wishes:
    text: str
    cabins: tuple[Cabin, ...] = ()
    vendors: tuple[str, ...] = ()
    avoided: tuple[str, ...] = ()
    nonstop: bool = False
    part: str | None = None


def read_wishes(text: str, back: frozenset[int]) -> Wishes:
    """`back` are the markers of return days: an hour beside one of them is the return's."""
    text, cabins = _cabins(text)
    text, part = _part(text, back)
    text, nonstop = _taken(_NONSTOP, text)
    text, vendors, avoided = _carriers(text)
    return Wishes(text, cabins, vendors, avoided, nonstop, part)


def _taken(pattern: re.Pattern[str], text: str) -> tuple[str, bool]:
    return pattern.sub(_BREAK, text), bool(pattern.search(text))


# --- the cabin ---------------------------------------------------------------------------------------------------

_CABINS: Final = (
    (Cabin.premium_economy, r"premium[ -]economy(?: class)?|economy premium|premium (?:class|cabin)|in premium"),
    (Cabin.first, r"first[ -]class|first cabin|in first\b(?! class)|(?<=or )first\b|fly(?:ing)? first\b"),
    (
        Cabin.business,
        r"business[ -]class|business cabin|biz class|(?:in|fly(?:ing)?) business|business(?= (?:or|and) (?:first|economy|premium))"
        r"|(?<=or )business|^business(?! (?:trip|travel|meeting))|(?<=[|,] )business(?= (?:to|from|[|,]|$))|business (?:seat|ticket|fare)",
    ),
    (Cabin.economy, r"economy(?: class)?|coach(?: class)?|main cabin"),
)
_NOT_BEFORE: Final = re.compile(r"(?:not|no|never|avoid|dont (?:want|need|book)(?: me)?(?: in)?)(?: in)? $")


def _cabins(text: str) -> tuple[str, tuple[Cabin, ...]]:
    found: list[Cabin] = []
    for cabin, words in _CABINS:
        for match in re.finditer(rf"\b(?:{words})\b" if not words.startswith("^") else words, text):
            if not _NOT_BEFORE.search(text[: match.start()]):
                found.append(cabin)
        text = re.sub(rf"\b(?:{words})", _BREAK, text)
    return text, tuple(dict.fromkeys(found))


# --- hours and stops ---------------------------------------------------------------------------------------------

_NONSTOP: Final = re.compile(
    r"\b(?:non ?-?stops?|direct(?:ly)?(?: flights?)?|(?:no|without|zero|0)(?: any)? (?:stops?|stopovers?|layovers?|connections?"
    r"|connecting flights?|changes?))\b"
)
_GREETING: Final = re.compile(r"^good (?:morning|afternoon|evening|day)\b")
_NAMED: Final = re.compile(
    r"\b(?:in the |at |the )?(?:early |late |mid ?-?)?(?P<part>morning|afternoon|evening|night|red ?-?eye|overnight flight|noon|midnight|midday)s?\b"
)
_HOUR: Final = re.compile(
    r"\b(?:at |around |about |after |before |by |from )?(?:(?P<hour>\d{1,2})(?:[:.](?P<minute>\d{2}))? ?(?P<half>am|pm)\b|(?P<hour24>\d{1,2}):\d{2}\b)"
)
_WORDS_OF_PARTS: Final = {
    "redeye": "night",
    "overnight flight": "night",
    "midnight": "night",
    "noon": "afternoon",
    "midday": "afternoon",
}
# Whose hour it is: a return's, if a return's day or word stands right before it.
_BESIDE: Final = re.compile(r"@(\d+)[ ,]*$|@(\d+) (?:in|at|around|after|before)(?: the)? ?$")
_OF_A_RETURN: Final = re.compile(rf"\b{RETURN}(?: (?:home|on|in|at|the|early|late|flight))* ?$")


def _part(text: str, back: frozenset[int]) -> tuple[str, str | None]:
    found: list[str] = []
    text = _GREETING.sub(_BREAK, text)
    for pattern in (_NAMED, _HOUR):
        for match in pattern.finditer(text):
            if not _is_of_return(text, match, back):
                found.append(_part_of(match))
        text = pattern.sub(_BREAK, text)
    parts = list(dict.fromkeys(found))
    return text, parts[0] if len(parts) == 1 else None


def _is_of_return(text: str, match: re.Match[str], back: frozenset[int]) -> bool:
    before = text[: match.start()]
    if beside := _BESIDE.search(before):
        return int(beside[1] or beside[2]) in back
    if after := re.match(r" of @(\d+)", text[match.end() :]):
        return int(after[1]) in back
    return bool(_OF_A_RETURN.search(before))


def _part_of(match: re.Match[str]) -> str:
    if "part" in match.re.groupindex:
        word = re.sub(r"red ?-?eye", "redeye", match["part"])
        return _WORDS_OF_PARTS.get(word, word)
    hour = int(match["hour24"] or int(match["hour"]) % _NOON + (_NOON if match["half"] == "pm" else 0))
    return next((name for start, name in reversed(_PARTS) if hour >= start), "night")


# --- carriers ----------------------------------------------------------------------------------------------------

_FAR: Final = r"(?:not|no|avoid(?:ing)?|except|but not|anything but|any(?:one|thing)? (?:except|but)|never|without|dont (?:want|like|book)|other than|hate|skip)"
_NEAR: Final = r"(?:prefer(?:ably|ring|red|ence)?(?: is| for)?|on|with|by|fly(?:ing)?|using|use|take|taking|like|love|choose|carrier|airline|book)"
_OUTSIDE: Final = r"(?= (?:states|kingdom|arab|nations))"


def _carriers(text: str) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """Full names anywhere; short ones ("United") and codes only where a carrier is expected."""
    wanted: list[str] = []
    avoided: list[str] = []
    for match in _carrier_lists().finditer(text):
        codes = [_carrier_names()[name] for name in _carrier_name().findall(match["list"])]
        (avoided if match["far"] else wanted).extend(codes)
    text = _carrier_lists().sub(_BREAK, text)
    kept = [code for code in dict.fromkeys(wanted) if code not in avoided]
    return text, tuple(kept), tuple(dict.fromkeys(avoided))


@cache
def _carrier_names() -> dict[str, str]:
    found = {}
    for row in table_rows("carriers.csv"):
        for name in (row["code"], row["name"], *filter(None, row["aliases"].split("|"))):
            found[worded(name)] = row["code"]
    return found


@cache
def _full_names() -> str:
    """Those of which no other meaning is likely. A name that is a place or a plain word needs its context."""
    plain = {worded(row["name"]) for row in table_rows("carriers.csv")} - {"norwegian", "swiss", "gol", "emirates", "sas"}
    return _either(plain)


@cache
def _carrier_name() -> re.Pattern[str]:
    return re.compile(rf"\b{_either(_carrier_names())}(?:(?: air)?(?: ?lines?| ?ways))?\b")


@cache
def _carrier_lists() -> re.Pattern[str]:
    any_name = rf"{_either(_carrier_names(), capturing=False)}(?: air(?:lines?|ways))?\b(?!{_OUTSIDE[3:-1]})"
    more = rf"(?:(?: ,| or| and| / | ,? ?or| ,? ?and)+ {any_name})*"
    near = rf"(?:(?P<far>\b{_FAR}(?: (?:on|with|fly(?:ing)?|by))?) |\b{_NEAR} )(?:the |an? )?(?P<list>{any_name}{more})"
    return re.compile(f"{near}|{_bare(any_name)}".replace("(?P<list2>", "(?P<list2>"))


def _bare(any_name: str) -> str:
    return rf"\b(?P<list2>{any_name})(?= (?:flights?|preferred|if possible|please|only))"


def _either(names: set[str] | dict[str, str], *, capturing: bool = True) -> str:
    joined = "|".join(re.escape(each) for each in sorted(names, key=len, reverse=True))
    return f"({joined})" if capturing else f"(?:{joined})"
