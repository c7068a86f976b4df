"""The overview page, and the topic by which it follows the samples."""

from __future__ import annotations

from holdfast.console.access import CurrentUser
from holdfast.console.context import Console, CurrentConsole
from holdfast.console.costs.prices import read_default_prices
from holdfast.console.live import Topic
from holdfast.console.overview.incidents import ERROR_RATE_THRESHOLD, MIN_FAILURES, list_incidents
from holdfast.console.overview.plots import build_plots
from holdfast.console.overview.records import SAMPLE_EVERY_S
from holdfast.console.overview.summary import STALE_AFTER_S, summarize
from holdfast.console.rendering import is_fragment, render
from holdfast.core.distribution import explain_missing

with explain_missing(__name__, "console"):
    from fastapi import APIRouter
    from starlette.requests import Request
    from starlette.responses import Response

router = APIRouter()

TOPIC = "overview"
TOPIC_EVERY_S = 5.0
MAX_INCIDENTS = 30


def add_topic(console: Console) -> None:
    """Let pages follow the samples."""
    console.live.add_topic(Topic(TOPIC, console.history.refresh, TOPIC_EVERY_S))


@router.get("/")
async def show_overview(request: Request, console: CurrentConsole, user: CurrentUser) -> Response:
    """Show how every system is doing, and the last hour."""
    systems = [each for each in console.systems if user.can_see(each.name)]
    last_at = await console.history.refresh()
    samples, prices = list(console.history.samples), read_default_prices(console.settings)
    found = [(each, summarize(each, console.history.list_current(), prices.prices)) for each in systems]
    incidents = [each for system in systems for each in list_incidents(samples, system.name)]
    template = "overview/content.html" if is_fragment(request) else "overview/overview.html"
    return render(
        request,
        template,
        summaries=found,
        incidents=sorted(incidents, key=lambda each: each.start, reverse=True)[:MAX_INCIDENTS],
        plots=build_plots(samples, systems, prices.prices),
        prices=prices,
        last_at=last_at or None,
        is_stale=console.own.clock.now() - last_at > STALE_AFTER_S,
        has_targets=bool(console.settings.console_targets.strip()),
        every_s=SAMPLE_EVERY_S,
        threshold=ERROR_RATE_THRESHOLD,
        min_failures=MIN_FAILURES,
    )
