"""The page of all work, /work, its live topic, and the routers of the pages behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable

from holdfast.config.settings import Settings
from holdfast.console.access import CurrentUser
from holdfast.console.context import Console, CurrentConsole
from holdfast.console.live import Topic
from holdfast.console.rendering import render
from holdfast.console.work import (
    action_routes,
    flow_routes,
    lock_routes,
    outbox_routes,
    queue_routes,
    reveal_routes,
    why_routes,
)
from holdfast.console.work.page_context import build_topic_name
from holdfast.console.work.summary import list_problems, read_summary
from holdfast.core.distribution import explain_missing
from holdfast.core.errors import NotFound
from holdfast.model.system import System
from holdfast.runtime.stores import Stores

with explain_missing(__name__, "console"):
    from fastapi import APIRouter
    from starlette.requests import Request
    from starlette.responses import Response

# How often the work of a system is read while a page follows it. Each read of a service costs money.
EMBEDDED_EVERY_S = 3.0
SERVICE_EVERY_S = 15.0

router = APIRouter()


@router.get("/work")
async def show_work(
    request: Request, console: CurrentConsole, user: CurrentUser, system: str = ""
) -> Response:
    """Show everything that waits or died, of one system or of all that the user sees."""
    seen = [each for each in console.systems if user.can_see(each.name)]
    chosen = [each for each in seen if system in ("", each.name)]
    if system and not chosen:
        raise NotFound(f"No system {system!r} here.")
    summaries = await asyncio.gather(
        *(
            read_summary(console.get_stores(each.name), console.settings, console.questions.get(each.name))
            for each in chosen
        )
    )
    return render(
        request,
        "work/work.html",
        topics=[build_topic_name(each.name) for each in chosen],
        systems=seen,
        chosen=system,
        summaries=summaries,
        queues=sorted(
            (each for summary in summaries for each in summary.queues),
            key=lambda each: (-each.dead, -each.visible - each.in_flight - each.delayed),
        ),
        problems=list_problems(summaries),
        has_why=any(each.admin.why is not None for each in seen),
    )


def add_topics(console: Console) -> None:
    """Let pages follow the work of each system."""
    for stores in console.stores.values():
        console.live.add_topic(build_topic(console, stores))


def build_topic(console: Console, stores: Stores) -> Topic:
    """Return the topic that changes when the work of the stores' system does."""
    assert stores.system is not None
    name = stores.system.name

    async def read() -> Hashable:
        return await read_summary(stores, console.settings, console.questions.get(name))

    every_s = SERVICE_EVERY_S if _uses_services(stores.system, console.settings) else EMBEDDED_EVERY_S
    return Topic(build_topic_name(name), read, every_s, system=name)


def _uses_services(system: System, settings: Settings) -> bool:
    """Return whether reading the system's work sends requests to DynamoDB or SQS."""
    has_queue_service = bool(system.queues) and not settings.has_embedded_queues
    return has_queue_service or (bool(system.tables) and not settings.has_embedded_tables)


for _each in (
    queue_routes,
    outbox_routes,
    action_routes,
    flow_routes,
    lock_routes,
    why_routes,
    reveal_routes,
):
    router.include_router(_each.router)
