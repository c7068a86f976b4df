"""Days as an employee names them, each with the dates that it can mean. `date_words` finds the words.

One date is an answer; several dates or none lead to a question: "April 31" has none, "next Friday" on a
Tuesday has two. For a return, `after` is the departure: "Thursday" is then the first Thursday after it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final

from tripcortex.domain.planner.ports import MAX_DAYS_AHEAD
from tripcortex.domain.planner.public_holidays import find_holiday

WEEK: Final = 7
MONTHS: Final = 12
# A return in January belongs to a departure in December; one eleven months after its departure was meant to
# be before it.
MAX_RETURN_DAYS: Final = 90
# Enough months to find every possible day of the month and weekday.
_MONTHS_SOUGHT: Final = 13
# A weekday with a day of the month may be in this month or the two that follow.
_MONTHS_OF_A_WEEKDAY: Final = 3


@dataclass(frozen=True)
class Day:
    """A named day: its words, and `readings`, a function from today and the departure to the possible dates.

    The departure is None unless the day is a return.
    """

    words: str
    readings: Callable[[date, date | None], tuple[date, ...]]
    # The day's words leave it open ("next week"), or qualify it ("by Friday"): it has to be asked about,
    # whatever it reads.
    is_vague: bool = False
    # A holiday's readings in a country, if they depend on it.
    in_country: Callable[[str], Day] | None = None

    def resolve(self, today: date, after: date | None = None) -> tuple[date, ...]:
        """Return the possible dates, each once. For a return, `after` is the departure."""
        return tuple(dict.fromkeys(self.readings(today, after)))


def fixed_day(words: str, *days: date) -> Day:
    """Return a day with these dates."""
    return Day(words, lambda today, after: days)


def vague_day(words: str) -> Day:
    """Return a day without dates, which the planner has to ask about."""
    return Day(words, lambda today, after: (), is_vague=True)


def any_of(words: str, read: Sequence[Day], *, is_vague: bool) -> Day:
    """Return a day with the dates of all days in `read`."""
    return Day(
        words,
        lambda today, after: tuple(day for each in read for day in each.resolve(today, after)),
        is_vague,
    )


def holiday(words: str, name: str, offset: int = 0, country: str | None = None) -> Day:
    """Return a public holiday, or the day that many days after it; `country` is the employee's."""
    named = find_holiday(name)

    def readings(today: date, after: date | None) -> tuple[date, ...]:
        start = (after or today) - timedelta(days=min(offset, 0))
        return tuple(each + timedelta(days=offset) for each in named.list_dates(start, country))

    def in_country(code: str) -> Day:
        return holiday(words, name, offset, code)

    return Day(words, readings, in_country=None if country else in_country)


def from_today(words: str, days: int) -> Day:
    """Return the day this many days from today."""
    return Day(words, lambda today, after: _add_days(today, days))


def months_from_today(words: str, months: int) -> Day:
    """Return the same day of the month, this many months from today."""
    return Day(words, lambda today, after: _in_month(today, months, today.day))


def days_after_departure(words: str, days: int) -> Day:
    """Return the day this many days after the departure; it has no date without a departure."""
    return Day(words, lambda today, after: _add_days(after, days) if after else ())


def month_end(words: str, months: int) -> Day:
    """Return the last day of the month that is this many months ahead; the words may mean one before it."""

    def readings(today: date, after: date | None) -> tuple[date, ...]:
        first = _first_of(today, months + 1)
        return (first - timedelta(days=1),)

    return Day(words, readings, is_vague=True)


def weekday(words: str, day: int, how: str) -> Day:
    """Return a weekday.

    `how` is "" (Friday), "this", "that", "coming", "next", "next week", "after next" or "following".
    """

    def readings(today: date, after: date | None) -> tuple[date, ...]:
        if how == "next":
            return _next_weekday(day, today, after)
        if how == "after next":
            return _after_next(day, today)
        if how == "next week":
            return (_of_week_ahead(today, 1, day),)
        if after is not None:
            # "Monday, back Monday": that evening or a week later.
            same = (after,) if after.weekday() == day and how == "" else ()
            return (*same, _coming(after, day))
        return (today,) if how == "this" and today.weekday() == day else (_coming(today, day),)

    return Day(words, readings)


def weekday_ahead(words: str, day: int, weeks: int) -> Day:
    """Return a weekday as in "two weeks from Friday"."""
    return Day(words, lambda today, after: _add_days(_coming(today, day), weeks * WEEK))


def weekday_later(words: str, day: int, days: int) -> Day:
    """Return a weekday as in "Friday week": this many days after the coming Friday.

    Said on a Friday, it is after this one or the next.
    """

    def readings(today: date, after: date | None) -> tuple[date, ...]:
        bases = (*((today,) if today.weekday() == day else ()), _coming(today, day))
        return tuple(each for base in bases for each in _add_days(base, days))

    return Day(words, readings)


