"""Preferences in a sentence: cabin, carriers, part of the day and stops. Each parser removes its words."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from tripcortex.domain.planner.carriers import parse_carriers
from tripcortex.domain.planner.dates import RETURN
from tripcortex.model.entities import Cabin

_NOON: Final = 12
# The first hour of each part of the day.
_DAY_PARTS: Final = ((5, "morning"), (12, "afternoon"), (17, "evening"), (22, "night"))
_BREAK: Final = " | "


@dataclass(frozen=True)
class StatedPreferences:
    """The preferences that a sentence states, and the text without their words.

    `part` is the part of the day of the outbound flight.
    """

    text: str
    cabins: tuple[Cabin, ...] = ()
    vendors: tuple[str, ...] = ()
    avoided: tuple[str, ...] = ()
    nonstop: bool = False
    part: str | None = None
    # Understood, but no plan can express it: hours of the return or the arrival, unwanted parts of the day.
    unused: tuple[str, ...] = ()


def parse_preferences(text: str, return_markers: frozenset[int]) -> StatedPreferences:
    """Parse the preferences in a normalized text with day markers.

    `return_markers` are the markers of return days: an hour next to one of them belongs to the return flight.
    """
    text, cabins = _parse_cabins(text)
    text, part, unused = _parse_day_part(text, return_markers)
    text, nonstop = _parse_nonstop(text)
    text, vendors, avoided = parse_carriers(text)
    return StatedPreferences(text, cabins, vendors, avoided, nonstop, part, unused)


# --- cabin ----------------------------------------------------------------------------------------------

# "Business" and "first" are cabins only next to certain words: "a business trip" names no cabin.
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
            r"(?:class|cabin)(?: is)? business|(?:business|biz) ?-? "
            r"?(?:class|cabin|seat|ticket|fare)|(?:in|to|fly(?:ing)?) business|(?<=\bor )business"
            r"|business(?= (?:or|and|to|from|on|\||,|@))(?<!on business)(?<!for business)",
        ),
        (Cabin.economy, r"(?:basic )?economy(?: class| plus)?|coach(?: class)?|main cabin"),
    )
)
_NEGATION_BEFORE: Final = re.compile(
    r"\b(?:not|no|neither|never|avoid|without|except(?: for)?|other than|anything but|no "
    r"(?:need|preference|wish)(?: for| of| to fly)?"
    r"|(?:not|dont|neednt|never) (?:want|need|require|book|wish|insist on|care for)(?: to)?(?: fly)?(?: "
    r"me)?(?: in)?)"
    # "Neither business nor first": a cabin that was parsed before is already replaced by a break.
    r"(?: in| on| an?| the| +(?:\||premium economy|premium|economy|business|first)(?: +class)? +(?:or|nor))* "
    r"$"
)
# "Business class is not necessary."
_NEGATION_AFTER: Final = re.compile(
    r" ?(?:seats?|flights?|tickets?)? ?(?:(?:is|are) not|isnt|arent|not) (?:really |strictly )?"
    r"(?:necessary|needed|required|wanted|important|a must)\b| ?(?:is|are) unnecessary\b"
)


def _is_negated(text: str, match: re.Match[str]) -> bool:
    """Return whether words directly before the match ("no") or after it ("is not needed") negate it.

    The match is a cabin or "nonstop"; negations of days, carriers and places are parsed elsewhere.
    """
    return bool(_NEGATION_BEFORE.search(text[: match.start()]) or _NEGATION_AFTER.match(text[match.end() :]))


def _parse_cabins(text: str) -> tuple[str, tuple[Cabin, ...]]:
    """Return the text without cabins, and the cabins that are not negated, each once."""
    found: list[Cabin] = []
    for cabin, words in _CABINS:
        for match in words.finditer(text):
            if not _is_negated(text, match):
                found.append(cabin)
        text = words.sub(_BREAK, text)
    return text, tuple(dict.fromkeys(found))


# --- hours and stops ----------------------------------------------------------------------------------------

_NONSTOP: Final = re.compile(
    r"\b(?:non ?-?stops?|direct(?:ly)?(?: flights?)?|(?:no|without|zero|0)(?: any)? "
    r"(?:stops?|stopovers?|layovers?|connections?"
    r"|connecting flights?|changes?))\b"
)
_GREETING: Final = re.compile(r"^good (?:morning|afternoon|evening|day)\b")
_NAMED_PART: Final = re.compile(
    r"\b(?:in the |at |the )?(?P<limit>before |by )?(?:early |late |mid "
    r"?-?)?(?P<part>morning|afternoon|evening|night|red ?-?eye|overnight flight|noon|midnight|midday)s?\b"
)
_HOUR: Final = re.compile(
    r"\b(?:at |around |about |after |(?P<limit>before |by )|from "
    r")?(?:(?P<hour>\d{1,2})(?:[:.](?P<minute>\d{2}))? ?(?P<half>am|pm)\b|(?P<hour24>\d{1,2}):\d{2}\b)"
)
_PART_SYNONYMS: Final = {
    "redeye": "night",
    "overnight flight": "night",
    "midnight": "night",
}
_ARRIVAL_LEAD: Final = re.compile(r"\b(?:arriv\w+|be there|land|landing)(?: \w+)? ?$")
# An hour belongs to the return flight if a return day or a return word is directly next to it. In "Back Dec
# 12, evening flight" the hour belongs to the outbound flight.
_DAY_BEFORE: Final = re.compile(r"@(\d+) *$|@(\d+) (?:in|at|around|after)(?: the)? ?$")
_DAY_AND_COMMA_BEFORE: Final = re.compile(r"@(\d+)[ ,]*$")
_OUTBOUND_AFTER: Final = re.compile(r"(?: flights?)? (?:out|outbound|there|going)\b")
_RETURN_AFTER: Final = re.compile(r"(?: flights?)? (?:back|return(?:ing)?|home|inbound)\b(?!(?: on)? @)")
_ALTERNATIVE_BEFORE: Final = re.compile(r"\b(?:morning|afternoon|evening|night)s? or $")
_FLIGHT_AFTER: Final = re.compile(r"(?: or \w+)? flights?\b")
_RETURN_LEAD: Final = re.compile(rf"\b{RETURN}(?: (?:home|on|in|at|the|early|late|flight))* ?$")


def _parse_nonstop(text: str) -> tuple[str, bool]:
    """Return the text without the words for a nonstop flight, and whether it is wanted."""
    is_said = any(not _is_negated(text, match) for match in _NONSTOP.finditer(text))
    return _NONSTOP.sub(_BREAK, text), is_said


def _parse_day_part(text: str, return_markers: frozenset[int]) -> tuple[str, str | None, tuple[str, ...]]:
    """Return the text without hours, the part of the day of the outbound flight or None, and unused phrases.

    With several parts of the day none is chosen: all are unused.
    """
    found: dict[str, str] = {}
    unused: list[str] = []
    is_back = False
    text = _GREETING.sub(_BREAK, text)
    for pattern in (_NAMED_PART, _HOUR):
        for match in pattern.finditer(text):
            before, words = text[: match.start()], match[0].strip()
            # "Morning or evening" describes one flight.
            is_back = (
                is_back
                if _ALTERNATIVE_BEFORE.search(before)
                else _is_return_hour(text, match, return_markers)
            )
            if _NEGATION_BEFORE.search(before):
                unused.append(f"no {words}")
            elif _ARRIVAL_LEAD.search(before):
                unused.append(f"arrival {words}")
            elif is_back:
                unused.append(f"{words} back")
            else:
                found.setdefault(_get_day_part(match), words)
        text = pattern.sub(_BREAK, text)
    if len(found) > 1:
        return text, None, (*found.values(), *unused)
    return text, next(iter(found), None), tuple(unused)


def _is_return_hour(text: str, match: re.Match[str], return_markers: frozenset[int]) -> bool:
    """Return whether the hour belongs to the return flight, by the day marker or word next to it."""
    before, after = text[: match.start()], text[match.end() :]
    if beside := _DAY_BEFORE.search(before):
        return int(beside[1] or beside[2]) in return_markers
    if of_day := re.match(r" of @(\d+)", after):
        return int(of_day[1]) in return_markers
    if _OUTBOUND_AFTER.match(after) or _RETURN_AFTER.match(after):
        return _OUTBOUND_AFTER.match(after) is None
    if (apart := _DAY_AND_COMMA_BEFORE.search(before)) and not _FLIGHT_AFTER.match(after):
        return int(apart[1]) in return_markers
    return bool(_RETURN_LEAD.search(before))


def _get_day_part(match: re.Match[str]) -> str:
    """Return the part of the day of a word or an hour. "Before 12" means the part that ends at 12."""
    if "part" not in match.re.groupindex:
        hour = int(match["hour24"] or int(match["hour"]) % _NOON + (_NOON if match["half"] == "pm" else 0))
    else:
        word = re.sub(r"red ?-?eye", "redeye", match["part"])
        if word not in ("noon", "midday"):
            return _PART_SYNONYMS.get(word, word)
        hour = _NOON
    hour -= bool(match["limit"])
    return next((name for start, name in reversed(_DAY_PARTS) if hour >= start), "night")
