"""What a day that somebody names can mean. `dates` finds the words; here each has its readings, seen from a day.

A reading is a date. One reading is an answer, several are a question, none is one as well: "April 31" has none, "next
Friday" on a Tuesday has two. `after` is the departure, for a return: "Thursday" is then the first Thursday after it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final

from tripcortex.planning.ports import DAYS_AHEAD_MAX

WEEK: Final = 7
MONTHS: Final = 12
# A return in January belongs to a departure in December; one eleven months after its departure was meant to be before it.
RETURN_DAYS_MAX: Final = 90
# Enough months to come upon every day of the month and weekday that can be meant.
_MONTHS_SOUGHT: Final = 13


@dataclass(frozen=True)
class Day:
    """A day as it was said: its words, and its readings seen from today and, for a return, from the departure."""

    words: str
    readings: Callable[[date, date | None], tuple[date, ...]]
    # The day's words leave it open ("next week"), or qualify it ("by Friday"): it has to be asked about, whatever it reads.
    is_vague: bool = False

    def read(self, today: date, after: date | None = None) -> tuple[date, ...]:
        return tuple(dict.fromkeys(self.readings(today, after)))


def fixed(words: str, *days: date) -> Day:
    return Day(words, lambda today, after: days)


def vague(words: str) -> Day:
    return Day(words, lambda today, after: (), is_vague=True)


def any_of(words: str, read: Sequence[Day], *, is_vague: bool) -> Day:
    """One of several, and which is not said."""
    return Day(
        words, lambda today, after: tuple(day for each in read for day in each.read(today, after)), is_vague
    )


def from_today(words: str, days: int) -> Day:
    return Day(words, lambda today, after: _added(today, days))


def months_from_today(words: str, months: int) -> Day:
    return Day(words, lambda today, after: _in_month(today, months, today.day))


def later(words: str, days: int) -> Day:
    """So many days after the departure; without one it means nothing."""
    return Day(words, lambda today, after: _added(after, days) if after else ())


def month_end(words: str, months: int) -> Day:
    def readings(today: date, after: date | None) -> tuple[date, ...]:
        first = _first_of(today, months + 1)
        return (first - timedelta(days=1),)

    return Day(words, readings)


def weekday(words: str, day: int, how: str) -> Day:
    """`how`: "" (Friday), "this", "coming", "next", "next week", "following"."""

    def readings(today: date, after: date | None) -> tuple[date, ...]:
        if how == "next":
            return _next_weekday(day, today, after)
        if how == "next week":
            return (_of_week_ahead(today, 1, day),)
        if after is not None:
            # "Monday, back Monday": that evening or a week later.
            same = (after,) if after.weekday() == day and how == "" else ()
            return (*same, _coming(after, day))
        if today.weekday() != day or how == "coming":
            return (_coming(today, day),)
        return (today,) if how == "this" else (today, _coming(today, day))

    return Day(words, readings)


def weekday_ahead(words: str, day: int, weeks: int) -> Day:
    """As in "two weeks from Friday"."""
    return Day(words, lambda today, after: _added(_coming(today, day), weeks * WEEK))


def weekday_later(words: str, day: int, days: int) -> Day:
    """As in "Friday week": so many days after that Friday; said on a Friday, after this one or the next."""

    def readings(today: date, after: date | None) -> tuple[date, ...]:
        bases = (*((today,) if today.weekday() == day else ()), _coming(today, day))
        return tuple(each for base in bases for each in _added(base, days))

    return Day(words, readings)


def weekday_of_week(words: str, day: int, weeks: int) -> Day:
    """As in "Friday in two weeks": the Friday of the week that is then."""
    return Day(words, lambda today, after: (_of_week_ahead(today, weeks, day),))


def month_day(words: str, month: int, day: int, of_week: int | None = None) -> Day:
    """Without its year: the next such day. With a weekday that does not fit, none."""

    def readings(today: date, after: date | None) -> tuple[date, ...]:
        both = [each for year in (today.year, today.year + 1) for each in _dates(year, month, day)]
        found = [each for each in both if each >= today]
        if both[:1] != found[:1] and (found or both)[0] > today + timedelta(days=DAYS_AHEAD_MAX):
            # Said of this year's, which is over: nobody means one that is not sold yet.
            return _on_weekday(both[:1], of_week)
        if after is not None and found and found[0] < after:
            soon = [each for each in found[1:] if each <= after + timedelta(days=RETURN_DAYS_MAX)]
            found = soon or found
        return _on_weekday(found[:1], of_week)

    return Day(words, readings)


def day_of_month(words: str, day: int, of_week: int | None = None, months: int | None = None) -> Day:
    """The next one of "the 16th"; of "the 16th of next month", that one."""

    def readings(today: date, after: date | None) -> tuple[date, ...]:
        if months is not None:
            return _on_weekday(list(_in_month(today, months, day)), of_week)
        start = after or today
        found = [
            each for ahead in range(_MONTHS_SOUGHT) for each in _in_month(start, ahead, day) if each >= start
        ]
        many = 2 if after is None and found[:1] == [today] and of_week is None else 1
        return _on_weekday(found[:many], of_week)

    return Day(words, readings)


def _next_weekday(day: int, today: date, after: date | None) -> tuple[date, ...]:
    """People differ: the first one to come, or the one of next week. On most days that is the same."""
    both = (_coming(today, day), _of_week_ahead(today, 1, day))
    if after is None:
        return both
    return tuple(each for each in both if each > after) or (_coming(after, day),)


def _coming(base: date, day: int) -> date:
    """The first such weekday after a day, that day not counted."""
    return base + timedelta(days=(day - base.weekday() - 1) % WEEK + 1)


def _of_week_ahead(today: date, weeks: int, day: int) -> date:
    """Weeks begin on Monday."""
    return today + timedelta(days=weeks * WEEK + day - today.weekday())


def _first_of(day: date, months: int) -> date:
    index = day.year * MONTHS + day.month - 1 + months
    return date(index // MONTHS, index % MONTHS + 1, 1)


def _in_month(base: date, months: int, day: int) -> tuple[date, ...]:
    first = _first_of(base, months)
    return _dates(first.year, first.month, day)


def _added(base: date, days: int) -> tuple[date, ...]:
    return (base + timedelta(days=days),)


def _dates(year: int, month: int, day: int) -> tuple[date, ...]:
    """The date, where there is one."""
    try:
        return (date(year, month, day),)
    except ValueError:
        return ()


def _on_weekday(found: list[date], of_week: int | None) -> tuple[date, ...]:
    return tuple(each for each in found if of_week is None or each.weekday() == of_week)
