"""Roles of the days in a sentence: which one is the departure, which one the return, and which play no part.

text with day markers → dropped and vague days → return days by the words before and after each marker →
departure, return, and a second day whose role has to be asked
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Final, NamedTuple

from tripcortex.domain.planner import days
from tripcortex.domain.planner.days import Day
from tripcortex.domain.planner.text_normalization import is_correction

# Words of the return flight, directly before a day or an hour.
RETURN: Final = (
    r"(?:return(?:ing|s)?|(?:com(?:e|ing)|fly(?:ing)?|get(?:ting)?|be|go(?:ing)?|head(?:ing)?)? ?back"
    r"|(?:com(?:e|ing) |fly(?:ing)? |head(?:ing)? |go(?:ing)? |get(?:ting)? )?home|homeward|inbound|"
    r"(?:down|up|over|out) again|until|till|til|through|thru)"
)
_EVENT_NOUN: Final = (
    r"(?:meetings?|conference|workshop|event|appointment|interview|summit|training|wedding|seminar|trade "
    r"(?:show|fair)|fair|offsite|congress|convention|symposium|expo|exhibition|forum|hackathon|"
    r"kick ?-?off|audit|demo|presentation|pitch|hearing|ceremony|course|retreat|gala|award|exam|review|"
    r"keynote|talk|speech|go ?-?live|launch|inspection|deadline|session|webinar|roadshow|town ?hall|agm|"
    r"negotiations?)"
)
# The words between an event and its day, up to a word of the flight.
_BETWEEN: Final = (
    r"(?: (?!so|please|pls|book|fly|flying|need|want|get|leave|leaving|depart\w*|travel\w*|flights?|id|ill|"
    r"out|back|going|heading|trip|go|want)[\w,/-]+)*?"
)
_EVENT: Final = rf"\b{_EVENT_NOUN}\b{_BETWEEN} @(\d+)"
_EVENT_AFTER: Final = (
    r"\b(?:on )?@(\d+) (?:im|i am|ill be|i will be|we are|i have|ive got|theres|there is) (?:giving|"
    r"speaking|presenting|attending|hosting|"
    r"meeting|running|an?|the|our)\b|"
    rf"\b(?:the|my|our|a|an|for) @(\d+) (?:(?!for|to|at|from|on|in|with|and|till?|until)\w+ )?{_EVENT_NOUN}\b"
)
_PURPOSE: Final = rf"\b(?:for|because|since)\b(?: (?!and|then)\w+){{0,4}}? {_EVENT_NOUN}\b{_BETWEEN} @(\d+)"
_DAYS_OF_A_TRIP: Final = 2
# An hour by which the employee has to be there makes the day of a meeting the day of the flight.
_HOUR_OF_ARRIVAL: Final = re.compile(
    r"\b(?:arriv\w*|be (?:there|in|at)|land|get (?:there|in)|reach)\b[^|@]{0,30}\b(?:by|before) \d"
)
_THAT_MORNING: Final = re.compile(
    r"\b(?:fly|flying|go|going|travel|leave|out|there)\b[^|@]{0,25}\b(?:that|the same) (?:very "
    r")?(?:morning|day|afternoon|evening)\b"
)
_LEAVING: Final = (
    r"\b(?:fly|flying|leave|leaving|depart|departing|departure|out|outbound|going|go|travel|travell?ing)"
    r"(?: (?:me|out|there|over|down|up|on|the|in|is|date|to \w+|from \w+|early|late|flight))* @(\d+)"
)
_DROPPED: Final = (
    r"\b(?:not|except|never|avoid|isnt|cannot|cant)(?: on| fly(?: on)?| leave(?: on)?)? @(\d+)"
    # A past stay is not a future trip.
    r"|\b(?:(?:was|were|been) (?:in|at)|been to)(?: [a-z]+){1,3}? @(\d+)"
)
_LOOSE: Final = (
    r"\b(?:by|before|after|around|about|approximately|roughly|no later than|latest|between|near|not "
    r"before)"
    r"(?: the| on)? @(\d+)|@(\d+)(?: at the latest| or (?:so|later|earlier|thereabouts))"
)
_WEEK_OF: Final = r"\bweek (?:of|commencing|beginning|starting)(?: on)?(?: the| on)? @(\d+)"
# The words do not say which of several days they follow.
_DAY_AFTER: Final = re.compile(r"\bday after(?: that)?$|\b(?:next|following) day$")
_DAY_BEFORE: Final = re.compile(r"\b(?:day|night|evening|afternoon|morning) (?:before|prior|earlier)$")
# A word of the return flight anywhere between the day before and this day.
_BACK_WORD: Final = re.compile(
    r"\b(?:return(?:ing|s)?|back|home(?!town)|homeward|homebound|inbound|(?:down|up|over) again)\b"
    r"(?! (?:to back|office|bay|end|up plan|depot|games?))"
)
_OUT_WORD: Final = re.compile(
    r"\b(?:out|outbound|outward|onward|leave|leaving|depart|departs|departing|departure|there|"
    r"fly|flying|going|go|get|travel(?:l?ing)?|start(?:ing)?)\b(?! (?:back|home|return))"
)
_OWN_BACK: Final = re.compile(
    r" ?(?:,|-|is|for)? ?(?:the |my )?(?:return|back home|back|home|inbound)"
    r"(?= ?(?:[|,-]|$)| (?:flight|leg|trip|journey|after|before|at|in|around|by|from|to|with|please|again)\b)"
)
_OWN_OUT: Final = re.compile(
    r" ?(?:,|-|is|for)? ?(?:the |my )?(?:out|outbound|there|departure|depart|leave)"
    r"(?= ?(?:[|,-]|$)| (?:and|flight|leg|after|before|at|in|around|by)\b)"
)
# "Fly out on Monday, meeting on Tuesday, back that evening."
THAT_DAY: Final = "thatday"
_THAT_DAY: Final = rf"@(\d+)[^@]*\b{THAT_DAY}\b"
_ARRIVING: Final = (
    r"\b(?:arriv\w+|landing|land|lands|(?:fly|flying|get|getting|go|going)(?: me)? in|in)"
    r"(?: there| in \w+| at \w+| on| the| early| late)* "
)
_ARRIVAL_DAY: Final = (
    r"\b(?:arriv\w+|landing|land|lands)(?: there| in \w+| at \w+| on| the| early| late)* @(\d+)"
)


class Roles(NamedTuple):
    """The departure, the return, and a second day without a role; `back` are the markers of return days."""

    departure: Day | None = None
    returning: Day | None = None
    doubtful: Day | None = None
    back: frozenset[int] = frozenset()
    # The departure was named as the day of the arrival.
    arrives: bool = False
    # The return is later on the day of the departure.
    is_day_trip: bool = False


@dataclass(frozen=True)
class MarkedText:
    """A text with day markers, the days of the markers, and the pairs of markers that form one range."""

    text: str
    found: tuple[Day, ...]
    tied: tuple[tuple[int, int], ...] = ()


def assign_roles(marked: MarkedText, *, is_one_way: bool, is_day_trip: bool) -> Roles:
    """Decide by the words around each marker which day is the departure and which the return.

    A day after "not" is dropped; one after "by" or "around" is vague.
    """
    text, found = marked.text, list(marked.found)
    events = _find_events(marked)
    found, used = _anchor_neighbours(found, events)
    dropped = _find_dropped(marked, events, used)
    adjacent = _find_adjacent(text, found)
    back = _find_back(marked, adjacent, dropped)
    loose = _find_loose(text, found, used)
    is_flight_day = is_day_trip or bool(_HOUR_OF_ARRIVAL.search(text) or _THAT_MORNING.search(text))
    if not (dropped & events or is_flight_day):
        # "Fly to Munich for a meeting on Monday, back on Tuesday" names both flights.
        loose |= events - (find_markers(_PURPOSE, text) if is_one_way or back - events else set())
    found = [replace(day, is_vague=True) if at in loose else day for at, day in enumerate(found)]
    either = _find_either(text, adjacent)
    # "Thursday or Friday" is one day, and which of the two is not said.
    back |= {second for first, second in either if first in back}
    there = _drop_repeated([at for at in range(len(found)) if at not in back | dropped], found)
    returns = _drop_repeated([at for at in sorted(back) if at not in dropped], found)
    if not there and len(returns) > 1:
        # "A return to Rome on 3 May, back on 5 May".
        there, returns = returns[:1], returns[1:]
    departure, doubtful = _find_departure(text, found, there, either, is_only_one=is_one_way or bool(returns))
    several = [found[at] for at in returns]
    returning = days.any_of(_join_words(several), several, is_vague=True) if len(several) > 1 else None
    if not several and departure is not None and len(found) > 1:
        later = [found[at] for at in find_markers(_THAT_DAY, text) if found[at] is not departure]
        several = [replace(each, is_vague=False) for each in later]
    arrivals = [found[at] for at in find_markers(_ARRIVAL_DAY, text)]
    return Roles(
        departure,
        returning or next(iter(several), None),
        doubtful,
        frozenset(back - set(there)),
        any(each is departure for each in arrivals),
        departure is not None and len(returns) == 1 and _is_that_evening(text, returns[0], found, departure),
    )


def _is_that_evening(text: str, at: int, found: list[Day], departure: Day) -> bool:
    """Return whether the return is on the evening of the departure: "Wednesday, back Wednesday night"."""
    one, other = (re.sub(r"^on ", "", each.words.strip()) for each in (found[at], departure))
    return one == other and bool(
        re.search(rf"@{at} (?:in the )?(?:late )?(?:evening|night|afternoon|pm)\b", text)
    )


def _find_loose(text: str, found: list[Day], used: set[int]) -> set[int]:
    """Return the markers of days that the words around them leave open."""
    loose = find_markers(_LOOSE, text) | find_markers(r"\bbetween @\d+ and @(\d+)", text)
    after = [at for at, day in enumerate(found) if at > 1 and _DAY_AFTER.search(day.words.strip())]
    return loose | find_markers(_WEEK_OF, text) | {at for at in after if at not in used}


# --- days that play no part ---------------------------------------------------------------------------------


def _find_events(marked: MarkedText) -> set[int]:
    """Return the markers of the days of a meeting or conference: they are not days of a flight."""
    events = find_markers(_EVENT, marked.text) - find_markers(_LEAVING, marked.text)
    events |= find_markers(_EVENT_AFTER, marked.text)
    return events | {second for first, second in marked.tied if first in events}


def _anchor_neighbours(found: list[Day], events: set[int]) -> tuple[list[Day], set[int]]:
    """Count "the day before" and "the day after" from the event that is named before them.

    Without an event, "the night before" is that before the day named last. Return the days, and the
    markers of those that were counted; the days that they were counted from become events.
    """
    used: set[int] = set()
    done = list(found)
    for at, day in enumerate(found):
        definite = [each for each in range(at) if not found[each].is_vague]
        named = [each for each in definite if each in events]
        words = day.words.strip()
        if definite and _DAY_BEFORE.search(words):
            base = min(named) if named else definite[-1]
            done[at] = _shift_day(day, found[base], -1)
            events.add(base)
        elif named and _DAY_AFTER.search(words):
            done[at] = _shift_day(day, found[max(named)], 1)
        else:
            continue
        used.add(at)
    return done, used


def _shift_day(day: Day, base: Day, offset: int) -> Day:
    """Return the day that many days after the base day, with its own words."""

    def readings(today: date, after: date | None) -> tuple[date, ...]:
        return tuple(each + timedelta(days=offset) for each in base.resolve(today, None))

    return Day(day.words, readings)


def _find_dropped(marked: MarkedText, events: set[int], used: set[int]) -> set[int]:
    """Return the markers of days that are no day of the trip."""
    text, count = marked.text, len(marked.found)
    dropped = find_markers(_DROPPED, text) | _find_corrected(text)
    if used or count >= len(events) + _DAYS_OF_A_TRIP:
        # Both flights have days of their own.
        dropped |= events
    week = find_markers(_WEEK_OF, text)
    if count >= len(dropped | week) + _DAYS_OF_A_TRIP:
        dropped |= week
    arriving = find_markers(_ARRIVAL_DAY, text) - {0}
    # "Overnight on 18 May, arriving on 19 May".
    return dropped | {at for at in arriving if at - 1 not in dropped}


def _find_corrected(text: str) -> set[int]:
    """Return the markers of days that the next one replaces: "Tuesday, no wait, Wednesday"."""
    pairs = re.finditer(r"@(\d+) ([^@]{2,40}?) ?(?=@\d)", text)
    return {int(match[1]) for match in pairs if is_correction(match[2].split())}


def _drop_repeated(markers: list[int], found: list[Day]) -> list[int]:
    """Return the markers without days that were named before: "on Wednesday, … Wednesday morning"."""
    kept: list[int] = []
    for at in markers:
        same = next((each for each in kept if _is_same_day(found[at], found[each])), None)
        if same is None:
            kept.append(at)
        elif len(found[same].resolve(_SAMPLE_DAYS[0])) > 1:
            # "On Republic Day, 26 January": the date says of which country.
            kept[kept.index(same)] = at
    return kept


# Two days are the same if they are on each of these days.
_SAMPLE_DAYS: Final = (date(2026, 1, 1), date(2026, 3, 18), date(2026, 8, 29))


def _is_same_day(one: Day, other: Day) -> bool:
    """Return whether both words name the same day, whenever they are said."""
    if one.is_vague or other.is_vague:
        return False
    readings = [(one.resolve(each), other.resolve(each)) for each in _SAMPLE_DAYS]
    if one.in_country or other.in_country:
        return all(set(first) & set(second) for first, second in readings)
    return all(first and first == second for first, second in readings)


# --- the return ---------------------------------------------------------------------------------------------


def _find_back(marked: MarkedText, adjacent: set[int], dropped: set[int]) -> set[int]:
    """Return the markers of return days."""
    text = marked.text
    back = find_markers(
        rf"\b{RETURN} (?:on |the |is |at |early |late |morning |afternoon |evening |night |of )*@(\d+)", text
    )
    back |= find_markers(
        r"@\d+ (?:- |to |until |till |through |thru |and back |, ?back )(?:on |the )*@(\d+)", text
    )
    back |= find_markers(r"\bout (?:on )?@\d+[^@]*\bin on @(\d+)", text)
    back |= find_markers(r"\bup (?:on )?@\d+[^@]*\bdown (?:again )?(?:on )?@(\d+)", text)
    back |= find_markers(r"\bdown (?:on )?@\d+[^@]*\bup (?:again )?(?:on )?@(\d+)", text)
    # "Arrive on the 19th, leave on the 21st", "fly in on Monday and out on Tuesday".
    back |= find_markers(
        r"\b(?:arriv\w+|land|landing|get in)(?: (?!leav|depart|back)\w+){0,6} @\d+[^@]*\b(?:leav|"
        r"depart)\w*(?: \w+){0,6} @(\d+)",
        text,
    )
    back |= find_markers(
        rf"{_ARRIVING}@\d+[^@]*\b(?:leav|depart|out)\w*(?: (?!back|home)\w+){{0,5}} @(\d+)", text
    )
    back |= _find_back_by_words(text)
    back |= {second for _, second in marked.tied} | adjacent
    corrected = _find_corrected(text)
    # "Returning Friday, sorry, Saturday".
    back |= {at + 1 for at in corrected & back}
    return back


def _find_back_by_words(text: str) -> set[int]:
    """Return the markers whose own words name the return: those between them and the day before, or after.

    "Monday out, Wednesday back" has the words after the days.
    """
    pieces = re.split(r"@(\d+)", text)
    markers, between = [int(each) for each in pieces[1::2]], pieces[::2]
    if not markers:
        return set()
    if _OWN_OUT.match(between[1]) and _OWN_BACK.match(between[-1]) and not _BACK_WORD.search(between[0]):
        after = zip(markers, between[1:], strict=True)
        return {at for at, words in after if _OWN_BACK.match(words)}
    found = {at for at, words in zip(markers, between, strict=False) if _leads_back(words)}
    if _OWN_BACK.match(between[-1]) and len(markers) > 1:
        found.add(markers[-1])
    return found


# A sentence of so many words before a day is not about the day of the sentence before it.
_WORDS_OF_A_SENTENCE: Final = 3


def _leads_back(words: str) -> bool:
    """Return whether the words before a day name the return flight: by the last clause with such a word."""
    last = words.rpartition("|")[2]
    if len(re.findall(r"[a-z]{2,}", last)) >= _WORDS_OF_A_SENTENCE:
        words = last
    for clause in reversed(re.split(r"[|]|,(?! )|\band\b|\bthen\b", words)):
        if _BACK_WORD.search(clause):
            return True
        if _OUT_WORD.search(clause):
            return False
    return False


def _find_adjacent(text: str, found: list[Day]) -> set[int]:
    """Return the second of two dates with nothing but a comma between them: "8 Dec 12 Dec"."""
    pairs = ((int(match[1]), int(match[2])) for match in re.finditer(r"(?=@(\d+) (?:[/,] )?@(\d+))", text))
    dated = {at for at, day in enumerate(found) if re.search(r"\d", day.words)}
    return {second for first, second in pairs if {first, second} <= dated}


def _find_either(text: str, adjacent: set[int]) -> list[tuple[int, int]]:
    """Return the pairs of markers joined by "or": "Thursday or Friday" is one day, and which is not said.

    "14 Jun / 18 Jun" are departure and return; the second is in `adjacent`.
    """
    pairs = re.finditer(r"(?=@(\d+) (?:, )?(?:or|and/or|/) (?:on |the )*@(\d+))", text)
    return [pair for pair in ((int(match[1]), int(match[2])) for match in pairs) if pair[1] not in adjacent]


def _join_words(found: list[Day]) -> str:
    """Return the days' words, joined by "or"."""
    return " or ".join(each.words.strip() for each in found)


