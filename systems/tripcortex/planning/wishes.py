"""What somebody wishes beside where and when: cabin, carriers, hours, stops. Each takes its words out of the text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from tripcortex.model import Cabin
from tripcortex.planning.carriers import read_carriers
from tripcortex.planning.dates import RETURN

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
    # What was understood and cannot be used: hours of the way back or of the arrival, parts of the day that are not wanted.
    unused: tuple[str, ...] = ()


def read_wishes(text: str, back: frozenset[int]) -> Wishes:
    """`back` are the markers of return days: an hour beside one of them is the return's."""
    text, cabins = _cabins(text)
    text, part, unused = _part(text, back)
    text, nonstop = _nonstop(text)
    text, vendors, avoided = read_carriers(text)
    return Wishes(text, cabins, vendors, avoided, nonstop, part, unused)


# --- the cabin ---------------------------------------------------------------------------------------------------

# "Business" and "first" are cabins only where their neighbours make them so: a business trip is flown in any.
_CABINS: Final = tuple(
    (cabin, re.compile(rf"\b(?:{words})\b"))
    for cabin, words in (
        (
            Cabin.premium_economy,
            r"premium[ -]economy(?: class)?|economy premium|(?:in )?premium(?: class| cabin)?",
        ),
        (Cabin.first, r"first ?-? ?class|first cabin|in first|(?<=\bor )first|fly(?:ing)? first"),
        (
            Cabin.business,
            r"(?:class|cabin)(?: is)? business|(?:business|biz) ?-? ?(?:class|cabin|seat|ticket|fare)|(?:in|to|fly(?:ing)?) business|(?<=\bor )business"
            r"|business(?= (?:or|and|to|from|on|\||,|@))(?<!on business)(?<!for business)",
        ),
        (Cabin.economy, r"(?:basic )?economy(?: class| plus)?|coach(?: class)?|main cabin"),
    )
)
_NOT_BEFORE: Final = re.compile(
    r"\b(?:not|no|neither|never|avoid|without|except(?: for)?|other than|anything but|no (?:need|preference|wish)(?: for| of| to fly)?"
    r"|(?:not|dont|neednt|never) (?:want|need|require|book|wish|insist on|care for)(?: to)?(?: fly)?(?: me)?(?: in)?)"
    # "Neither business nor first": a cabin that was read before is a break by now.
    r"(?: in| on| an?| the| +(?:\||premium economy|premium|economy|business|first)(?: +class)? +(?:or|nor))* $"
)
# "Business class is not necessary."
_NOT_AFTER: Final = re.compile(
    r" ?(?:seats?|flights?|tickets?)? ?(?:(?:is|are) not|isnt|arent|not) (?:really |strictly )?"
    r"(?:necessary|needed|required|wanted|important|a must)\b| ?(?:is|are) unnecessary\b"
)


def _is_denied(text: str, match: re.Match[str]) -> bool:
    return bool(_NOT_BEFORE.search(text[: match.start()]) or _NOT_AFTER.match(text[match.end() :]))


def _cabins(text: str) -> tuple[str, tuple[Cabin, ...]]:
    found: list[Cabin] = []
    for cabin, words in _CABINS:
        for match in words.finditer(text):
            if not _is_denied(text, match):
                found.append(cabin)
        text = words.sub(_BREAK, text)
    return text, tuple(dict.fromkeys(found))


# --- hours and stops ---------------------------------------------------------------------------------------------

