"""Finds day words in a normalized sentence, replaces each by a marker @0, @1 … and returns its `Day`.

A marker also shows the later parsers where a day was, so that no city's name crosses it. Patterns are tried
in order, the most exact first; the first match takes the words.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from typing import Final

from tripcortex.domain.planner import days
from tripcortex.domain.planner.days import Day
from tripcortex.domain.planner.public_holidays import HOLIDAY_NAMES
from tripcortex.domain.planner.text_normalization import NUMBER, parse_number

_WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MONTHS: Final = (
    "january february march april may june july august september october november december".split()
)
W: Final = (
    r"(mon(?:day)?|tue(?:s(?:day)?)?|wed(?:s|nes(?:day)?)?|thu(?:rs?(?:day)?)?|fri(?:day)?|sat(?:urday)?"
    r"|sun(?:day)?)"
)
M: Final = (
    r"(jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|"
    r"oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)"
)
D: Final = r"(\d{1,2})(?:st|nd|rd|th)?"
_WORD_ORDINALS: Final = "first second third fourth fifth sixth seventh eighth ninth tenth".split()
_NTH: Final = rf"(\d{{1,2}}(?:st|nd|rd|th)?|{'|'.join(_WORD_ORDINALS)})"
_YEAR: Final = r"(?:(?: ,)? (\d{4}))?"
_TO: Final = r"(?: ?- ?| to | until | till | through | thru )(?:the )?"
_CENTURY: Final = 100
_DECADE_DIGITS: Final = 2
_MAX_MONTHS: Final = 12

_WEEKS_OF_MONTH: Final = ("first", "second", "third", "fourth", "last")
_NTH_WEEKDAY: Final = f"({'|'.join(_WEEKS_OF_MONTH)})"
_NUMBERS: Final = re.compile(r"(?<![\d$€£/.])(\d{1,2})[/-](\d{1,2})(?=[/-]\d{2,4}(?![\d/])|(?![\d/-]))")
_NAMED_WEEK: Final = re.compile(
    rf"(?:\b{W}s? ?,? ?)?(?<!end of )(?<!beginning of )(?<!start of )(?<!middle of )\b(?:on |in |of "
    rf")?(?:the )?"
    rf"(?P<name>next week(?! after)|this week|week after next)\b(?P<after>(?: on)?(?: ,)? {W})?"
)
_MONTH_OF_DAY: Final = re.compile(rf"\b(?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?: of)? (?P<month>{M})\b")
_RETURNS: Final = re.compile(r"\b(?:back|return\w*|home|until|till|through|to)\b")
_BARE_ORDINAL: Final = re.compile(
    rf"\bthe (\d{{1,2}})(?:st|nd|rd|th)\b(?!(?: of)? (?:{M}|this|next)\b| to | ?-)"
)
_BARE_WEEKDAY: Final = re.compile(
    rf"(?<!next )(?<!this )(?<!last )(?<!coming )(?<!following )(?<!every )(?<!that )\b{W}\b(?! ?,? (?:the "
    rf")?\d)"
)

DayTuple = tuple[Day, ...]
DayBuilder = Callable[[re.Match[str], bool | None], DayTuple]


def mark_days(text: str, day_first: bool | None) -> tuple[str, list[Day], list[tuple[int, int]]]:
    """Return the text with markers, the days of the markers, and the pairs of markers that form one range.

    `day_first` says whether 3/4 is in April; None if unknown.
    """
    spans: list[tuple[int, int, DayTuple]] = []
    left = text = _spread_month(_spread_week(text))
    order = _infer_order(text)
    day_first = day_first if order is None else order
    for pattern, maker in _PATTERNS:
        for match in pattern.finditer(left):
            made = maker(match, day_first)
            if made:
                spans.append((match.start(), match.end(), made))
                left = left[: match.start()] + "\0" * (match.end() - match.start()) + left[match.end() :]
    found: list[Day] = []
    tied: list[tuple[int, int]] = []
    pieces, at = [], 0
    for start, end, made in sorted(spans, key=lambda each: each[0]):
        first = len(found)
        found.extend(made)
        if len(made) > 1:
            tied.append((first, first + 1))
        pieces += [text[at:start], " ", " ".join(f"@{first + offset}" for offset in range(len(made))), " "]
        at = end
    return re.sub(r" +", " ", "".join(pieces) + text[at:]), found, tied


def _infer_order(text: str) -> bool | None:
    """Return whether the day comes first in the dates of the text, by a number over 12; None if unknown."""
    orders = {
        int(match[1]) > _MAX_MONTHS
        for match in _NUMBERS.finditer(text)
        if (int(match[1]) > _MAX_MONTHS) != (int(match[2]) > _MAX_MONTHS)
    }
    return orders.pop() if len(orders) == 1 else None


def _spread_week(text: str) -> str:
    """Return the text with the week at each weekday that shares it: "next week: Wednesday to Friday"."""
    week = _NAMED_WEEK.search(text)
    if week is None or week["after"]:
        return text
    if week[1] is None:
        rest = f"{text[: week.start()]} {text[week.end() :]}"
        return _BARE_WEEKDAY.sub(rf"\1 {week['name']}", rest)
    last = _parse_weekday(week[1]) or 0

    def spread(match: re.Match[str]) -> str:
        # "Friday to Monday next week" begins this week.
        is_earlier = (_parse_weekday(match[1]) or 0) < last
        return f"{match[1]} {week['name']}" if is_earlier else match[0]

    return _BARE_WEEKDAY.sub(spread, text[: week.start()]) + text[week.start() :]


def _spread_month(text: str) -> str:
    """Return the text with its only month at each day without one: "the 3rd, back on 7 June".

    A smaller number before it is of that month, a larger one of the month before: "the 28th, back on 2
    June". A smaller number after it stays as it is if it is a return: "28 May, back the 2nd".
    """
    months = list(_MONTH_OF_DAY.finditer(text))
    if len(months) != 1:
        return text
    only = months[0]
    month, day = _parse_month(only["month"]), int(only["day"])

    def spread(match: re.Match[str]) -> str:
        is_before, named = match.start() < only.start(), int(match[1])
        if not is_before and named < day and _RETURNS.search(text[only.end() : match.start()]):
            return match[0]
        of = (month - 2) % _MAX_MONTHS if is_before and named > day else month - 1
        return f"{match[0]} {_MONTHS[of]}"

    return _BARE_ORDINAL.sub(spread, text)


def _parse_weekday(word: str | None) -> int | None:
    """Return the weekday's number, 0 for Monday, or None."""
    return next((at for at, each in enumerate(_WEEKDAYS) if word and each.startswith(word[:3])), None)