def find_markers(pattern: str, text: str) -> set[int]:
    """Return the marker numbers of all matches, overlapping ones included: "@0 to @1 to @2"."""
    found: Iterable[re.Match[str]] = re.finditer(f"(?={pattern})", text)
    return {int(group) for match in found for group in match.groups() if group is not None}


# --- the departure ------------------------------------------------------------------------------------------


def _find_departure(
    text: str, found: list[Day], there: list[int], either: list[tuple[int, int]], *, is_only_one: bool
) -> tuple[Day | None, Day | None]:
    """Return the departure, and a second day without a role, which may be the return date.

    `there` are the markers of days that are not return days; with `is_only_one` no second day is returned.
    """
    if not there:
        return None, None
    definite = [at for at in there if not found[at].is_vague]
    if definite and len(definite) < len(there) and (there[0], there[1]) not in either:
        # "Some time next week, Tuesday 4 May".
        there = definite
    every = [found[at] for at in there]
    said = [at for at in there if at in find_markers(_LEAVING, text)]
    in_doubt = days.any_of(_join_words(every), every, is_vague=True)
    if len(every) > 1 and (there[0], there[1]) in either:
        return in_doubt, None
    if len(every) == 1 or len(said) == 1:
        first = said[0] if said else there[0]
        others = [found[at] for at in there if at > first]
        return found[first], others[0] if others and not is_only_one else None
    # Which of them is meant is not said. On a one-way trip, or with a known return, the other one is not part
    # of the trip.
    return (in_doubt, None) if is_only_one else (every[0], every[1])
