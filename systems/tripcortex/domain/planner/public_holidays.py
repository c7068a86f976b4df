"""Public holidays as names of days: "Boxing Day", "Good Friday", "the day before Thanksgiving".

A holiday whose date depends on the country has several dates until `decision` knows the employee's country.
Holidays of several days and those of a lunar calendar are not here: the planner asks for their date.
"""

from __future__ import annotations

import re
from calendar import isleap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final

DateOfYear = Callable[[int], date | None]
_MONDAY, _THURSDAY = 0, 3


@dataclass(frozen=True)
class Holiday:
    """A holiday by its dates: `dates` by country; the key "" is for all other countries."""

    dates: Mapping[str, DateOfYear]

    def list_dates(self, today: date, country: str | None = None) -> tuple[date, ...]:
        """Return the next date of the holiday in this country, or of each country if it is None."""
        chosen = self.dates.get(country or "", self.dates.get("")) if country is not None else None
        makers = (chosen,) if chosen else tuple(self.dates.values())
        return tuple(dict.fromkeys(day for each in makers if (day := _next_date(each, today))))


def find_holiday(name: str) -> Holiday:
    """Return the holiday with this name, as `HOLIDAY_NAMES` matches it."""
    return next(holiday for pattern, holiday in _HOLIDAYS if pattern.fullmatch(name.strip()))


def _next_date(of_year: DateOfYear, today: date) -> date | None:
    """Return the first date from today on, in this year or the next."""
    both = (of_year(year) for year in (today.year, today.year + 1))
    return next((day for day in both if day is not None and day >= today), None)


def _fixed(month: int, day: int) -> DateOfYear:
    return lambda year: date(year, month, day)


def _nth_weekday(month: int, weekday: int, nth: int) -> DateOfYear:
    """Return the function for the nth such weekday of the month; -1 is the last one."""

    def of_year(year: int) -> date:
        if nth < 0:
            last = date(year + month // 12, month % 12 + 1, 1) - timedelta(days=1)
            return last - timedelta(days=(last.weekday() - weekday) % 7)
        first = date(year, month, 1)
        return first + timedelta(days=(weekday - first.weekday()) % 7 + 7 * (nth - 1))

    return of_year


def _from_easter(days: int) -> DateOfYear:
    return lambda year: find_easter(year) + timedelta(days=days)


def find_easter(year: int) -> date:
    """Return Easter Sunday of the Gregorian calendar (Meeus, Jones and Butcher)."""
    golden, century, rest = year % 19, *divmod(year, 100)
    leap, over = divmod(century, 4)
    shift = (century - (century + 8) // 25 + 1) // 3
    moon = (19 * golden + century - leap - shift + 15) % 30
    quarter, year_rest = divmod(rest, 4)
    sunday = (32 + 2 * over + 2 * quarter - moon - year_rest) % 7
    late = (golden + 11 * moon + 22 * sunday) // 451
    month, day = divmod(moon + sunday - 7 * late + 114, 31)
    return date(year, month, day + 1)


_BY_NAME: Final[tuple[tuple[str, Mapping[str, DateOfYear]], ...]] = (
    (r"christmas eve|xmas eve", {"": _fixed(12, 24)}),
    (r"christmas day|xmas day", {"": _fixed(12, 25)}),
    (r"boxing day|st\.? stephens day|saint stephens day", {"": _fixed(12, 26)}),
    (r"new years? eve|nye", {"": _fixed(12, 31)}),
    (r"new years? day", {"": _fixed(1, 1)}),
    (r"epiphany|three kings day", {"": _fixed(1, 6)}),
    (r"valentines day|valentines", {"": _fixed(2, 14)}),
    (r"(?:st\.?|saint) patricks day|st\.? paddys day", {"": _fixed(3, 17)}),
    (r"april fools(?: day)?", {"": _fixed(4, 1)}),
    (r"leap day", {"": lambda year: date(year, 2, 29) if isleap(year) else None}),
    (r"anzac day", {"": _fixed(4, 25)}),
    (r"australia day", {"": _fixed(1, 26)}),
    (r"waitangi day", {"": _fixed(2, 6)}),
    (r"may day", {"": _fixed(5, 1)}),
    (r"kings day", {"": _fixed(4, 27)}),
    (r"canada day", {"": _fixed(7, 1)}),
    (r"juneteenth", {"": _fixed(6, 19)}),
    (r"bastille day", {"": _fixed(7, 14)}),
    (r"assumption day", {"": _fixed(8, 15)}),
    (r"german unity day|(?:day of )?german unity", {"": _fixed(10, 3)}),
    (r"halloween", {"": _fixed(10, 31)}),
    (r"all saints(?: day)?", {"": _fixed(11, 1)}),
    (r"veterans day|armistice day|remembrance day", {"": _fixed(11, 11)}),
    (r"guy fawkes(?: night| day)?|bonfire night", {"": _fixed(11, 5)}),
    (r"good friday", {"": _from_easter(-2)}),
    (r"maundy thursday", {"": _from_easter(-3)}),
    (r"easter sunday", {"": _from_easter(0)}),
    (r"easter monday", {"": _from_easter(1)}),
    (r"ash wednesday", {"": _from_easter(-46)}),
    (r"ascension day|ascension thursday", {"": _from_easter(39)}),
    (r"whit monday|pentecost monday", {"": _from_easter(50)}),
    (r"corpus christi day", {"": _from_easter(60)}),
    (r"(?:mlk|martin luther king(?: jr)?) day", {"": _nth_weekday(1, _MONDAY, 3)}),
    (r"presidents day", {"": _nth_weekday(2, _MONDAY, 3)}),
    (r"memorial day", {"": _nth_weekday(5, _MONDAY, -1)}),
    (r"columbus day|indigenous peoples day", {"": _nth_weekday(10, _MONDAY, 2)}),
    (
        r"labou?r day",
        {"US": _nth_weekday(9, _MONDAY, 1), "CA": _nth_weekday(9, _MONDAY, 1), "": _fixed(5, 1)},
    ),
    (
        # "At Thanksgiving" may be a day before it.
        r"thanksgiving day|(?<!at )(?<!over )(?<!for )(?<!during )thanksgiving",
        {"CA": _nth_weekday(10, _MONDAY, 2), "": _nth_weekday(11, _THURSDAY, 4)},
    ),
    (
        r"independence day",
        {
            "US": _fixed(7, 4),
            "IN": _fixed(8, 15),
            "MX": _fixed(9, 16),
            "BR": _fixed(9, 7),
            "PK": _fixed(8, 14),
            "ID": _fixed(8, 17),
            "PH": _fixed(6, 12),
            "CO": _fixed(7, 20),
            "AR": _fixed(7, 9),
        },
    ),
    (r"republic day", {"IN": _fixed(1, 26), "IT": _fixed(6, 2), "TR": _fixed(10, 29)}),
    (
        r"national day",
        {
            "SG": _fixed(8, 9),
            "CH": _fixed(8, 1),
            "CN": _fixed(10, 1),
            "AE": _fixed(12, 2),
            "FR": _fixed(7, 14),
            "SE": _fixed(6, 6),
            "NO": _fixed(5, 17),
            "SA": _fixed(9, 23),
        },
    ),
)
_HOLIDAYS: Final = tuple((re.compile(names), Holiday(dates)) for names, dates in _BY_NAME)
HOLIDAY_NAMES: Final = "|".join(names for names, _ in _BY_NAME)
