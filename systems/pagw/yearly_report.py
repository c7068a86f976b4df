"""What a payer reports of a year's decisions (CMS-0057-F: 42 CFR 422.122(c), 431.80, 438.210, 457.732, 45 CFR 156.223).

Standard and expedited requests apart: how many were approved and denied, as shares of all that were decided, and how long
it took from the request to the decision, on average and in the middle. A request that was approved for less than it asked
for is `modified`: it is counted as approved and shown for itself. What a gateway cannot know is named, not left out.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from pydantic import BaseModel

from holdfast import Stores
from holdfast.errors import InvalidRequest
from pagw.clocks import EXPEDITED, LIMITS, STANDARD
from pagw.monitoring import Decisions, decisions_between

FIRST_YEAR: Final = 2000
LAST_YEAR: Final = 9998
# The rule's other items. The payer has them, and no request that passes here tells them.
NOT_KNOWN_HERE: Final = (
    "the list of all items and services that need an authorisation",
    "the share of standard requests that were approved after an appeal",
    "the share of requests whose time for review was extended, and that were approved",
)


class OfUrgency(BaseModel):
    """All that were decided in the year, of one urgency. Shares are of `decided`, in per cent."""

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


class YearlyReport(BaseModel):
    year: int
    payer_id: str | None
    standard: OfUrgency
    expedited: OfUrgency
    not_known_here: tuple[str, ...] = NOT_KNOWN_HERE


async def yearly_report(stores: Stores, year: int, payer_id: str | None = None) -> YearlyReport:
    """The decisions of a calendar year, in UTC; of one payer, or of all."""
    if not FIRST_YEAR <= year <= LAST_YEAR:
        raise InvalidRequest(f"{year} is no year to report: give one from {FIRST_YEAR} to {LAST_YEAR}.")
    since, until = datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 1, 1, tzinfo=UTC)
    found = await stores.run(decisions_between(since, until, payer_id))
    return YearlyReport(
        year=year, payer_id=payer_id, standard=_of(STANDARD, found), expedited=_of(EXPEDITED, found)
    )


def _of(urgency: str, found: tuple[Decisions, ...]) -> OfUrgency:
    by_kind = {each.decision: each for each in found if each.urgency == urgency}
    limit_hours = LIMITS[urgency].total_seconds() / 3600
    whole = by_kind.get(None)
    if whole is None:
        return OfUrgency(limit_hours=limit_hours)
    counts = {
        kind: by_kind[kind].count if kind in by_kind else 0 for kind in ("approved", "modified", "denied")
    }
    return OfUrgency(
        decided=whole.count,
        **counts,
        approved_percent=_percent(counts["approved"] + counts["modified"], whole.count),
        denied_percent=_percent(counts["denied"], whole.count),
        average_hours=_rounded(whole.average_hours),
        median_hours=_rounded(whole.median_hours),
        limit_hours=limit_hours,
        decided_in_time=whole.in_time,
    )


def _percent(part: int, whole: int) -> float:
    return round(100 * part / whole, 1)


def _rounded(hours: float | None) -> float | None:
    return None if hours is None else round(hours, 2)


def lines_of(report: YearlyReport) -> list[str]:
    """The report for a person."""
    whose = "all payers" if report.payer_id is None else report.payer_id
    lines = [f"Prior authorisations decided in {report.year}, {whose}:"]
    for name, each in (("standard", report.standard), ("expedited", report.expedited)):
        lines += [f"{name} requests: {each.decided}", *(f"  {told}" for told in _told(each))]
    return [
        *lines,
        "Not known to a gateway, and the payer's to add:",
        *(f"  {each}" for each in NOT_KNOWN_HERE),
    ]


def _told(each: OfUrgency) -> list[str]:
    if not each.decided:
        return ["none was decided"]
    in_part = f", of these {each.modified} in part" if each.modified else ""
    return [
        f"approved {each.approved + each.modified} ({each.approved_percent} %){in_part}",
        f"denied {each.denied} ({each.denied_percent} %)",
        f"from the request to the decision: {each.average_hours} h on average, median {each.median_hours} h",
        f"within {each.limit_hours:g} h: {each.decided_in_time} of {each.decided}",
    ]


def plain(report: YearlyReport) -> dict[str, Any]:
    return report.model_dump(mode="json")
