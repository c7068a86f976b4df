"""Dates in a sentence: finds departure, return, length of stay, and one way or round trip.

normalized text → one way? → length of stay → `date_words` replaces days by markers → the words around a
marker give its role
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from tripcortex.domain.planner import days
from tripcortex.domain.planner.date_roles import THAT_DAY, MarkedText, assign_roles
from tripcortex.domain.planner.date_words import mark_days
from tripcortex.domain.planner.days import Day
from tripcortex.domain.planner.gazetteer import MAX_CHOICES
from tripcortex.domain.planner.text_normalization import NUMBER, parse_number


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
    # The departure was named as the day of the arrival.
    arrives: bool = False


def parse_dates(plain: str, day_first: bool | None) -> Dates:
    """Parse the dates of a normalized text. `day_first` says whether 3/4 is in April; None if unknown."""
    text, trip = _parse_trip_kind(plain)
    is_night = bool(_OVERNIGHT.search(text))
    text, stay = _parse_stay(text)
    is_back_by_night = bool(_BACK_BY_NIGHT.search(text))
    is_night = is_night and stay == (1,)
    text, found, tied = mark_days(text, day_first)
    marked = MarkedText(text, tuple(found), tuple(tied))
    roles = assign_roles(marked, is_one_way=trip == "one_way", is_day_trip=stay == (0,))
    dates = Dates(
        text,
        roles.departure,
        roles.returning,
        doubtful=roles.doubtful,
        back=roles.back,
        arrives=roles.arrives,
    )
    if roles.departure is None and not stay and trip is None and _THERE_AND_BACK.search(text):
        # "From Boston to Chicago and back on 5 May".
        return replace(dates, departure=roles.returning, returning=None, stay=(0,))
    if roles.is_day_trip:
        return replace(dates, returning=None, stay=(0,), trip=trip)
    if THAT_DAY in text and dates.returning:
        stay = ()
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
    r"\b(?:round ?- ?trip|round trip|roundtrip|return (?:ticket|flight|trip|fare)s?|(?:a|one) return(?= "
    r"(?:to|from) )|there and back(?! in "
    r"(?:a|one) day)|both "
    r"ways)\b(?!(?: on| is)? (?:the )?(?:[@\d]|evening|morning|afternoon|night|mon|tue|wed|thu|fri|sat|sun|"
    r"that|same|this|one|two|three|"
    r"four|five|six|seven|a (?:week|day)|in \w+ (?:days|weeks)|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|"
    r"dec|next|tomorrow))"
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
            r"(?:a|one) day\b|\b(?:out|there) and back(?: again)?(?= (?:on )?(?:this |next |the )?(?:\d|"
            r"mon|tue|wed|thu|fri|sat|sun|"
            r"tomorrow|today))|\b(?:back|home|return(?:ing)?) (?:on )?that (?:same )?(?:evening|night|day|"
            r"afternoon)\b"
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
    (
        re.compile(r"\b(?:stay(?:ing)? )?overnight\b(?! flight)(?!.{0,16}\b(?:twice|two|three|2|3)\b)"),
        "overnight",
    ),
)


# Without another day, the evening is that of the departure.
_BACK_BY_NIGHT: Final = re.compile(
    r"\b(?:last|late|latest|evening) (?:one |flight |plane )?(?:back|home)\b|"
    r"\b(?:back|home|return(?:ing)?|down|fly(?:ing)? back)(?: home| again)? (?:(?:in the (?:late )?|that |"
    r"the same |at |by )"
    r"(?:evening|night|afternoon|late afternoon)|(?:on )?the (?:last|late|evening) (?:flight|plane|one)|"
    r"(?:at |by |around )?\d{1,2}(?::\d\d)? ?pm)\b"
)
_THERE_AND_BACK: Final = re.compile(
    r"^[^@]*\b(?:to|there|out) (?:[a-z ]+ )?and back (?:again )?(?:on )?@0[^@]*$"
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
            mark = f"{THAT_DAY} " if unit == "same" and " that " in f" {match[0]} " else ""
            return f"{text[: match.start()]} | {mark}{text[match.end() :]}", _nights(unit, match)
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
