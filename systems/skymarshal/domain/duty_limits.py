"""Crew duty limits from rule tables: flight duty periods, flight time, rest and cumulative limits.

A roster is a list of duties; a disruption proposes to change some of them. `check_duties` returns the limits
that the change breaks, by how much and under which paragraph. The tables are data (FAR 117 for pilots, FAR
121.467 for cabin crew, EASA FTL as an option), so another authority is another file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Literal

from skymarshal.domain.reference_data import Record, Source, load_document
from skymarshal.domain.statuses import CrewPosition

# Rows closer together than this are sectors of one duty, without rest between them. A working value of this
# project.
MAX_TURN = timedelta(hours=4)

Measure = Literal["flight time", "flight duty period", "duty"]


class LimitRow(Record):
    """Limits in hours for duties that start between two local times, both included; one value per column."""

    first: time
    last: time
    hours: tuple[Decimal, ...]


class LimitTable(Record):
    """A table of limits by local report time; the columns of the plain one are numbers of segments."""

    paragraph: str
    rows: tuple[LimitRow, ...]


class AugmentedTable(LimitTable):
    """Limits with three or four pilots, two columns per class of rest facility.

    They apply up to `segments_max` segments.
    """

    segments_max: int
    columns: tuple[str, ...]


class FlightTimeTable(LimitTable):
    """Limits of the flight time within one duty; `augmented_hours` are those by number of pilots."""

    augmented_hours: Mapping[int, Decimal]


class Reduction(Record):
    """The hours by which the limit falls for crew who are not acclimated."""

    reduction_hours: Decimal
    paragraph: str


class Extension(Record):
    """The hours by which captain and carrier may extend a flight duty period.

    Beyond `once_beyond_hours` an extension is allowed only once until the next long time free.
    """

    hours: Decimal
    once_beyond_hours: Decimal | None
    paragraph: str


class RestRule(Record):
    """The rest needed after a duty that ends at base or away, optionally at least as long as that duty."""

    hours_at_base: Decimal
    hours_away: Decimal
    at_least_the_duty_before: bool
    paragraph: str


class TimeFreeRule(Record):
    """The hours without any duty that each window of `window_hours` before a duty needs."""

    hours: Decimal
    window_hours: int
    paragraph: str


class CumulativeLimit(Record):
    """The most hours of one measure in any window of `window_hours`."""

    measure: Measure
    hours: Decimal
    window_hours: int
    paragraph: str


class DutyRules(Record):
    """One authority's limits, as stated in its data file."""

    name: str
    applies_to: str
    source: Source
    fdp: LimitTable
    augmented: AugmentedTable | None = None
    flight_time: FlightTimeTable | None = None
    not_acclimated: Reduction | None = None
    extension: Extension | None = None
    rest: RestRule
    free: TimeFreeRule
    cumulative: tuple[CumulativeLimit, ...]


FAR_117 = load_document("far117.json", DutyRules)
FAR_121_CABIN = load_document("far121_cabin.json", DutyRules)
EASA_FTL = load_document("easa_ftl.json", DutyRules)


