"""Whether a crew member may fly it: flight duty periods, rest and cumulative limits, by rule tables.

A roster is a list of duties; a disruption proposes to change one of them. `check_duties` says which limits the
change breaks, by how much, and which paragraph says so. The tables are data (FAR 117 for pilots, FAR 121.467 for
cabin crew, EASA FTL as an option), so another authority is another file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Literal

from skymarshal.reference import Record, Source, document
from skymarshal.statuses import CrewPosition

# Rows closer together than this are sectors of one duty: nobody rests between them. A working value of ours.
TURN_MAX = timedelta(hours=4)

Measure = Literal["flight time", "flight duty period", "duty"]


class Row(Record):
    """Limits for duties that start between two local times, both included: one per column."""

    first: time
    last: time
    hours: tuple[Decimal, ...]


class Table(Record):
    paragraph: str
    rows: tuple[Row, ...]


class AugmentedTable(Table):
    segments_max: int
    columns: tuple[str, ...]


class FlightTimeTable(Table):
    augmented_hours: Mapping[int, Decimal]


class Reduction(Record):
    reduction_hours: Decimal
    paragraph: str


class Extension(Record):
    hours: Decimal
    once_beyond_hours: Decimal | None
    paragraph: str


class Rest(Record):
    hours_at_base: Decimal
    hours_away: Decimal
    at_least_the_duty_before: bool
    paragraph: str


class Free(Record):
    hours: Decimal
    window_hours: int
    paragraph: str


class Cumulative(Record):
    measure: Measure
    hours: Decimal
    window_hours: int
    paragraph: str


class Rules(Record):
    """One authority's limits, as its data file states them."""

    name: str
    applies_to: str
    source: Source
    fdp: Table
    augmented: AugmentedTable | None = None
    flight_time: FlightTimeTable | None = None
    not_acclimated: Reduction | None = None
    extension: Extension | None = None
    rest: Rest
    free: Free
    cumulative: tuple[Cumulative, ...]


FAR_117 = document("far117.json", Rules)
FAR_121_CABIN = document("far121_cabin.json", Rules)
EASA_FTL = document("easa_ftl.json", Rules)


@dataclass(frozen=True, slots=True, kw_only=True)
class Duty:
    """One duty, report to release. The flight duty period ends on blocks, or with the duty when that is unknown."""

    duty_id: str
    start: datetime
    end: datetime
    on_blocks: datetime | None = None
    segments: int = 1
    flight_time: timedelta = timedelta(0)
    pilots: int = 2
    rest_facility: Literal[1, 2, 3] | None = None
    acclimated: bool = True
    ends_at_base: bool = True

    def __post_init__(self) -> None:
        if self.start.tzinfo is None or self.end.tzinfo is None:
            raise ValueError(f"The duty {self.duty_id} has a time without a zone; give its times in UTC.")
        if not self.start < self.fdp_end <= self.end:
            raise ValueError(
                f"The duty {self.duty_id} must start before it ends, on blocks no later than its end."
            )
        if self.segments < 1:
            raise ValueError(
                f"The duty {self.duty_id} has {self.segments} segments; it must have at least 1."
            )

    @property
    def fdp_end(self) -> datetime:
        return self.on_blocks or self.end

    @property
    def fdp(self) -> timedelta:
        return self.fdp_end - self.start


@dataclass(frozen=True, slots=True)
class Violation:
    """A limit that would be broken. `by` is how far; `extendable` when captain and carrier may still agree to it."""

    limit: str
    duty_id: str
    allowed: timedelta
    actual: timedelta
    paragraph: str
    extendable: bool = False

    @property
    def by(self) -> timedelta:
        return abs(self.actual - self.allowed)

    def __str__(self) -> str:
        sentence = (
            f"{self.limit.capitalize()} {_spoken(self.actual)} where {_spoken(self.allowed)} is the limit "
            f"({self.paragraph}), off by {_spoken(self.by)}"
        )
        return f"{sentence}; captain and carrier may extend." if self.extendable else f"{sentence}."


def rules_for(position: str | CrewPosition) -> Rules:
    """FAR 117 for the flight deck; cabin crew have their own section."""
    return FAR_117 if CrewPosition(position).is_flight_deck else FAR_121_CABIN


def fdp_limit(report_local: time, segments: int, rules: Rules = FAR_117) -> timedelta:
    """The longest flight duty period without augmentation, by local report time and number of segments."""
    if segments < 1:
        raise ValueError(f"A flight duty period has at least 1 segment, not {segments}.")
    hours = _row(rules.fdp, report_local).hours
    return _time(hours[min(segments, len(hours)) - 1])


