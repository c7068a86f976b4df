"""Dates in a sentence: finds departure, return, length of stay, and one way or round trip.

normalized text → one way? → length of stay → `date_words` replaces days by markers → the words around a
marker give its role
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from tripcortex.domain.planner import days
from tripcortex.domain.planner.date_words import mark_days
from tripcortex.domain.planner.days import Day
from tripcortex.domain.planner.gazetteer import MAX_CHOICES
from tripcortex.domain.planner.text_normalization import NUMBER, is_correction, parse_number

RETURN: Final = (
    r"(?:return(?:ing|s)?|(?:com(?:e|ing)|fly(?:ing)?|get(?:ting)?|be|go(?:ing)?)? ?back"
    r"|(?:com(?:e|ing) |fly(?:ing)? |head(?:ing)? |go(?:ing)? )?home|inbound|(?:down|up|over|out) again|"
    r"until|till|til|through|thru)"
)
_FILL: Final = (
    r"(?:(?: ,| (?:in )?(?:economy|business|first|premium economy)(?: class)?| (?:last|first|earliest) "
    r"flight| home| again| on| the| any| time| any ?time| some ?time| latest| only| late| early| "
    r"morning| afternoon| evening| night| of| in(?: economy| business| first class)?|(?: last| first| "
    r"earliest)? flight| "
    r"date| "
    r"is| trip"
    r"| (?:to|from) (?!@)\w+(?: \w+)??){0,6})"
)


@dataclass(frozen=True)
class Dates:
    """The dates of a sentence. `text` has markers in place of the days.

    `back` are the markers of return days. `trip` is "one_way", "round_trip" or None if the sentence does not
    say.
    """

    text: str
    departure: Day | None = None
    returning: Day | None = None
    # Nights, or days that may be counted in two ways.
    stay: tuple[int, ...] = ()
    trip: str | None = None
    # A second day without a role: whether it is the return has to be asked.
    doubtful: Day | None = None
    back: frozenset[int] = frozenset()


def parse_dates(plain: str, day_first: bool | None) -> Dates:
    """Parse the dates of a normalized text. `day_first` says whether 3/4 is in April; None if unknown."""
    text, trip = _parse_trip_kind(plain)
    is_night = bool(_OVERNIGHT.search(text))
    text, stay = _parse_stay(text)
    is_back_by_night = bool(_BACK_BY_NIGHT.search(text))
    is_night = is_night and stay == (1,)
    text, found, tied = mark_days(text, day_first)
    dates = _assign_roles(text, found, tied, is_one_way=trip == "one_way", is_day_trip=stay == (0,))
    if is_night and dates.returning:
        # "Overnight to Zurich on Sunday, back on Friday" is a flight by night.
        return replace(dates, stay=(), trip=trip, text=f"{dates.text} | overnight flight")
    if is_back_by_night and not (dates.returning or dates.doubtful or stay or trip == "one_way"):
        stay = (0,)
    return replace(dates, stay=stay, trip=trip)


# --- finding ------------------------------------------------------------------------------------------------

_ONE_WAY: Final = re.compile(
    r"\b(?:one ?- ?way|one way|oneway|single(?: ticket| flight| trip| fare)?(?! (?:room|travell?er|person|"
    r"bed|malt|handed|day|stop))"
    r"|(?:just |only )?(?:in )?one direction(?: only)?|no return(?: flight| trip)?(?: needed)?|not "
    r"(?:returning|coming back|flying back)|without (?:a )?return|(?:just |only )?(?:the )?outbound only|"
    r"only the outbound"
    r"|just the outbound|one leg only|(?:the )?way there only|(?:dont|do not|wont) need (?:a |the |any "
    r")?(?:return|flight back)"
    r"(?: flight| trip)?|no (?:flight|way) back|(?:wont|not) be (?:coming|flying) back|not a return)\b"
)
_ROUND: Final = re.compile(
    r"\b(?:round ?- ?trip|round trip|roundtrip|return (?:ticket|flight|trip|fare)|there and back(?! in "
    r"(?:a|one) day)|both "
    r"ways)\b(?!(?: on| is)? (?:the )?(?:[@\d]|mon|tue|wed|thu|fri|sat|sun|"
    r"jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|next|tomorrow))"
)
_STAYS: Final = (
    # A negative number: the planner asks about it.
    (
        re.compile(
            r"(?:\b(?:for|stay(?:ing)?(?: for)?|spend(?:ing)?) (?:exactly |just |only |a total of |the "
            r")?)?(?<!\S)(-\d{1,3}) ?-? "
            r"?(?:nights?|days?|weeks?)\b"
        ),
        "less",
    ),
    (
        re.compile(
            rf"\b(?:(?:for|stay(?:ing)?(?: for)?|spend(?:ing)?) (?:exactly |just |only |a total of |the "
            rf")?)?({NUMBER})(?:-| to | or )({NUMBER}) ?-? "
            r"?(?P<unit>night)s?\b"
        ),
        "range",
    ),
    (
        re.compile(
            rf"\b(?:for|stay(?:ing)?(?: for)?|spend(?:ing)?) (?:exactly |just |only |a total of |the "
            rf")?({NUMBER})(?:-| to | or )({NUMBER}) "
            r"(?P<unit>day|week)s?\b"
        ),
        "range",
    ),
    (re.compile(rf"\b(?!an? )({NUMBER}) ?-? ?day (?:trip|stay|visit)\b"), "day"),
    (
        re.compile(
            r"\b(?:(?:for|come back|back|return(?:ing)?) )?(?:on )?(?:the |that )?(?:very )?same ?-? "
            r"?(?:day|evening|night|"
            r"afternoon)\b|\bday ?-?(?:trip|return)\b|\bfor the day\b(?! after)|\bback in (?:a|one|the "
            r"same) day\b|"
            r"\bthere and back in "
            r"(?:a|one) day\b|\bback (?:on )?that (?:same )?(?:evening|night|day)\b"
        ),
        "same",
    ),
    (
        re.compile(
            rf"\b(?:for |stay(?:ing)? (?:for )?)?(?:exactly |just |only )?({NUMBER}) ?-? ?nights?\b(?: "
            rf"(?:trip|stay))?"
        ),
        "night",
    ),
    (
        re.compile(
            rf"\b(?:for|stay(?:ing)?(?: for)?|spend(?:ing)?) (?:exactly |just |only |a total of |the "
            rf")?({NUMBER}) (?:working |business )?days?\b(?! "
            r"(?:later|from (?:now|today|tomorrow)))"
        ),
        "day",
    ),
    (
        re.compile(
            rf"\b(?:for|stay(?:ing)?(?: for)?|spend(?:ing)?) (?:exactly |just |only |a total of |the "
            rf")?({NUMBER}) weeks?\b(?! (?:later|from "
            r"(?:now|today|tomorrow)))"
        ),
        "week",
    ),
    (re.compile(r"\b(?:stay(?:ing)? )?overnight\b(?! flight)"), "overnight"),
)


# Without another day, the evening is that of the departure.
_BACK_BY_NIGHT: Final = re.compile(
    r"\b(?:back|home|return(?:ing)?)(?: home| again)? (?:(?:in the (?:late )?|that |the same |at |by )"
    r"(?:evening|night|late afternoon)|(?:at |by |around )?\d{1,2}(?::\d\d)? ?pm)\b"
)
_OVERNIGHT: Final = re.compile(r"\bovernight\b(?! flight)")


def _parse_trip_kind(text: str) -> tuple[str, str | None]:
    """Return the text without the words for it, and "one_way", "round_trip" or None."""
    one_way, both = _ONE_WAY.search(text), _ROUND.search(text)
    text = _ROUND.sub(" | ", _ONE_WAY.sub(" | ", text))
    return text, "one_way" if one_way else "round_trip" if both else None


def _parse_stay(text: str) -> tuple[str, tuple[int, ...]]:
    """Return the text without the first length of stay, and the possible numbers of nights."""
    for pattern, unit in _STAYS:
        if match := pattern.search(text):
            return f"{text[: match.start()]} | {text[match.end() :]}", _nights(unit, match)
    return text, ()


def _nights(unit: str, match: re.Match[str]) -> tuple[int, ...]:
    """Return the possible numbers of nights of a match of `_STAYS`; `unit` is the kind of its pattern."""
    if unit in ("same", "overnight"):
        return (0,) if unit == "same" else (1,)
    if unit == "less":
        return (int(match[1]),)
    if unit == "range":
        ends = sorted(parse_number(match[each]) for each in (1, 2))
        many = range(ends[0], ends[1] + 1) if ends[1] - ends[0] < MAX_CHOICES else ends
        return tuple(sorted({nights for each in many for nights in _count_nights(match["unit"], each)}))
    return _count_nights(unit, parse_number(match[1]))


def _count_nights(unit: str, many: int) -> tuple[int, ...]:
    """Return the nights of a number of weeks, nights or days; three days can be two nights or three."""
    if unit == "week":
        return (many * days.WEEK,)
    return (many,) if unit == "night" else (many - 1, many)


# --- roles --------------------------------------------------------------------------------------------------

_EVENT: Final = (
    r"\b(?:meetings?|conference|workshop|event|appointment|interview|summit|training|wedding|seminar|trade "
    r"(?:show|fair)|offsite|congress|convention|symposium|expo|exhibition|forum|hackathon|kick ?-?off)\b"
    r"[^|@]*@(\d+)"
)
_DAYS_OF_A_TRIP: Final = 2
# An hour by which the employee has to be there makes the day of a meeting the day of the flight.
_HOUR_OF_ARRIVAL: Final = re.compile(
    r"\b(?:arriv\w*|be (?:there|in|at)|land|get (?:there|in)|reach)\b[^|@]{0,30}\b(?:by|before) \d"
)
_LEAVING: Final = (
    r"\b(?:fly|flying|leave|leaving|depart|departing|departure|out|outbound|going|go|travel|travell?ing)"
    r"(?: (?:me|out|there|over|on|the|is|date|to \w+|from \w+|early|late))* @(\d+)"
)
# The words do not say which of several days they follow.
_DAY_AFTER: Final = re.compile(r"\bday after(?: that)?$|\b(?:next|following) day$")


def _assign_roles(
    text: str, found: list[Day], tied: list[tuple[int, int]], *, is_one_way: bool, is_day_trip: bool
) -> Dates:
    """Decide by the words around each marker which day is the departure and which the return.

    `tied` are pairs of markers that form a range. A day after "not" is dropped; one after "by" or "around" is
    vague.
    """
    dropped = _indexes(
        r"\b(?:not|except|never|avoid|isnt|cannot|cant)(?: on| fly(?: on)?| leave(?: on)?)? @(\d+)"
        # A past stay is not a future trip.
        r"|\b(?:(?:was|were|been) (?:in|at)|been to)(?: [a-z]+){1,3}? @(\d+)",
        text,
    )
    loose = _indexes(
        r"\b(?:by|before|after|around|about|approximately|roughly|no later than|latest|between|near|not "
        r"before)"
        r"(?: the| on)? @(\d+)|@(\d+)(?: at the latest| or (?:so|later|earlier|thereabouts))",
        text,
    ) | _indexes(r"\bbetween @\d+ and @(\d+)", text)
    loose |= _indexes(r"\bweek (?:of|commencing|beginning|starting)(?: the| on)? @(\d+)", text)
    # The day of a meeting is not the day of the flight to it.
    events = _indexes(_EVENT, text) - _indexes(_LEAVING, text)
    events |= {second for first, second in tied if first in events}
    if len(found) >= len(events) + _DAYS_OF_A_TRIP:
        # Both flights have days of their own.
        dropped |= events
    elif not (is_day_trip or _HOUR_OF_ARRIVAL.search(text)):
        loose |= events
    loose |= {at for at, day in enumerate(found) if at > 1 and _DAY_AFTER.search(day.words.strip())}
    corrected = _find_corrected(text)
    dropped |= corrected
    found = [replace(day, is_vague=True) if at in loose else day for at, day in enumerate(found)]
    back = _indexes(rf"\b{RETURN}{_FILL} @(\d+)", text)
    back |= _indexes(
        r"@\d+ (?:- |to |until |till |through |thru |and back |, ?back )(?:on |the )*@(\d+)", text
    )
    back |= _indexes(r"\bout (?:on )?@\d+[^@]*\bin on @(\d+)", text)
    back |= _indexes(r"@\d+[^@]*@(\d+) (?:back|return|home|inbound)(?= ?(?:[|,-]|$))", text)
    adjacent = _adjacent(text, found)
    back |= {second for _, second in tied} | adjacent
    # "Returning Friday, sorry, Saturday".
    back |= {at + 1 for at in corrected & back}
    # "Thursday or Friday" is one day, and which of the two is not said.
    either = _either(text, adjacent)
    back |= {second for first, second in either if first in back}
    there = [at for at in range(len(found)) if at not in back | dropped]
    returns = [found[at] for at in sorted(back) if at not in dropped]
    departure, doubtful = _find_departure(text, found, there, either, is_only_one=is_one_way or bool(returns))
    returning = days.any_of(_words(returns), returns, is_vague=True) if len(returns) > 1 else None
    return Dates(
        text, departure, returning or next(iter(returns), None), doubtful=doubtful, back=frozenset(back)
    )


def _find_corrected(text: str) -> set[int]:
    """Return the markers of days that the next one replaces: "Tuesday, no wait, Wednesday"."""
    pairs = re.finditer(r"@(\d+) ([^@]{2,40}?) ?(?=@\d)", text)
    return {int(match[1]) for match in pairs if is_correction(match[2].split())}


def _adjacent(text: str, found: list[Day]) -> set[int]:
    """Return the second of two dates without a word between them: "8 Dec 12 Dec"."""
    pairs = ((int(match[1]), int(match[2])) for match in re.finditer(r"(?=@(\d+) (?:/ )?@(\d+))", text))
    dated = {at for at, day in enumerate(found) if re.search(r"\d", day.words)}
    return {second for first, second in pairs if {first, second} <= dated}


def _either(text: str, adjacent: set[int]) -> list[tuple[int, int]]:
    """Return the pairs of markers joined by "or": "Thursday or Friday" is one day, and which is not said.

    "14 Jun / 18 Jun" are departure and return; the second is in `adjacent`.
    """
    pairs = re.finditer(r"(?=@(\d+) (?:, )?(?:or|and/or|/) (?:on |the )*@(\d+))", text)
    return [pair for pair in ((int(match[1]), int(match[2])) for match in pairs) if pair[1] not in adjacent]


def _words(found: list[Day]) -> str:
    """Return the days' words, joined by "or"."""
    return " or ".join(each.words.strip() for each in found)