def _parse_month(word: str) -> int:
    return next(at for at, each in enumerate(_MONTHS, 1) if each.startswith(word[:3]))


def _build_day(words: str, month: int, day: int, year: str | None, of_week: int | None = None) -> Day:
    """Return the day of a month with or without a year, on weekday `of_week` if that is named.

    A date that does not exist, or whose weekday differs, is a day without dates.
    """
    if year is None:
        return days.month_day(words, month, day, of_week)
    full = int(year) + (20 * _CENTURY if len(year) == _DECADE_DIGITS else 0)
    try:
        return days.fixed_day(
            words, *(each for each in (date(full, month, day),) if of_week in (None, each.weekday()))
        )
    except ValueError:
        return days.fixed_day(words)


def _iso(match: re.Match[str], _: bool | None) -> DayTuple:
    """Build the day of `2026-04-03`."""
    return (
        (_build_day(match[0], int(match[2]), int(match[3]), match[1]),)
        if int(match[2]) <= _MAX_MONTHS
        else (days.fixed_day(match[0]),)
    )


def _numeric(match: re.Match[str], day_first: bool | None) -> DayTuple:
    """Parse 3/4 and 3-4-2026: both orders if the locale is unknown. With dots the day always comes first."""
    one, other, year = int(match[1]), int(match[3]), match[4] or None
    if match[2] == ".":
        day_first = True
    orders = {None: ((one, other), (other, one)), True: ((other, one),), False: ((one, other),)}[day_first]
    possible = [order for order in dict.fromkeys(orders) if 1 <= order[0] <= _MAX_MONTHS]
    read = [_build_day(match[0], month, day, year) for month, day in possible]
    return (days.any_of(match[0], read, is_vague=len(read) > 1 and year is None),)