def augmented_fdp_limit(
    report_local: time, pilots: int, rest_facility: Literal[1, 2, 3], rules: Rules = FAR_117
) -> timedelta:
    """The longest flight duty period with three or four pilots and a place to rest on board."""
    if rules.augmented is None or pilots not in (3, 4):
        raise ValueError(
            f"{rules.name} has no augmented limit for {pilots} pilots here; 3 or 4 under FAR 117."
        )
    column = (rest_facility - 1) * 2 + (pilots - 3)
    return _time(_row(rules.augmented, report_local).hours[column])


def check_duties(
    duties: Iterable[Duty],
    *,
    utc_offset: timedelta,
    proposed: Sequence[Duty] = (),
    rules: Rules = FAR_117,
) -> list[Violation]:
    """The limits that one crew member's duties break; with proposed duties, only those that they break or worsen.

    A proposed duty replaces the one with its id, or is added. `utc_offset` is that of the time to which the
    person is acclimated: base, as a rule.
    """
    roster = list(duties)
    if not proposed:
        return _violations(roster, utc_offset, rules)
    before = {(found.limit, found.duty_id): found.by for found in _violations(roster, utc_offset, rules)}
    replaced = {duty.duty_id for duty in proposed}
    changed = [duty for duty in roster if duty.duty_id not in replaced] + list(proposed)
    return [
        found
        for found in _violations(changed, utc_offset, rules)
        if found.by > before.get((found.limit, found.duty_id), timedelta(0))
    ]


def joined(duties: Iterable[Duty]) -> list[Duty]:
    """Duties in order of time; rows that overlap or nearly touch are the sectors of one duty, and count as one."""
    periods: list[Duty] = []
    for duty in sorted(duties, key=lambda duty: (duty.start, duty.end, duty.duty_id)):
        if periods and duty.start - periods[-1].end < TURN_MAX:
            periods[-1] = _together(periods[-1], duty)
        else:
            periods.append(duty)
    return periods


def _together(first: Duty, second: Duty) -> Duty:
    last = max(first, second, key=lambda duty: duty.end)
    return replace(
        first,
        duty_id=last.duty_id,
        end=last.end,
        on_blocks=max(first.fdp_end, second.fdp_end),
        segments=first.segments + second.segments,
        flight_time=first.flight_time + second.flight_time,
        pilots=min(first.pilots, second.pilots),
        # Class 1 is the best bed, so the larger number is the one that limits.
        rest_facility=max(first.rest_facility, second.rest_facility)
        if first.rest_facility and second.rest_facility
        else None,
        acclimated=first.acclimated and second.acclimated,
        ends_at_base=last.ends_at_base,
    )


def _violations(duties: Iterable[Duty], utc_offset: timedelta, rules: Rules) -> list[Violation]:
    periods = joined(duties)
    found = []
    for duty in periods:
        found += _too_long(duty, utc_offset, rules)
        found += _too_much_flying(duty, utc_offset, rules)
    found += _too_little_rest(periods, rules)
    found += _never_free(periods, rules)
    for limit in rules.cumulative:
        found += _too_much_together(periods, limit)
    return _extended_within_reason(found, periods, rules)


def _extended_within_reason(found: list[Violation], periods: Sequence[Duty], rules: Rules) -> list[Violation]:
    """No extension beyond a cumulative limit, and a long one only once until the next long time free."""
    if any(violation.limit.startswith("flight duty period in") for violation in found):
        return [replace(violation, extendable=False) for violation in found]
    if rules.extension is None or rules.extension.once_beyond_hours is None:
        return found
    duties = {duty.duty_id: duty for duty in periods}
    result, extended_until = [], None
    for violation in found:
        if violation.extendable and violation.by > _time(rules.extension.once_beyond_hours):
            duty = duties[violation.duty_id]
            if extended_until and not _was_free(periods, extended_until, duty.start, _time(rules.free.hours)):
                violation = replace(violation, extendable=False)
            else:
                extended_until = duty.end
        result.append(violation)
    return result


def _was_free(periods: Sequence[Duty], since: datetime, until: datetime, length: timedelta) -> bool:
    between = [duty for duty in periods if since < duty.end and duty.start < until]
    edges = [since, *(edge for duty in between for edge in (duty.start, duty.end)), until]
    return any(
        free_until - free_from >= length
        for free_from, free_until in zip(edges[::2], edges[1::2], strict=True)
    )