def weekday_of_week(words: str, day: int, weeks: int) -> Day:
    """Return a weekday as in "Friday in two weeks": the Friday of that week."""
    return Day(words, lambda today, after: (_of_week_ahead(today, weeks, day),))


def weekday_of_month(words: str, week: int, day: int, month: int) -> Day:
    """Return the first (`week` 0) to fourth or last (4) such weekday of the next month with this number."""

    def readings(today: date, after: date | None) -> tuple[date, ...]:
        for year in (today.year, today.year + 1):
            ahead = (year - today.year) * MONTHS + month - today.month
            first = _first_of(today, ahead)
            found = [
                each
                for each in (
                    _coming(first - timedelta(days=1), day) + timedelta(days=WEEK * at) for at in range(5)
                )
                if each.month == month
            ]
            if found[min(week, len(found) - 1)] >= (after or today):
                return (found[min(week, len(found) - 1)],)
        return ()

    return Day(words, readings)


def month_day(words: str, month: int, day: int, of_week: int | None = None) -> Day:
    """Return the next date with this month and day, in this year or the next; `of_week` is a named weekday.

    It has no date if the weekday does not match. A day of this year that is over stays in the past if next
    year's is not yet on sale.
    """

    def readings(today: date, after: date | None) -> tuple[date, ...]:
        both = [each for year in (today.year, today.year + 1) for each in _dates(year, month, day)]
        found = [each for each in both if each >= today]
        if both[:1] != found[:1] and (found or both)[0] > today + timedelta(days=MAX_DAYS_AHEAD):
            # The words mean this year's day, which is over: next year's is not on sale yet.
            return _on_weekday(both[:1], of_week)
        if after is not None and found and found[0] < after:
            soon = [each for each in found[1:] if each <= after + timedelta(days=MAX_RETURN_DAYS)]
            found = soon or found
        return _on_weekday(found[:1], of_week)

    return Day(words, readings)


def day_of_month(words: str, day: int, of_week: int | None = None, months: int | None = None) -> Day:
    """Return the next "16th"; with `months`, the 16th of the month that is this many months ahead.

    It has no date if the named weekday `of_week` does not match.
    """

    def readings(today: date, after: date | None) -> tuple[date, ...]:
        if months is not None:
            return _on_weekday(list(_in_month(today, months, day)), of_week)
        start = after or today
        found = [
            each for ahead in range(_MONTHS_SOUGHT) for each in _in_month(start, ahead, day) if each >= start
        ]
        if of_week is not None:
            # "Sunday the 19th" may be that of next month.
            found = list(_on_weekday(found[:_MONTHS_OF_A_WEEKDAY], of_week))[:1] or found
        many = 2 if after is None and found[:1] == [today] and of_week is None else 1
        return _on_weekday(found[:many], of_week)

    return Day(words, readings)


def _next_weekday(day: int, today: date, after: date | None) -> tuple[date, ...]:
    """Return both meanings of "next Friday": the coming one, and that of next week; often the same."""
    both = (_coming(today, day), _of_week_ahead(today, 1, day))
    if after is None:
        return both
    return tuple(each for each in both if each > after) or (_coming(after, day),)


def _after_next(day: int, today: date) -> tuple[date, ...]:
    """Return both meanings of "the Friday after next": a week after each meaning of "next Friday"."""
    return tuple(each + timedelta(days=WEEK) for each in _next_weekday(day, today, None))


def _coming(base: date, day: int) -> date:
    """Return the first such weekday after the base day."""
    return base + timedelta(days=(day - base.weekday() - 1) % WEEK + 1)


def _of_week_ahead(today: date, weeks: int, day: int) -> date:
    """Return the weekday of the week that is this many weeks ahead. Weeks begin on Monday."""
    return today + timedelta(days=weeks * WEEK + day - today.weekday())


def _first_of(day: date, months: int) -> date:
    """Return the first day of the month that is this many months after `day`."""
    index = day.year * MONTHS + day.month - 1 + months
    return date(index // MONTHS, index % MONTHS + 1, 1)


def _in_month(base: date, months: int, day: int) -> tuple[date, ...]:
    """Return this day of the month that is `months` after `base`; empty if it does not exist."""
    first = _first_of(base, months)
    return _dates(first.year, first.month, day)


def _add_days(base: date, days: int) -> tuple[date, ...]:
    """Return a tuple with the one date."""
    return (base + timedelta(days=days),)


def _dates(year: int, month: int, day: int) -> tuple[date, ...]:
    """Return the date in a tuple; empty if it does not exist."""
    try:
        return (date(year, month, day),)
    except ValueError:
        return ()


def _on_weekday(found: Sequence[date], of_week: int | None) -> tuple[date, ...]:
    """Return the dates on that weekday; all of them if `of_week` is None."""
    return tuple(each for each in found if of_week is None or each.weekday() == of_week)