@dataclass(frozen=True, slots=True, kw_only=True)
class Duty:
    """One duty, from report to release, with times that have a time zone. Invalid times raise ValueError.

    The flight duty period ends on blocks, or with the duty if that is unknown. `rest_facility` is its class:
    1 is the best.
    """

    duty_id: str
    start: datetime
    end: datetime
    on_blocks: datetime | None = None
    segments: int = 1
    flight_time: timedelta = timedelta(0)
    pilots: int = 2
    rest_facility: Literal[1, 2, 3] | None = None
    is_acclimated: bool = True
    ends_at_base: bool = True

    def __post_init__(self) -> None:
        if self.start.tzinfo is None or self.end.tzinfo is None:
            raise ValueError(
                f"Invalid duty {self.duty_id}: expected times with a time zone. Give them in UTC."
            )
        if not self.start < self.fdp_end <= self.end:
            raise ValueError(
                f"Invalid duty {self.duty_id}: it must start before it ends, and be on blocks no later than "
                "its end."
            )
        if self.segments < 1:
            raise ValueError(
                f"Invalid duty {self.duty_id}: it has {self.segments} segments, expected at least 1."
            )

    @property
    def fdp_end(self) -> datetime:
        """The end of the flight duty period: on blocks, or the end of the duty."""
        return self.on_blocks or self.end

    @property
    def fdp(self) -> timedelta:
        """The length of the flight duty period."""
        return self.fdp_end - self.start


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken limit.

    `excess` says by how much; `is_extendable`, that captain and carrier may still agree to it.
    """

    limit: str
    duty_id: str
    allowed: timedelta
    actual: timedelta
    paragraph: str
    is_extendable: bool = False

    @property
    def excess(self) -> timedelta:
        """The difference between actual and allowed, always positive: too much duty or too little rest."""
        return abs(self.actual - self.allowed)

    def __str__(self) -> str:
        sentence = (
            f"{self.limit.capitalize()} {_format_hours(self.actual)}, limit {_format_hours(self.allowed)} "
            f"({self.paragraph}), off by {_format_hours(self.excess)}"
        )
        return f"{sentence}; captain and carrier may extend." if self.is_extendable else f"{sentence}."


def get_rules(position: str | CrewPosition) -> DutyRules:
    """Return FAR 117 for positions of the flight deck and FAR 121.467 for cabin crew."""
    return FAR_117 if CrewPosition(position).is_flight_deck else FAR_121_CABIN


def get_fdp_limit(report_local: time, segments: int, rules: DutyRules = FAR_117) -> timedelta:
    """Return the longest flight duty period without augmentation, by local report time and segments.

    More segments than the table has count as its last column. Raise ValueError below one segment.
    """
    if segments < 1:
        raise ValueError(f"Invalid number of segments {segments}: expected at least 1 segment.")
    hours = _find_row(rules.fdp, report_local).hours
    return _to_timedelta(hours[min(segments, len(hours)) - 1])


def get_augmented_fdp_limit(
    report_local: time, pilots: int, rest_facility: Literal[1, 2, 3], rules: DutyRules = FAR_117
) -> timedelta:
    """Return the longest flight duty period with three or four pilots and a rest facility on board.

    Raise ValueError for another number of pilots or rules without an augmented table.
    """
    if rules.augmented is None or pilots not in (3, 4):
        raise ValueError(
            f"{rules.name} has no augmented limit for {pilots} pilots: expected FAR 117 and 3 or 4 pilots."
        )
    column = (rest_facility - 1) * 2 + (pilots - 3)
    return _to_timedelta(_find_row(rules.augmented, report_local).hours[column])


def check_duties(
    duties: Iterable[Duty],
    *,
    utc_offset: timedelta,
    proposed: Sequence[Duty] = (),
    rules: DutyRules = FAR_117,
) -> list[Violation]:
    """Return the limits that one crew member's duties break.

    With `proposed`, return only those that the proposal breaks or worsens. A proposed duty replaces the one
    with its id, or is added. `utc_offset` is that of the time zone to which the crew member is acclimated,
    usually the home base.
    """
    roster = list(duties)
    if not proposed:
        return _find_violations(roster, utc_offset, rules)
    before = {
        (found.limit, found.duty_id): found.excess for found in _find_violations(roster, utc_offset, rules)
    }
    replaced = {duty.duty_id for duty in proposed}
    changed = [duty for duty in roster if duty.duty_id not in replaced] + list(proposed)
    return [
        found
        for found in _find_violations(changed, utc_offset, rules)
        if found.excess > before.get((found.limit, found.duty_id), timedelta(0))
    ]


def join_sectors(duties: Iterable[Duty]) -> list[Duty]:
    """Sort duties by time and merge those less than four hours apart: they are sectors of one duty."""
    periods: list[Duty] = []
    for duty in sorted(duties, key=lambda duty: (duty.start, duty.end, duty.duty_id)):
        if periods and duty.start - periods[-1].end < MAX_TURN:
            periods[-1] = _merge_duties(periods[-1], duty)
        else:
            periods.append(duty)
    return periods


def _merge_duties(first: Duty, second: Duty) -> Duty:
    """Return two sectors as one duty, with the id of the one that ends last and the weaker limits of both."""
    last = max(first, second, key=lambda duty: duty.end)
    return replace(
        first,
        duty_id=last.duty_id,
        end=last.end,
        on_blocks=max(first.fdp_end, second.fdp_end),
        segments=first.segments + second.segments,
        flight_time=first.flight_time + second.flight_time,
        pilots=min(first.pilots, second.pilots),
        # Class 1 is the best rest facility, so the larger number sets the limit.
        rest_facility=max(first.rest_facility, second.rest_facility)
        if first.rest_facility and second.rest_facility
        else None,
        is_acclimated=first.is_acclimated and second.is_acclimated,
        ends_at_base=last.ends_at_base,
    )


def _find_violations(duties: Iterable[Duty], utc_offset: timedelta, rules: DutyRules) -> list[Violation]:
    """Join sectors to duties and return every limit that they break."""
    periods = join_sectors(duties)
    found = []
    for duty in periods:
        found += _check_fdp(duty, utc_offset, rules)
        found += _check_flight_time(duty, utc_offset, rules)
    found += _check_rest(periods, rules)
    found += _check_time_free(periods, rules)
    for limit in rules.cumulative:
        found += _check_cumulative(periods, limit)
    return _restrict_extensions(found, periods, rules)


def _restrict_extensions(
    violations: list[Violation], periods: Sequence[Duty], rules: DutyRules
) -> list[Violation]:
    """Return the violations with those marked as not extendable that the rules do not let extend.

    None may be extended if a cumulative limit of duty periods is broken too, and a long extension is allowed
    only once until the next long time free.
    """
    if any(violation.limit.startswith("flight duty period in") for violation in violations):
        return [replace(violation, is_extendable=False) for violation in violations]
    if rules.extension is None or rules.extension.once_beyond_hours is None:
        return violations
    duties = {duty.duty_id: duty for duty in periods}
    result, extended_until = [], None
    for violation in violations:
        if violation.is_extendable and violation.excess > _to_timedelta(rules.extension.once_beyond_hours):
            duty = duties[violation.duty_id]
            if extended_until and not _has_time_free(
                periods, extended_until, duty.start, _to_timedelta(rules.free.hours)
            ):
                violation = replace(violation, is_extendable=False)
            else:
                extended_until = duty.end
        result.append(violation)
    return result


def _has_time_free(periods: Sequence[Duty], since: datetime, until: datetime, length: timedelta) -> bool:
    """Return whether the crew member had `length` without duty between two moments."""
    between = [duty for duty in periods if since < duty.end and duty.start < until]
    edges = [since, *(edge for duty in between for edge in (duty.start, duty.end)), until]
    return any(
        free_until - free_from >= length
        for free_from, free_until in zip(edges[::2], edges[1::2], strict=True)
    )


def _check_fdp(duty: Duty, utc_offset: timedelta, rules: DutyRules) -> list[Violation]:
    """Return the violation of the flight duty period, or nothing. It may be extendable."""
    report = _to_local_time(duty.start, utc_offset)
    if duty.rest_facility and _is_augmented(duty, rules):
        allowed = get_augmented_fdp_limit(report, duty.pilots, duty.rest_facility, rules)
        paragraph = rules.augmented.paragraph if rules.augmented else rules.fdp.paragraph
    else:
        allowed, paragraph = get_fdp_limit(report, duty.segments, rules), rules.fdp.paragraph
    if rules.not_acclimated and not duty.is_acclimated:
        allowed -= _to_timedelta(rules.not_acclimated.reduction_hours)
    if duty.fdp <= allowed:
        return []
    extendable = rules.extension is not None and duty.fdp <= allowed + _to_timedelta(rules.extension.hours)
    return [Violation("flight duty period", duty.duty_id, allowed, duty.fdp, paragraph, extendable)]


def _check_flight_time(duty: Duty, utc_offset: timedelta, rules: DutyRules) -> list[Violation]:
    """Return the violation of the flight time within one duty, or nothing if the rules have no such limit."""
    table = rules.flight_time
    if table is None:
        return []
    hours = _find_row(table, _to_local_time(duty.start, utc_offset)).hours[0]
    if _is_augmented(duty, rules):
        hours = table.augmented_hours[duty.pilots]
    if duty.flight_time <= _to_timedelta(hours):
        return []
    return [Violation("flight time", duty.duty_id, _to_timedelta(hours), duty.flight_time, table.paragraph)]


def _check_rest(periods: Sequence[Duty], rules: DutyRules) -> list[Violation]:
    """Return a violation for each duty that starts before the rest after the previous duty is over."""
    found = []
    for before, after in pairwise(periods):
        needed = _to_timedelta(rules.rest.hours_at_base if before.ends_at_base else rules.rest.hours_away)
        if rules.rest.at_least_the_duty_before:
            needed = max(needed, before.end - before.start)
        rest = after.start - before.end
        if rest < needed:
            found.append(Violation("rest before duty", after.duty_id, needed, rest, rules.rest.paragraph))
    return found


def _check_time_free(periods: Sequence[Duty], rules: DutyRules) -> list[Violation]:
    """Return a violation for each duty whose preceding window (a week) has no long stretch without duty.

    Time not on the roster counts as free.
    """
    needed, window = _to_timedelta(rules.free.hours), timedelta(hours=rules.free.window_hours)
    limit = f"time free in {rules.free.window_hours} hours"
    found = []
    for index, duty in enumerate(periods):
        longest, free_since = timedelta(0), duty.start - window
        for earlier in periods[:index]:
            longest = max(longest, earlier.start - free_since)
            free_since = max(free_since, earlier.end)
        longest = max(longest, duty.start - free_since)
        if longest < needed:
            found.append(Violation(limit, duty.duty_id, needed, longest, rules.free.paragraph))
    return found


def _check_cumulative(periods: Sequence[Duty], limit: CumulativeLimit) -> list[Violation]:
    """Return the violation in the worst window of the roster, or nothing.

    It has the id of the last duty in the window. The sum peaks where a window ends or starts with a duty.
    """
    window, allowed = timedelta(hours=limit.window_hours), _to_timedelta(limit.hours)
    ends = {duty.end for duty in periods} | {duty.fdp_end for duty in periods}
    ends |= {duty.start + window for duty in periods}
    worst = max(
        ends, key=lambda end: (_sum_within(periods, limit.measure, end - window, end), end), default=None
    )
    if worst is None:
        return []
    actual = _sum_within(periods, limit.measure, worst - window, worst)
    if actual <= allowed:
        return []
    last = [duty for duty in periods if duty.start < worst][-1]
    name = f"{limit.measure} in {limit.window_hours} hours"
    return [Violation(name, last.duty_id, allowed, actual, limit.paragraph)]


def _sum_within(periods: Sequence[Duty], measure: Measure, start: datetime, end: datetime) -> timedelta:
    """Sum flight time, flight duty period or duty between two moments."""
    total = timedelta(0)
    for duty in periods:
        until = duty.end if measure == "duty" else duty.fdp_end
        overlap = max(timedelta(0), min(end, until) - max(start, duty.start))
        # Flight time is spread evenly over the period: a roster does not say when each landing was.
        total += overlap if measure != "flight time" else duty.flight_time * (overlap / (until - duty.start))
    return total


def _is_augmented(duty: Duty, rules: DutyRules) -> bool:
    """Return whether the augmented table applies: more pilots, a rest facility and few segments."""
    return (
        rules.augmented is not None
        and duty.pilots in (3, 4)
        and duty.rest_facility is not None
        and duty.segments <= rules.augmented.segments_max
    )


def _find_row(table: LimitTable, local: time) -> LimitRow:
    """Return the row of the table for a local report time."""
    minute = local.replace(second=0, microsecond=0, tzinfo=None)
    return next(row for row in table.rows if row.first <= minute <= row.last)


def _to_local_time(moment: datetime, utc_offset: timedelta) -> time:
    """Return the time of day of a moment at an offset from UTC."""
    return (moment.astimezone(UTC) + utc_offset).time()


def _to_timedelta(hours: Decimal) -> timedelta:
    """Convert hours to a timedelta of whole minutes."""
    return timedelta(minutes=int(hours * 60))


def _format_hours(length: timedelta) -> str:
    """Format a length as hours and minutes, such as 9:05 h."""
    minutes = round(length.total_seconds() / 60)
    return f"{minutes // 60}:{minutes % 60:02d} h"
