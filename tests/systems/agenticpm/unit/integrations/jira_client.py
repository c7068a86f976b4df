"""Helpers that open the Jira tracker on the sandbox in process, without a socket."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import httpx2

from agenticpm.domain.tickets import SyncPage
from agenticpm.integrations.jira.tracker import JiraTracker
from holdfast_demo.agenticpm.sandbox.jira import JiraSandbox, build_jira_app
from tests.systems.agenticpm.unit.samples import ManualClock

NOW = datetime(2026, 2, 4, 10, 30, tzinfo=UTC)
EMAIL, TOKEN = "agent@example.com", "token-of-the-test"


def make_sandbox(**settings: Any) -> JiraSandbox:
    """Make a sandbox with the test's credentials and clock; `settings` override its fields."""
    given = {"clock": ManualClock(NOW), "email": EMAIL, "api_token": TOKEN, **settings}
    return JiraSandbox(**given)


@asynccontextmanager
async def open_jira(
    sandbox: JiraSandbox, transport: httpx2.AsyncBaseTransport | None = None, **settings: Any
) -> AsyncIterator[JiraTracker]:
    """Open a tracker of the sandbox without a socket, or through `transport`. The rest are its settings."""
    through = transport or httpx2.ASGITransport(build_jira_app(sandbox))
    url = "http://jira.example.com"
    async with httpx2.AsyncClient(transport=through, base_url=url, auth=(EMAIL, TOKEN)) as http:
        yield JiraTracker(http, clock=sandbox.clock, **settings)


async def read_pages(tracker: JiraTracker, checkpoint: str | None, project: str = "MCU") -> list[SyncPage]:
    """Read all pages after a checkpoint."""
    pages = [await tracker.fetch_changes(project, checkpoint)]
    while pages[-1].has_more:
        pages.append(await tracker.fetch_changes(project, pages[-1].checkpoint))
    return pages