def _weekday_numeric(match: re.Match[str], _: bool | None) -> DayTuple:
    """Build the day of "Mon 30/11": the weekday decides which number is the month."""
    one, other, of_week = int(match["one"]), int(match["other"]), _parse_weekday(match["week"])
    orders = [order for order in dict.fromkeys(((one, other), (other, one))) if 1 <= order[0] <= _MAX_MONTHS]
    read = [_build_day(match[0], month, day, match["year"], of_week) for month, day in orders]
    return (days.any_of(match[0], read, is_vague=False),)


def _month_range(match: re.Match[str], _: bool | None) -> DayTuple:
    """Build both days of "April 3 to 5"."""
    month = _parse_month(match[1])
    return tuple(_build_day(match[0], month, int(day), match[4]) for day in (match[2], match[3]))


def _range_month(match: re.Match[str], _: bool | None) -> DayTuple:
    """Build both days of "3 to 5 April"."""
    month = _parse_month(match[3])
    return tuple(_build_day(match[0], month, int(day), match[4]) for day in (match[1], match[2]))


def _dotted_range(match: re.Match[str], _: bool | None) -> DayTuple:
    """Build both days of "8.-11.6."."""
    month = int(match[3])
    if not 1 <= month <= _MAX_MONTHS:
        return ()
    return tuple(_build_day(match[0], month, int(day), match[4]) for day in (match[1], match[2]))


def _holiday(match: re.Match[str]) -> Day:
    """Build the day of "Boxing Day" or "the day before Thanksgiving"."""
    side = match["side"]
    offset = 0 if not side else 1 if side.endswith("after") else -1
    return days.holiday(match[0], match["holiday"], offset)


def _either_of_month(match: re.Match[str], _: bool | None) -> DayTuple:
    """Build the vague day of "3 or 4 April" and "between April 3 and 5"."""
    groups = [each for each in match.groups() if each]
    month = next(_parse_month(each) for each in groups if not each.isdigit())
    read = [_build_day(match[0], month, int(each), None) for each in groups if each.isdigit()]
    return (days.any_of(match[0], read, is_vague=True),)


def _two_days(match: re.Match[str], _: bool | None) -> DayTuple:
    """Build both days of "8 Dec 12 Dec", which is not 8, Dec 12, Dec."""
    pairs = ((match[2], match[1]), (match[4], match[3]))
    return tuple(
        _build_day(f"{day} {month}", _parse_month(month), int(day), match[5]) for month, day in pairs
    )


def _month_then_day(match: re.Match[str], _: bool | None) -> DayTuple:
    """Build the day of "Friday April 3, 2026"; weekday and year may be absent."""
    return (
        _build_day(match[0], _parse_month(match[2]), _ordinal(match[3]), match[4], _parse_weekday(match[1])),
    )


def _day_then_month(match: re.Match[str], _: bool | None) -> DayTuple:
    """Build the day of "Friday 3 April 2026"; weekday and year may be absent."""
    return (
        _build_day(match[0], _parse_month(match[3]), _ordinal(match[2]), match[4], _parse_weekday(match[1])),
    )


def _ordinal(word: str) -> int:
    """Return the number of "first" or "3rd"."""
    return _WORD_ORDINALS.index(word) + 1 if word in _WORD_ORDINALS else int(re.sub(r"\D", "", word))


def _nth(match: re.Match[str], _: bool | None) -> DayTuple:
    """Build the day of "the 16th", also "Friday the 16th" and "the 16th of this month" or "next month"."""
    month = match["month"] if "month" in match.re.groupindex else None
    ahead = None if month is None else 0 if month == "this" else 1
    return (
        days.day_of_month(match[0], int(match["day"]), _parse_weekday(match.groupdict().get("week")), ahead),
    )


def _nth_weekday(match: re.Match[str], _: bool | None) -> DayTuple:
    """Build the day of "the first Monday in December"."""
    week = _WEEKS_OF_MONTH.index(match[1])
    return (days.weekday_of_month(match[0], week, _parse_weekday(match[2]) or 0, _parse_month(match[3])),)


def _plain(build: Callable[[re.Match[str]], Day]) -> DayBuilder:
    """Return a `DayBuilder` from a function that needs only the match and builds one day."""
    return lambda match, _: (build(match),)


