"""The CMS-0057-F metrics of a year, each next to what the gateway cannot know about it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Final

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from holdfast import Stores
from holdfast.console import render
from pagw.ops import registry
from pagw.ops.annual_report import (
    FIRST_YEAR,
    LAST_YEAR,
    AnnualReport,
    UrgencyFigures,
    build_annual_report,
)
from pagw.pages.access import CurrentReader, build_address

SHOWN_YEARS: Final = 5
# A report reads all decisions of its year, so this process computes each at most once in this time.
LIFETIME: Final = timedelta(minutes=15)
MAX_REPORTS: Final = 200
_NOT_HERE: Final = "Not known to the gateway"
# What holds for every share: the gateway sees its own requests only.
_OTHER_CHANNELS: Final = (
    "Requests by telephone, fax or the payer's portal, and those for drugs, which the rule leaves out"
)


@dataclass(frozen=True)
class Metric:
    """One metric of the rule: the gateway's figure, how it was counted, and what it cannot know."""

    name: str
    value: str
    counted: str
    unknown: str
    is_known: bool = True


class RecentReports:
    """The reports that this process computed lately. Calls for the same one at the same time share it."""

    def __init__(self, stores: Stores) -> None:
        self.stores = stores
        self._reports: dict[tuple[int, str], tuple[datetime, asyncio.Task[AnnualReport]]] = {}

    async def get(self, year: int, payer_id: str) -> tuple[AnnualReport, datetime]:
        """Return the report of a year, of one payer or of all (an empty id), and when it was computed."""
        now, key = self.stores.now(), (year, payer_id)
        known = self._reports.get(key)
        if known is None or now - known[0] > LIFETIME or _has_failed(known[1]):
            self._reports = {name: each for name, each in self._reports.items() if now - each[0] <= LIFETIME}
            if len(self._reports) >= MAX_REPORTS:
                self._reports.pop(next(iter(self._reports)))
            loading = asyncio.create_task(build_annual_report(self.stores, year, payer_id or None))
            known = self._reports[key] = (now, loading)
        # A user who leaves the page does not cancel what others wait for.
        return await asyncio.shield(known[1]), known[0]


def _has_failed(task: asyncio.Task[AnnualReport]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)


def build_metrics_pages(stores: Stores) -> APIRouter:
    """Build the page of the metrics."""
    router, reports = APIRouter(), RecentReports(stores)

    @router.get("/metrics")
    async def show_metrics(
        request: Request,
        reader: CurrentReader,
        year: Annotated[int | None, Query(ge=FIRST_YEAR, le=LAST_YEAR)] = None,
        payer: Annotated[str, Query(max_length=50)] = "",
    ) -> Response:
        this_year = stores.now().year
        chosen = this_year if year is None else year
        payers = [each.payer_id for each in await stores.run(registry.payers())]
        report, computed_at = await reports.get(chosen, payer)
        return render(
            request,
            "pagw/metrics.html",
            year=chosen,
            years=sorted({chosen, *range(this_year, this_year - SHOWN_YEARS, -1)}, reverse=True),
            is_running=chosen == this_year,
            payer=payer,
            payers=sorted({*payers, *((payer,) if payer else ())}),
            report=report,
            metrics=build_metrics(report),
            computed_at=computed_at,
            has_decisions=bool(report.standard.decided or report.expedited.decided),
            worklist=build_address("/worklist", {"view": "overdue", "payer": payer}),
            reader=reader,
        )

    return router


def build_metrics(report: AnnualReport) -> list[Metric]:
    """Return the metrics of the rule in its order: 42 CFR 422.122(c) and the rules that repeat it."""
    return [
        Metric(
            "Items and services that require prior authorization",
            _NOT_HERE,
            "",
            "The whole list. Only the payer has it; add it to the report.",
            is_known=False,
        ),
        *_build_shares("Standard", report.standard),
        Metric(
            "Standard requests approved after an appeal",
            _NOT_HERE,
            "",
            "Appeals. They are made at the payer and do not pass the gateway.",
            is_known=False,
        ),
        Metric(
            "Requests approved after the time for review was extended",
            _NOT_HERE,
            "",
            "Extensions. A payer does not announce them to the gateway.",
            is_known=False,
        ),
        *_build_shares("Expedited", report.expedited),
        _build_time("Standard", report.standard),
        _build_time("Expedited", report.expedited),
        _build_in_time("Standard", report.standard),
        _build_in_time("Expedited", report.expedited),
    ]


def _build_shares(name: str, figures: UrgencyFigures) -> list[Metric]:
    """Return the shares of approved and denied requests of one urgency."""
    approved = figures.approved + figures.modified
    in_part = f", {figures.modified:,} of them in part" if figures.modified else ""
    return [
        Metric(
            f"{name} requests approved",
            _format_percent(figures.approved_percent),
            f"{approved:,} of {figures.decided:,} decided{in_part}",
            f"{_OTHER_CHANNELS}. Whether the payer counts an approval in part as approved; here it counts.",
        ),
        Metric(
            f"{name} requests denied",
            _format_percent(figures.denied_percent),
            f"{figures.denied:,} of {figures.decided:,} decided",
            f"{_OTHER_CHANNELS}. Whether a denial was overturned later, after an appeal.",
        ),
    ]


def _build_time(name: str, figures: UrgencyFigures) -> Metric:
    """Return the average and median time to a decision of one urgency."""
    known = figures.average_hours is not None
    return Metric(
        f"{name} requests: time to decision",
        f"{_format_hours(figures.average_hours)} on average, median {_format_hours(figures.median_hours)}"
        if known
        else "–",
        "From acceptance by the gateway to the arrival of the first decision",
        "When the payer decided, if its answer came late, and how long it waited for the provider's "
        "documents.",
    )


def _build_in_time(name: str, figures: UrgencyFigures) -> Metric:
    """Return how many decisions of one urgency came within the rule's time. The rule does not ask for it."""
    share = 100 * figures.decided_in_time / figures.decided if figures.decided else None
    return Metric(
        f"{name} requests decided within {_format_limit(figures.limit_hours)}",
        _format_percent(None if share is None else round(share, 1)),
        f"{figures.decided_in_time:,} of {figures.decided:,} decided. Not in the rule's list",
        "Extensions, with which a later decision is still in time. Undecided requests are not counted: see "
        "the worklist.",
    )


def _format_percent(percent: float | None) -> str:
    return "–" if percent is None else f"{percent:g} %"


def _format_hours(hours: float | None) -> str:
    """Return hours with two digits after the point; the report is rounded to them."""
    return "less than 0.01 h" if hours == 0 else f"{hours or 0:g} h"


def _format_limit(hours: float) -> str:
    return f"{hours:g} hours" if hours < 24 * 7 else f"{hours / 24:g} days"
