"""Helpers that write drafts with the Claude writer, against the Claude sandbox in process."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import httpx2

from agenticpm.domain.contents import ArtefactType
from agenticpm.domain.tickets import (
    Draft,
    Milestone,
    Plan,
    Priority,
    Snapshot,
    Sprint,
    Ticket,
    TicketStage,
    Writing,
)
from agenticpm.domain.writers.rules import RulesWriter
from agenticpm.integrations.claude.writer import ClaudeWriter
from holdfast.ai import ClaudeReasoner
from holdfast_demo.agenticpm.sandbox.claude import ClaudeSandbox, ResponseBuilder, build_claude_app

NOW = datetime(2026, 2, 4, 1, tzinfo=UTC)
MODEL = "claude-haiku-5-5"
STATE, RAID, BACKLOG = ArtefactType.delivery_state, ArtefactType.raid_log, ArtefactType.backlog_summary


def make_ticket(key: str, **changes: Any) -> Ticket:
    """Make a ticket in progress in Sprint 12; `changes` override its fields."""
    given: dict[str, Any] = {
        "id": key,
        "key": key,
        "title": f"The work of {key}",
        "status": "In Progress",
        "stage": TicketStage.in_progress,
        "points": Decimal(3),
        "sprint": "Sprint 12",
        "assignee": "Sarah K",
        "created_at": NOW - timedelta(days=20),
        "started_at": NOW - timedelta(days=5),
        "updated_at": NOW - timedelta(days=1),
    }
    return Ticket(**given | changes)


BLOCKED = make_ticket(
    "MCU-142", is_blocked=True, blocked_reason="Design assets are missing", priority=Priority.high
)


def make_writing(type: ArtefactType, *tickets: Ticket, previous: Any = None, now: datetime = NOW) -> Writing:
    """Make the input of a writer; by default with a blocked ticket and another one."""
    every = tickets or (BLOCKED, make_ticket("MCU-143"))
    sprint = Sprint(
        id="12", name="Sprint 12", starts_at=NOW - timedelta(days=5), ends_at=NOW + timedelta(days=5)
    )
    plan = Plan(
        sprints=(sprint,), milestones=(Milestone(name="Beta launch", due_at=NOW + timedelta(days=30)),)
    )
    snapshot = Snapshot(
        source="jira",
        project_key="MCU",
        tickets={each.key: each for each in every},
        plan=plan,
        synced_at=now,
    )
    return Writing(
        type=type, previous=previous, snapshot=snapshot, signals=(), raid_log={"items": []}, now=now
    )


async def write_drafts(claude: ClaudeSandbox, *writings: Writing, model: str = MODEL) -> list[Draft]:
    """Write each draft with the same Claude writer, which calls the sandbox in process."""
    transport = httpx2.ASGITransport(build_claude_app(claude))
    async with httpx2.AsyncClient(base_url="http://claude.example.com", transport=transport) as http:
        writer = ClaudeWriter(ClaudeReasoner(http, model), RulesWriter())
        return [await writer.write(each) for each in writings]


async def write_draft(
    type: ArtefactType, *answers: ResponseBuilder, **changes: Any
) -> tuple[Draft, ClaudeSandbox]:
    """Write one draft with these prepared responses; return it and the sandbox."""
    claude = ClaudeSandbox(responses=list(answers))
    (made,) = await write_drafts(claude, make_writing(type, **changes))
    return made, claude


async def write_by_rules(writing: Writing) -> Draft:
    """Return the draft of the rules writer."""
    return await RulesWriter().write(writing)


def get_prompt(claude: ClaudeSandbox, index: int = 0) -> str:
    """Return the text of the user message of a request."""
    return str(claude.requests[index]["messages"][0]["content"][0]["text"])
