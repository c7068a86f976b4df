"""The annual report of prior authorisation metrics that CMS-0057-F requires.

The rules are 42 CFR 422.122(c), 431.80, 438.210, 457.732 and 45 CFR 156.223. For standard and expedited
requests separately: the shares of approved and denied requests among those decided, and the average and
median time from request to decision. A request approved in part is `modified`: it counts as approved and is
also shown on its own. The report names the metrics that a gateway cannot know.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from pydantic import BaseModel

from holdfast import Pattern, Stores
from holdfast.core.errors import InvalidRequest
from pagw.domain.deadlines import DECISION_LIMITS, EXPEDITED, STANDARD
from pagw.ops.monitoring import DecisionStats, decisions_between

FIRST_YEAR: Final = 2000
LAST_YEAR: Final = 9998
# The rule's other metrics. Only the payer knows them.
UNKNOWN_ITEMS: Final = (
    "the list of all items and services that require prior authorisation",
    "the share of standard requests approved after an appeal",
    "the share of requests approved after the time for review was extended",
)


class UrgencyFigures(BaseModel):
    """The decisions of a year for one urgency. Percentages are of `decided`."""

    decided: int = 0
    approved: int = 0
    modified: int = 0
    denied: int = 0
    approved_percent: float | None = None
    denied_percent: float | None = None
    average_hours: float | None = None
    median_hours: float | None = None
    limit_hours: float
    decided_in_time: int = 0


class AnnualReport(BaseModel):
    year: int
    payer_id: str | None
    standard: UrgencyFigures
    expedited: UrgencyFigures
    not_known_here: tuple[str, ...] = UNKNOWN_ITEMS


PATTERNS: Final[tuple[Pattern[..., Any], ...]] = (decisions_between,)


async def build_annual_report(stores: Stores, year: int, payer_id: str | None = None) -> AnnualReport:
    """Return the report of a calendar year in UTC, for one payer or for all. Raise `InvalidRequest` for an
    invalid year.
    """
    if not FIRST_YEAR <= year <= LAST_YEAR:
        raise InvalidRequest(f"Invalid year {year}: expected {FIRST_YEAR} to {LAST_YEAR}.")
    since, until = datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 1, 1, tzinfo=UTC)
    found = await stores.run(decisions_between(since, until, payer_id))
    return AnnualReport(
        year=year,
        payer_id=payer_id,
        standard=_build_figures(STANDARD, found),
        expedited=_build_figures(EXPEDITED, found),
    )


def _build_figures(urgency: str, stats: tuple[DecisionStats, ...]) -> UrgencyFigures:
    """Build the figures of one urgency. In `stats`, the row with the decision None is the total."""
    by_kind = {each.decision: each for each in stats if each.urgency == urgency}
    limit_hours = DECISION_LIMITS[urgency].total_seconds() / 3600
    whole = by_kind.get(None)
    if whole is None:
        return UrgencyFigures(limit_hours=limit_hours)
    counts = {
        kind: by_kind[kind].count if kind in by_kind else 0 for kind in ("approved", "modified", "denied")
    }
    return UrgencyFigures(
        decided=whole.count,
        **counts,
        approved_percent=_compute_percent(counts["approved"] + counts["modified"], whole.count),
        denied_percent=_compute_percent(counts["denied"], whole.count),
        average_hours=_round_hours(whole.average_hours),
        median_hours=_round_hours(whole.median_hours),
        limit_hours=limit_hours,
        decided_in_time=whole.in_time,
    )


def _compute_percent(part: int, whole: int) -> float:
    return round(100 * part / whole, 1)


def _round_hours(hours: float | None) -> float | None:
    return None if hours is None else round(hours, 2)


def format_report(report: AnnualReport) -> list[str]:
    """Return the report as lines of text."""
    whose = "all payers" if report.payer_id is None else report.payer_id
    lines = [f"Prior authorisations decided in {report.year}, {whose}:"]
    for name, each in (("standard", report.standard), ("expedited", report.expedited)):
        lines += [f"{name} requests: {each.decided}", *(f"  {line}" for line in _format_figures(each))]
    return [
        *lines,
        "The payer must add these metrics, which the gateway does not know:",
        *(f"  {each}" for each in UNKNOWN_ITEMS),
    ]


def _format_figures(figures: UrgencyFigures) -> list[str]:
    """Format the figures of one urgency as lines of text."""
    if not figures.decided:
        return ["none decided"]
    in_part = f", of these {figures.modified} in part" if figures.modified else ""
    return [
        f"approved {figures.approved + figures.modified} ({figures.approved_percent} %){in_part}",
        f"denied {figures.denied} ({figures.denied_percent} %)",
        f"time to decision: {figures.average_hours} h on average, median {figures.median_hours} h",
        f"within {figures.limit_hours:g} h: {figures.decided_in_time} of {figures.decided}",
    ]


def to_json(report: AnnualReport) -> dict[str, Any]:
    """Return the report as JSON data."""
    return report.model_dump(mode="json")