def _too_long(duty: Duty, utc_offset: timedelta, rules: Rules) -> list[Violation]:
    report = _local(duty.start, utc_offset)
    if duty.rest_facility and _is_augmented(duty, rules):
        allowed = augmented_fdp_limit(report, duty.pilots, duty.rest_facility, rules)
        paragraph = rules.augmented.paragraph if rules.augmented else rules.fdp.paragraph
    else:
        allowed, paragraph = fdp_limit(report, duty.segments, rules), rules.fdp.paragraph
    if rules.not_acclimated and not duty.acclimated:
        allowed -= _time(rules.not_acclimated.reduction_hours)
    if duty.fdp <= allowed:
        return []
    extendable = rules.extension is not None and duty.fdp <= allowed + _time(rules.extension.hours)
    return [Violation("flight duty period", duty.duty_id, allowed, duty.fdp, paragraph, extendable)]


def _too_much_flying(duty: Duty, utc_offset: timedelta, rules: Rules) -> list[Violation]:
    table = rules.flight_time
    if table is None:
        return []
    hours = _row(table, _local(duty.start, utc_offset)).hours[0]
    if _is_augmented(duty, rules):
        hours = table.augmented_hours[duty.pilots]
    if duty.flight_time <= _time(hours):
        return []
    return [Violation("flight time", duty.duty_id, _time(hours), duty.flight_time, table.paragraph)]


def _too_little_rest(periods: Sequence[Duty], rules: Rules) -> list[Violation]:
    found = []
    for before, after in pairwise(periods):
        needed = _time(rules.rest.hours_at_base if before.ends_at_base else rules.rest.hours_away)
        if rules.rest.at_least_the_duty_before:
            needed = max(needed, before.end - before.start)
        rest = after.start - before.end
        if rest < needed:
            found.append(Violation("rest before duty", after.duty_id, needed, rest, rules.rest.paragraph))
    return found


def _never_free(periods: Sequence[Duty], rules: Rules) -> list[Violation]:
    """Each duty needs one long stretch without any in the week before it; what is not on the roster was free."""
    needed, window = _time(rules.free.hours), timedelta(hours=rules.free.window_hours)
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


def _too_much_together(periods: Sequence[Duty], limit: Cumulative) -> list[Violation]:
    """The worst window of the roster. Its sum peaks where a window ends with a duty or starts with one."""
    window, allowed = timedelta(hours=limit.window_hours), _time(limit.hours)
    ends = {duty.end for duty in periods} | {duty.fdp_end for duty in periods}
    ends |= {duty.start + window for duty in periods}
    worst = max(ends, key=lambda end: (_within(periods, limit.measure, end - window, end), end), default=None)
    if worst is None:
        return []
    actual = _within(periods, limit.measure, worst - window, worst)
    if actual <= allowed:
        return []
    last = [duty for duty in periods if duty.start < worst][-1]
    name = f"{limit.measure} in {limit.window_hours} hours"
    return [Violation(name, last.duty_id, allowed, actual, limit.paragraph)]


def _within(periods: Sequence[Duty], measure: Measure, start: datetime, end: datetime) -> timedelta:
    total = timedelta(0)
    for duty in periods:
        until = duty.end if measure == "duty" else duty.fdp_end
        overlap = max(timedelta(0), min(end, until) - max(start, duty.start))
        # Flying is taken as spread evenly over the period: a roster does not say when each landing was.
        total += overlap if measure != "flight time" else duty.flight_time * (overlap / (until - duty.start))
    return total


def _is_augmented(duty: Duty, rules: Rules) -> bool:
    """More pilots help only with a place to rest and on few segments; otherwise the plain table holds."""
    return (
        rules.augmented is not None
        and duty.pilots in (3, 4)
        and duty.rest_facility is not None
        and duty.segments <= rules.augmented.segments_max
    )


def _row(table: Table, local: time) -> Row:
    minute = local.replace(second=0, microsecond=0, tzinfo=None)
    return next(row for row in table.rows if row.first <= minute <= row.last)


def _local(moment: datetime, utc_offset: timedelta) -> time:
    return (moment.astimezone(UTC) + utc_offset).time()


def _time(hours: Decimal) -> timedelta:
    return timedelta(minutes=int(hours * 60))


def _spoken(length: timedelta) -> str:
    minutes = round(length.total_seconds() / 60)
    return f"{minutes // 60}:{minutes % 60:02d} h"