def _in(match: re.Match[str]) -> Day:
    """Build the day of "in two weeks" or "in a month"."""
    many, unit = parse_number(match[1]), match[2]
    if unit.startswith("month"):
        return days.months_from_today(match[0], many)
    return days.from_today(match[0], many * _unit_days(unit))


def _unit_days(unit: str) -> int:
    """Return the days of a unit: day, week or fortnight."""
    return 14 if unit.startswith("fortnight") else days.WEEK if unit.startswith("week") else 1


def _weeks_from(match: re.Match[str]) -> Day:
    """Build the day of "two weeks from Friday"."""
    return days.weekday_ahead(match[0], _parse_weekday(match[2]) or 0, parse_number(match[1]))


def _weeks_from_one(match: re.Match[str]) -> Day:
    """Return the day of "a fortnight on Friday"."""
    return days.weekday_ahead(match[0], _parse_weekday(match[2]) or 0, _unit_days(match[1]) // days.WEEK)


def _in_weeks(match: re.Match[str]) -> Day:
    """Build the day of "Friday in two weeks"."""
    return days.weekday_of_week(match[0], _parse_weekday(match[1]) or 0, parse_number(match[2]))


def _of_week(how: str, group: int = 1) -> DayBuilder:
    """Return a `DayBuilder` of the weekday in the match's `group`; `how` is as in `days.weekday`."""
    return _plain(lambda match: days.weekday(match[0], _parse_weekday(match[group]) or 0, how))


_UNIT: Final = r"(days?|weeks?|months?|fortnights?)"
# The first that matches takes the words.
_PATTERNS: Final[tuple[tuple[re.Pattern[str], DayBuilder], ...]] = tuple(
    (re.compile(pattern), maker)
    for pattern, maker in (
        (r"\b(\d{4})-(\d{1,2})-(\d{1,2})\b", _iso),
        (
            rf"\b(?P<week>{W}) ?,? (?P<one>\d{{1,2}})/(?P<other>\d{{1,2}})(?:/(?P<year>\d{{4}}|"
            rf"\d\d))?(?![\d/])",
            _weekday_numeric,
        ),
        (r"(?<![\d$€£/.])(\d{1,2})([/.-])(\d{1,2})\2(\d{4}|\d{2})(?![\d/])", _numeric),
        (r"(?<![\d$€£/.])(\d{1,2})(/)(\d{1,2})()(?![\d/])", _numeric),
        (r"(?<![\d$€£/.])(\d{1,2})\.? ?- ?(\d{1,2})\.(\d{1,2})\.?(\d{4})?(?![\d/.])", _dotted_range),
        (
            rf"\b(?:(?P<side>(?:the )?(?:day|night|evening) (?:before|after)|the eve of) "
            rf")(?P<holiday>{HOLIDAY_NAMES})\b",
            _plain(_holiday),
        ),
        (rf"\b(?P<holiday>{HOLIDAY_NAMES}) (?P<side>eve)\b", _plain(_holiday)),
        (rf"\b(?P<side>)(?P<holiday>{HOLIDAY_NAMES})\b", _plain(_holiday)),
        # Either a stay from a day on, or a day that long after another: the words do not say which.
        (
            rf"\b{NUMBER} {_UNIT} (?:from|after|following|before|prior to|ahead of) (?:the )?(?:{M} (?:the "
            rf")?{_NTH}\b|{_NTH}(?: of)? ?{M}\b)",
            _plain(lambda match: days.vague_day(match[0])),
        ),
        # One of several days, and the words do not say which.
        (
            rf"\b(?:(?:any ?day|any ?time|some ?time|some day) )?(?:between|either) (?:the )?{D}(?: "
            rf"of)?(?: and | or |-)"
            rf"(?:the )?{D}(?: of)? {M}\b",
            _either_of_month,
        ),
        (rf"\b(?:the )?{D}(?: or |/| or the ){D}(?: of)? {M}\b", _either_of_month),
        (rf"\b{M} {D}(?: or |/| or the ){D}\b(?![/\d])", _either_of_month),
        (rf"\b{M} {D}{_TO}{D}\b(?! ?(?:am|pm|{M})){_YEAR}", _month_range),
        (rf"\b(?:the )?{D}{_TO}{D}(?: of)? {M}\b{_YEAR}", _range_month),
        (rf"\b{D} {M} {D} {M}\b{_YEAR}", _two_days),
        (
            rf"\b(?:{W} ?,? )?(?:the )?{M} (?:the )?{_NTH}\b(?! ?(?:am|pm|class)\b|:\d){_YEAR}",
            _month_then_day,
        ),
        (
            rf"\b(?:{W} ?,? )?(?:the )?{_NTH}(?: of)? ?{M}\b{_YEAR}",
            _day_then_month,
        ),
        (rf"\b(?P<week>{W}) ?,? (?:the )?(?P<day>\d{{1,2}})(?:st|nd|rd|th)\b", _nth),
        (
            rf"\b(?P<week>{W}) ?,? (?:the )?(?P<day>\d{{1,2}})(?= ?(?:$|[,|])| (?:by|back|return(?:ing)?|"
            rf"and|one way)\b)",
            _nth,
        ),
        (r"\b(?:the )?(?P<day>\d{1,2})(?:st|nd|rd|th)(?: of)? (?P<month>this|next) month\b", _nth),
        (r"\b(?P<month>this|next) month,? (?:on )?(?:the )?(?P<day>\d{1,2})(?:st|nd|rd|th)\b", _nth),
        (r"\b(?:the )?(?P<day>\d{1,2})(?:st|nd|rd|th)\b", _nth),
        (
            r"\bthe day after tomorrow\b|\bday after tomorrow\b|\bovermorrow\b",
            _plain(lambda match: days.from_today(match[0], 2)),
        ),
        (rf"\b({NUMBER}) weeks? (?:from|after|on) (?:this |coming )?{W}\b", _plain(_weeks_from)),
        (rf"\b(?:a )?(week|fortnight) (?:from|on) (?:this |coming )?{W}\b", _plain(_weeks_from_one)),
        (
            rf"\b(?:on )?(?:the )?{W},? ?(?:(?:of|in) )?(?:the )?week after next\b|"
            rf"\b(?:the )?week after next(?: on)?(?: ,)? {W}\b",
            _plain(
                lambda match: days.weekday_of_week(match[0], _parse_weekday(match[1] or match[2]) or 0, 2)
            ),
        ),
        (rf"\b(?:the )?{W} after next\b", _of_week("after next")),
        (rf"\b(?:that|the same) {W}\b", _of_week("that")),
        (
            rf"\b(?:on )?{W} (week|fortnight)\b(?! (?:of|after|before|commencing))",
            _plain(
                lambda match: days.weekday_later(
                    match[0], _parse_weekday(match[1]) or 0, _unit_days(match[2])
                )
            ),
        ),
        (
            rf"\b({NUMBER}) (weeks?|fortnights?|days?) (?:from )?(today|tomorrow|now)\b",
            _plain(
                lambda match: days.from_today(
                    match[0], parse_number(match[1]) * _unit_days(match[2]) + (match[3] == "tomorrow")
                )
            ),
        ),
        (
            r"\b(today|tomorrow) (week|fortnight)\b",
            _plain(lambda match: days.from_today(match[0], (match[1] == "tomorrow") + _unit_days(match[2]))),
        ),
        (rf"\b{W} in ({NUMBER}) weeks?(?: time)?\b", _plain(_in_weeks)),
        (
            rf"\b(?:every|each) {W}\b",
            _plain(lambda match: days.vague_day(match[0])),
        ),
        (rf"\b(?:the )?{_NTH_WEEKDAY} {W} (?:of|in) {M}\b", _nth_weekday),
        (
            rf"\b(?:the )?{_NTH_WEEKDAY} {W} (?:of|in) (?:the month|this month|next month)\b",
            _plain(lambda match: days.vague_day(match[0])),
        ),
        (
            r"\b(?:the |a )?(fortnight) (?:from )?(today|tomorrow)\b",
            _plain(lambda match: days.from_today(match[0], 14 + (match[2] == "tomorrow"))),
        ),
        (
            r"\b(?:on )?the day after(?: that)?(?= ?(?:[,|]|$|and\b|with\b|in\b|at\b|please\b|back\b|home\b|"
            r"return\w*\b|pls\b|by\b))",
            _plain(lambda match: days.days_after_departure(match[0], 1)),
        ),
        (
            rf"\b({NUMBER}) {_UNIT} (?:later|after(?:wards)?)\b",
            _plain(
                lambda match: days.days_after_departure(
                    match[0], parse_number(match[1]) * _unit_days(match[2])
                )
            ),
        ),
        (
            r"\b(?:the |a |one )?(?:day|night|evening) (?:before|prior|earlier)\b",
            _plain(lambda match: days.vague_day(match[0])),
        ),
        (
            r"\bthe (?:next|following) (?=morning|afternoon|evening|night)",
            _plain(lambda match: days.days_after_departure(match[0], 1)),
        ),
        (
            rf"\bafter ({NUMBER}) {_UNIT}\b",
            _plain(
                lambda match: days.days_after_departure(
                    match[0], parse_number(match[1]) * _unit_days(match[2])
                )
            ),
        ),
        (r"\bthe (?:next|following) day\b", _plain(lambda match: days.days_after_departure(match[0], 1))),
        (rf"\b(?:in|within) ({NUMBER}) {_UNIT}(?: time)?\b", _plain(_in)),
        (rf"\b({NUMBER}) {_UNIT} from (?:now|today)\b", _plain(_in)),
        (
            rf"\b(?:on )?{W} (?:of )?next week\b|\bnext week(?: on)? {W}\b",
            _plain(
                lambda match: days.weekday(match[0], _parse_weekday(match[1] or match[2]) or 0, "next week")
            ),
        ),
        (
            rf"\b(?:on )?{W} (?:of )?this week\b|\bthis week(?: on)? {W}\b",
            _plain(lambda match: days.weekday(match[0], _parse_weekday(match[1] or match[2]) or 0, "this")),
        ),
        (rf"\bnext {W}\b", _of_week("next")),
        (rf"\b(?:this )?(?:coming|upcoming) {W}\b", _of_week("coming")),
        (rf"\bthe following {W}\b", _of_week("following")),
        (rf"\bthis {W}\b", _of_week("this")),
        (
            r"\b(?:at )?(?:the )?(?:very )?end of (?:the|this) month\b|\b(?:at )?month end\b",
            _plain(lambda match: days.month_end(match[0], 0)),
        ),
        (
            r"\b(?:at )?(?:the )?(?:very )?end of next month\b",
            _plain(lambda match: days.month_end(match[0], 1)),
        ),
        (
            r"\b(?:tomorrow|tmrw|tomorow|tommorow|tommorrow)\b",
            _plain(lambda match: days.from_today(match[0], 1)),
        ),
        (r"\btoday\b", _plain(lambda match: days.from_today(match[0], 0))),
        (r"\byesterday\b|\blast (?:week|month|year)\b", _plain(lambda match: days.from_today(match[0], -1))),
        (rf"\blast {W}\b", _plain(lambda match: days.from_today(match[0], -1))),
        (
            r"\b(?:sometime |some time |some day |any day |anytime |early |late |later )*(?:in )?(?:the "
            r")?(?:(?:beginning|start|middle|end) of )?(?:the )?(?:next|this|coming) "
            r"(?:week|month|year|weekend|quarter|spring|summer|autumn|fall|winter)\b",
            _plain(lambda match: days.vague_day(match[0])),
        ),
        (
            r"\b(?:at |over )?(?:the )?(?:end of (?:the )?week|weekend|christmas|xmas|easter|thanksgiving|"
            r"new years?|diwali|eid|ramadan|"
            r"(?:chinese|lunar) new year|golden week|ascension|pentecost|whitsun|hanukkah|passover)\b",
            _plain(lambda match: days.vague_day(match[0])),
        ),
        (
            rf"\b(?:(?:early |late |mid[ -]?|sometime )*in (?:early |late |mid[ -]?)?|(?:early|late|mid)[ -]"
            rf"|(?:the )?(?:beginning|start|middle|end) of ){M}\b(?! \d)",
            _plain(lambda match: days.vague_day(match[0])),
        ),
        (
            r"\b(?:soon|asap|as soon as possible|sometime|some day|whenever|any day)\b",
            _plain(lambda match: days.vague_day(match[0])),
        ),
        (rf"\b{W}s?\b", _of_week("")),
    )
)
