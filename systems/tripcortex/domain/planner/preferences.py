"""Preferences in a sentence: cabin, carriers, part of the day and stops. Each parser removes its words."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NamedTuple

from tripcortex.domain.planner.carriers import parse_carriers
from tripcortex.domain.planner.date_roles import RETURN
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
    # The hour by which the outbound flight has to arrive, and the last one at which it can leave.
    arrival_hour: int | None = None
    latest_hour: int | None = None


def parse_preferences(text: str, return_markers: frozenset[int]) -> StatedPreferences:
    """Parse the preferences in a normalized text with day markers.

    `return_markers` are the markers of return days: an hour next to one of them belongs to the return flight.
    """
    text, cabins = _parse_cabins(text)
    hours = _parse_day_part(text, return_markers)
    text, part, unused = hours.text, hours.part, hours.unused
    text, stops = _take_unused(text)
    unused = (*unused, *stops)
    text, nonstop = _parse_nonstop(text)
    text, vendors, avoided = parse_carriers(text)
    return StatedPreferences(
        text, cabins, vendors, avoided, nonstop, part, unused, hours.arrival_hour, hours.latest_hour
    )


# --- cabin ----------------------------------------------------------------------------------------------

# "Business" and "first" are cabins only next to certain words: "a business trip" names no cabin.
_CABINS: Final = tuple(
    (cabin, re.compile(rf"\b(?:{words})\b"))
    for cabin, words in (
        (
            Cabin.premium_economy,
            r"(?:in )?prem(?:ium)?[ -]?(?:economy|econ|eco)(?: class)?|economy premium|world traveller "
            r"plus|(?:in )?premium(?: class| cabin)?",
        ),
        (
            Cabin.first,
            r"\bf[ -]class|first(?= (?:or|and|/) (?:business|premium|economy))|first ?-? ?class|first "
            r"cabin|la premiere|in first|(?<=\bor )first|fly(?:ing)? first",
        ),
        (
            Cabin.business,
            r"(?<= [a-z][a-z\d] )[jc](?= ?(?:$|\|))|[jc][ -]class|upper class|club (?:class|world|europe|"
            r"suite)|polaris|(?<!the )biz|business(?= (?:or|and|/) (?:first|premium|economy))|(?:class|"
            r"cabin)(?: is)? business|(?:business|biz) ?-? "
            r"?(?:class|cabin|seat|ticket|fare)|(?:in|to|fly(?:ing)?) business|(?<=\bor )business"
            r"|business(?= (?:or|and|to|from|on|\||,|@))(?<!on business)(?<!for business)"
            r"|(?<!\bon )(?<!\bfor )(?<!\bmy )(?<!\bour )(?<!\bthe )(?<!\bnew )(?<!\ba )(?<!\bdo "
            r")(?<!\bany )business(?! (?:trips?|"
            r"travel|meetings?|partners?|visits?|days?|lunch|dinner|cent\w+|school|reasons?|reviews?|"
            r"cases?|plans?|units?|"
            r"development|conference|events?|hours|needs?|purposes?|travell?er|cards?|associates?|"
            r"contacts?|owner|week|"
            r"unit|matters?|appointments?)\b)",
        ),
        (
            Cabin.economy,
            r"(?<= [a-z][a-z\d] )y(?= ?(?:$|\|))|y[ -]class|eco(?: class)?|(?:basic )?economy(?: class| "
            r"plus)?|coach(?: class)?|main "
            r"cabin",
        ),
    )
)
# "The Economy Summit" names no cabin.
_NOT_A_CABIN_AFTER: Final = (
    r"(?! (?:summit|conference|forum|symposium|workshop|congress|ministry|minister|project|meeting|award|"
    r"review|"
    r"team|group|days?|fair|breakfast|report)\b)"
)
_NEGATION_BEFORE: Final = re.compile(
    r"\b(?:not|no|neither|never|avoid|without|except(?: for)?|other than|anything but|no "
    r"(?:need|preference|wish)(?: for| of| to fly)?"
    r"|(?:not|dont|neednt|never) (?:want|need|require|book|wish|insist on|care for)(?: to)?(?: fly)?(?: "
    r"me)?(?: in)?)"
    # "Neither business nor first": a cabin that was parsed before is already replaced by a break.
    r"(?: in| on| an?| the| +(?:\||premium economy|premium|economy|business|first)(?: +class)? +(?:or|"
    r"nor))* "
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
        pattern = re.compile(f"(?:{words.pattern}){_NOT_A_CABIN_AFTER}")
        found += [cabin for match in pattern.finditer(text) if not _is_negated(text, match)]
        text = pattern.sub(_BREAK, text)
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
_BETWEEN_HOURS: Final = re.compile(
    r"\b(?:leav\w+ |depart\w+ |any ?time )?between (?:(?P<first>\d{1,2})(?:[:.]\d{2})? ?(?P<half1>am|pm)?) "
    r"(?:and|to|-) "
    r"(?P<hour>\d{1,2})(?:[:.]\d{2})? ?(?P<half>am|pm)?\b(?! (?:days?|nights?|hours?))"
)
_ARRIVING: Final = re.compile(
    r"\b(?:arriv\w*|be (?:there|in|at|on site|onsite)|get (?:there|in|to|me to|me there|me in)|getting in|"
    r"land(?:ing)?|reach|in time "
    r"for|make it|got to be|due (?:in|at)|to be)\b"
)
_LEAVING: Final = re.compile(
    r"\b(?:leav\w*|depart\w*|fly(?:ing)? out|take(?:s)? off|go(?:ing)? out|set off|get out|start\w*)\b"
)
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


class _Hours(NamedTuple):
    """Hours of a text: the text without them, and what they say about the flights."""

    text: str
    part: str | None
    unused: tuple[str, ...]
    arrival_hour: int | None
    latest_hour: int | None = None


def _parse_day_part(text: str, return_markers: frozenset[int]) -> _Hours:
    """Return the text without hours, the part of the day of the outbound flight or None, and unused phrases.

    With several parts of the day none is chosen: all are unused.
    """
    found: dict[str, str] = {}
    unused: list[str] = []
    is_back, arrival_hour, latest_hour = False, None, None
    # "8 Dec AM" is the morning of that day.
    text = re.sub(r"(@\d+) pm\b", r"\1 afternoon", re.sub(r"(@\d+) am\b", r"\1 morning", text))
    text, between = _parse_between_hours(_GREETING.sub(_BREAK, text))
    unused += between
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
            elif _is_arrival(before, match["limit"] or ""):
                unused.append(f"arrival {words}")
                arrival_hour = None if is_back else _get_hour(match)
            elif is_back:
                unused.append(f"{words} back")
            else:
                found.setdefault(_get_day_part(match), words)
                latest_hour = latest_hour or _get_latest_hour(match)
        text = pattern.sub(_BREAK, text)
    if len(found) > 1:
        return _Hours(text, None, (*found.values(), *unused), arrival_hour)
    return _Hours(text, next(iter(found), None), tuple(unused), arrival_hour, latest_hour)


# The hours at which the parts of the day end.
_PART_ENDS: Final = {"morning": 12, "afternoon": 18}


def _get_latest_hour(match: re.Match[str]) -> int | None:
    """Return the last hour of a flight at this hour or in this part of the day, or None if it has none."""
    if match[0].startswith(("after", "from")):
        return None
    if "part" in match.re.groupindex and match["part"] not in ("noon", "midday"):
        return _PART_ENDS.get(match["part"])
    return _get_hour(match)


# Understood, but no plan can express it. "Cheapest" needs no words: options are sorted by price.
_SEAT: Final = (
    r"(?:(?:an? |the |my )?(?:window|aisle|exit[ -]row|bulkhead|front[ -]row|middle|extra[ -]legroom|"
    r"legroom|upper deck)"
    r"(?: or (?:window|aisle))?(?: seats?)?(?: (?:please|pls|preferred|if (?:possible|poss|available|there "
    r"is one)|both ways))*"
    r"|(?:an? )?seat (?:at|near|in|by|towards) the (?:front|back|window|aisle|exit)(?: of the plane)?"
    r"|(?:with )?(?:extra|more) leg ?-?room)"
)
_BAGGAGE: Final = (
    r"(?:(?:with |only |just |no |one |two |a |an |1 |2 |including |plus )*(?:hand|cabin|checked|check-?in|"
    r"hold|carry-?on) "
    r"?(?:luggage|baggage|bags?|on)?(?: (?:only|included|needed|please))*)"
)
_MEAL: Final = (
    r"(?:(?:an? |the )?(?:vegetarian|vegan|veg|kosher|halal|gluten[ -]free|hindu|diabetic|special|low[ "
    r"-]sodium) "
    r"(?:meals?|food|menu)(?: please)?)"
)
_FARE: Final = (
    r"(?:(?:on )?(?:an? )?(?:fully |semi )?-?(?:refundable|flexible|flex|changeable) (?:fares?|tickets?|"
    r"booking|rate)"
    r"|\b(?:must be |should be )?(?:fully )?refundable\b)"
)
_INEXPRESSIBLE: Final = re.compile(
    r"\b(?:(?:no|nothing|not) (?:\w+ )?(?:with )?more than|at most|max(?:imum)?|up to|only) (?:one|1|two|"
    r"2|a single) (?:stop|stopover|"
    r"connection|layover|change)s?\b|\b(?:one|1|two|2) (?:stop|connection|layover)s? (?:max(?:imum)?|at "
    r"most|is (?:fine|ok|okay))\b|"
    r"\b(?:the )?(?:earliest|latest|last) (?:possible |available )?(?:flight|departure|plane)(?: (?:out|"
    rf"back|home|of the day))?\b|\b{_SEAT}\b|\b{_BAGGAGE}(?<!on )\b|\b{_MEAL}\b|\b{_FARE}\b"
)


_TRIMMINGS: Final = re.compile(r"^(?:the|an?|my|on an?|with) (?!row)|(?: please| pls| preferred)+$")


def _take_unused(text: str) -> tuple[str, tuple[str, ...]]:
    """Return the text without wishes that no plan can express, and these wishes."""
    found = tuple(_TRIMMINGS.sub("", match[0]).strip() for match in _INEXPRESSIBLE.finditer(text))
    return _INEXPRESSIBLE.sub(_BREAK, text), found


def _parse_between_hours(text: str) -> tuple[str, list[str]]:
    """Return the text without "between 6 and 9 am", and these words, which no plan can express."""
    found = [
        match[0].strip()
        for match in _BETWEEN_HOURS.finditer(text)
        if match["half"] or match["half1"] or ":" in match[0]
    ]
    return (_BETWEEN_HOURS.sub(_BREAK, text), found) if found else (text, [])


def _is_arrival(before: str, limit: str) -> bool:
    """Return whether an hour is that of the arrival: "be there by 2 pm", but not "leave by 2 pm".

    `limit` is "by", "before" or empty. Without a verb, "by" is a deadline to be there.
    """
    if _ARRIVAL_LEAD.search(before):
        return True
    clause = before.rpartition("|")[2]
    arriving = max((match.end() for match in _ARRIVING.finditer(clause)), default=0)
    leaving = max((match.end() for match in _LEAVING.finditer(clause)), default=0)
    if limit.startswith("by"):
        return arriving >= leaving
    return limit.startswith("before") and arriving > leaving


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


def _get_hour(match: re.Match[str]) -> int | None:
    """Return the hour of a match of `_HOUR`, or of noon; None for another part of the day."""
    if "part" in match.re.groupindex:
        return _NOON if match["part"] in ("noon", "midday") else None
    return int(match["hour24"] or int(match["hour"]) % _NOON + (_NOON if match["half"] == "pm" else 0))


def _get_day_part(match: re.Match[str]) -> str:
    """Return the part of the day of a word or an hour. "Before 12" means the part that ends at 12."""
    if "part" not in match.re.groupindex:
        hour = _get_hour(match) or 0
    else:
        word = re.sub(r"red ?-?eye", "redeye", match["part"])
        if word not in ("noon", "midday"):
            return _PART_SYNONYMS.get(word, word)
        hour = _NOON
    hour -= bool(match["limit"])
    return next((name for start, name in reversed(_DAY_PARTS) if hour >= start), "night")
