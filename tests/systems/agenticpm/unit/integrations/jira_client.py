"""Helpers that call the Jira tracker against the sandbox, over real HTTP or in process without a socket."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

import httpx2

from agenticpm.domain.tickets import SyncPage
from agenticpm.integrations.jira.tracker import JiraTracker
from holdfast.web import serve_in_thread
from holdfast_demo.agenticpm.sandbox.jira import JiraSandbox, build_jira_app
from tests.systems.agenticpm.unit.samples import ManualClock

T = TypeVar("T")
NOW = datetime(2026, 2, 4, 10, 30, tzinfo=UTC)
EMAIL, TOKEN = "agent@example.com", "token-of-the-test"


def make_sandbox(**settings: Any) -> JiraSandbox:
    """Make a sandbox with the test's credentials and clock; `settings` override its fields."""
    given = {"clock": ManualClock(NOW), "email": EMAIL, "api_token": TOKEN, **settings}
    return JiraSandbox(**given)


async def call_over_http(
    sandbox: JiraSandbox, ask: Callable[[JiraTracker], Awaitable[T]], **settings: Any
) -> T:
    """Return the result of `ask`, called with a tracker over real HTTP. `settings` are the tracker's."""
    with serve_in_thread(build_jira_app(sandbox)) as url:
        async with httpx2.AsyncClient(base_url=url, auth=(EMAIL, TOKEN)) as http:
            return await ask(JiraTracker(http, clock=sandbox.clock, **settings))


async def call_in_process(
    sandbox: JiraSandbox, ask: Callable[[JiraTracker], Awaitable[T]], **settings: Any
) -> T:
    """Return the result of `ask`, called with a tracker without a socket. `settings` are the tracker's."""
    transport = httpx2.ASGITransport(build_jira_app(sandbox))
    url = "http://jira.example.com"
    async with httpx2.AsyncClient(transport=transport, base_url=url, auth=(EMAIL, TOKEN)) as http:
        return await ask(JiraTracker(http, clock=sandbox.clock, **settings))


async def read_pages(tracker: JiraTracker, checkpoint: str | None, project: str = "MCU") -> list[SyncPage]:
    """Read all pages after a checkpoint."""
    pages = [await tracker.fetch_changes(project, checkpoint)]
    while pages[-1].has_more:
        pages.append(await tracker.fetch_changes(project, pages[-1].checkpoint))
    return pages