_NONSTOP: Final = re.compile(
    r"\b(?:non ?-?stops?|direct(?:ly)?(?: flights?)?|(?:no|without|zero|0)(?: any)? (?:stops?|stopovers?|layovers?|connections?"
    r"|connecting flights?|changes?))\b"
)
_GREETING: Final = re.compile(r"^good (?:morning|afternoon|evening|day)\b")
_NAMED: Final = re.compile(
    r"\b(?:in the |at |the )?(?P<limit>before |by )?(?:early |late |mid ?-?)?(?P<part>morning|afternoon|evening|night|red ?-?eye|overnight flight|noon|midnight|midday)s?\b"
)
_HOUR: Final = re.compile(
    r"\b(?:at |around |about |after |(?P<limit>before |by )|from )?(?:(?P<hour>\d{1,2})(?:[:.](?P<minute>\d{2}))? ?(?P<half>am|pm)\b|(?P<hour24>\d{1,2}):\d{2}\b)"
)
_WORDS_OF_PARTS: Final = {
    "redeye": "night",
    "overnight flight": "night",
    "midnight": "night",
}
_ARRIVAL: Final = re.compile(r"\b(?:arriv\w+|be there|land|landing)(?: \w+)? ?$")
# Whose hour it is: a return's, if a return's day or word stands right beside it. "Back Dec 12, evening flight" is of the trip.
_BESIDE: Final = re.compile(r"@(\d+) *$|@(\d+) (?:in|at|around|after)(?: the)? ?$")
_AFTER_COMMA: Final = re.compile(r"@(\d+)[ ,]*$")
_THEN_OUT: Final = re.compile(r"(?: flights?)? (?:out|outbound|there|going)\b")
_THEN_BACK: Final = re.compile(r"(?: flights?)? (?:back|return(?:ing)?|home|inbound)\b(?!(?: on)? @)")
_OR_BEFORE: Final = re.compile(r"\b(?:morning|afternoon|evening|night)s? or $")
_THEN_FLIGHT: Final = re.compile(r"(?: or \w+)? flights?\b")
_OF_A_RETURN: Final = re.compile(rf"\b{RETURN}(?: (?:home|on|in|at|the|early|late|flight))* ?$")


def _nonstop(text: str) -> tuple[str, bool]:
    is_said = any(not _is_denied(text, match) for match in _NONSTOP.finditer(text))
    return _NONSTOP.sub(_BREAK, text), is_said


def _part(text: str, back: frozenset[int]) -> tuple[str, str | None, tuple[str, ...]]:
    found: dict[str, str] = {}
    unused: list[str] = []
    is_back = False
    text = _GREETING.sub(_BREAK, text)
    for pattern in (_NAMED, _HOUR):
        for match in pattern.finditer(text):
            before, words = text[: match.start()], match[0].strip()
            # "Morning or evening" is said of one flight.
            is_back = is_back if _OR_BEFORE.search(before) else _is_of_return(text, match, back)
            if _NOT_BEFORE.search(before):
                unused.append(f"no {words}")
            elif _ARRIVAL.search(before):
                unused.append(f"arrival {words}")
            elif is_back:
                unused.append(f"{words} back")
            else:
                found.setdefault(_part_of(match), words)
        text = pattern.sub(_BREAK, text)
    if len(found) > 1:
        return text, None, (*found.values(), *unused)
    return text, next(iter(found), None), tuple(unused)


def _is_of_return(text: str, match: re.Match[str], back: frozenset[int]) -> bool:
    before, after = text[: match.start()], text[match.end() :]
    if beside := _BESIDE.search(before):
        return int(beside[1] or beside[2]) in back
    if of_day := re.match(r" of @(\d+)", after):
        return int(of_day[1]) in back
    if _THEN_OUT.match(after) or _THEN_BACK.match(after):
        return _THEN_OUT.match(after) is None
    if (apart := _AFTER_COMMA.search(before)) and not _THEN_FLIGHT.match(after):
        return int(apart[1]) in back
    return bool(_OF_A_RETURN.search(before))


def _part_of(match: re.Match[str]) -> str:
    """By the hour; before an hour is the part that ends with it."""
    if "part" not in match.re.groupindex:
        hour = int(match["hour24"] or int(match["hour"]) % _NOON + (_NOON if match["half"] == "pm" else 0))
    else:
        word = re.sub(r"red ?-?eye", "redeye", match["part"])
        if word not in ("noon", "midday"):
            return _WORDS_OF_PARTS.get(word, word)
        hour = _NOON
    hour -= bool(match["limit"])
    return next((name for start, name in reversed(_PARTS) if hour >= start), "night")