def _indexes(pattern: str, text: str) -> set[int]:
    """Return the marker numbers of all matches, overlapping ones included: "@0 to @1 to @2"."""
    found: Iterable[re.Match[str]] = re.finditer(f"(?={pattern})", text)
    return {int(group) for match in found for group in match.groups() if group is not None}


def _find_departure(
    text: str, found: list[Day], there: list[int], either: list[tuple[int, int]], *, is_only_one: bool
) -> tuple[Day | None, Day | None]:
    """Return the departure, and a second day without a role, which may be the return date.

    `there` are the markers of days that are not return days; with `is_only_one` no second day is returned.
    """
    if not there:
        return None, None
    every = [found[at] for at in there]
    said = [at for at in there if at in _indexes(_LEAVING, text)]
    in_doubt = days.any_of(_words(every), every, is_vague=True)
    if len(every) > 1 and (there[0], there[1]) in either:
        return in_doubt, None
    if len(every) == 1 or len(said) == 1:
        first = said[0] if said else there[0]
        others = [found[at] for at in there if at > first]
        return found[first], others[0] if others and not is_only_one else None
    # Which of them is meant is not said. On a one-way trip, or with a known return, the other one is not part
    # of the trip.
    return (in_doubt, None) if is_only_one else (every[0], every[1])
