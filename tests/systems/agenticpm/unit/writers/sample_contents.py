"""The document's examples of the four contents (4.2), and stories on stores in memory with a project."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from copy import deepcopy
from decimal import Decimal
from typing import Any

from agenticpm.domain.contents import ArtefactType
from agenticpm.model import patterns
from agenticpm.model.entities import Project, ProjectId, Source
from agenticpm.system import SYSTEM
from holdfast import Stores, open_memory_stores, provision
from tests.systems.agenticpm.unit.samples import NOON, ManualClock

PROJECT = ProjectId("6f1c7f5e-8b1c-4c3e-9a55-2f1a0f6d9a11")

DELIVERY_STATE: dict[str, Any] = {
    "overall_status": "green",
    "status_summary": "One-paragraph summary of project health",
    "current_sprint": {
        "name": "Sprint 12",
        "start_date": "2026-02-03T00:00:00Z",
        "end_date": "2026-02-14T00:00:00Z",
        "goal": "Complete user profile migration",
        "progress": {
            "total_points": 34,
            "completed_points": 21,
            "in_progress_points": 8,
            "blocked_points": 5,
        },
    },
    "milestones": [
        {
            "name": "Beta launch",
            "due_date": "2026-03-15T00:00:00Z",
            "status": "on_track",
            "notes": "Dependent on API migration completing by March 1",
        }
    ],
    "blockers": [
        {
            "id": "B001",
            "description": "Design assets for profile page not delivered",
            "owner": "Sarah K",
            "raised_date": "2026-01-28T00:00:00Z",
            "severity": "high",
            "source_ticket": "MCU-142",
        }
    ],
    "key_metrics": {
        "velocity_trend": "increasing",
        "avg_cycle_time_days": Decimal("4.2"),
        "open_blockers": 1,
        "active_risks": 3,
    },
    "next_actions": [
        "Follow up with Sarah on design assets by Feb 5",
        "Review sprint 13 scope with team",
    ],
}

RAID_LOG: dict[str, Any] = {
    "items": [
        {
            "id": "R001",
            "type": "risk",
            "title": "API vendor announces EOL",
            "description": "Vendor A API will be decommissioned June 2026. Migration to Vendor B required.",
            "severity": "critical",
            "status": "open",
            "owner": "Damien",
            "raised_date": "2026-01-15T00:00:00Z",
            "due_date": "2026-03-01T00:00:00Z",
            "mitigation": "Evaluate Vendor B, begin migration by Feb 15",
            "resolution": None,
            "resolved_date": None,
            "source": "agent_detected",
            "source_reference": "MCU-156",
            "last_reviewed": "2026-02-01T00:00:00Z",
        }
    ]
}

DECISION_LOG: dict[str, Any] = {
    "decisions": [
        {
            "id": "D001",
            "title": "Delay beta launch to mid-April",
            "context": "API vendor migration requires 3 weeks. Original March 15 date at risk.",
            "options_considered": [
                {
                    "option": "Delay to mid-April",
                    "pros": ["Lower risk", "Within contingency budget"],
                    "cons": ["4-week delay to market"],
                },
                {
                    "option": "Rush migration, keep March date",
                    "pros": ["On-time delivery"],
                    "cons": ["High quality risk", "Team burnout", "$7k premium"],
                },
            ],
            "decision": "Delay to mid-April",
            "rationale": "Lower risk, within budget, maintains quality standards",
            "made_by": "user",
            "date": "2026-02-03T00:00:00Z",
            "status": "active",
            "related_raid_items": ["R001"],
        }
    ]
}

BACKLOG_SUMMARY: dict[str, Any] = {
    "source": "jira",
    "last_synced": "2026-02-04T10:30:00Z",
    "summary": {
        "total_items": 47,
        "by_status": {"to_do": 22, "in_progress": 8, "done_this_sprint": 12, "blocked": 5},
        "by_priority": {"critical": 2, "high": 11, "medium": 24, "low": 10},
    },
    "highlights": [
        {
            "ticket_id": "MCU-142",
            "title": "Profile page redesign",
            "flag": "blocked",
            "detail": "Blocked on design assets from Sarah. No update in 7 days.",
            "suggested_action": "Escalate to design lead",
        }
    ],
    "refinement_candidates": [
        {
            "ticket_id": "MCU-155",
            "title": "Implement LinkedIn import",
            "issue": "Missing acceptance criteria",
        }
    ],
    "scope_notes": "3 new tickets added mid-sprint (possible scope creep)",
}

CONTENTS: dict[ArtefactType, dict[str, Any]] = {
    ArtefactType.delivery_state: DELIVERY_STATE,
    ArtefactType.raid_log: RAID_LOG,
    ArtefactType.decision_log: DECISION_LOG,
    ArtefactType.backlog_summary: BACKLOG_SUMMARY,
}


def replace_at(content: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Return a copy with another value at a path such as `items.0.id`."""
    copied = deepcopy(content)
    *way, last = [int(each) if each.isdigit() else each for each in path.split(".")]
    place: Any = copied
    for each in way:
        place = place[each]
    place[last] = value
    return copied


def make_raid_log(*ids: str, **changes: Any) -> dict[str, Any]:
    """Make a RAID log with the document's open risk under each id; `changes` override fields."""
    return {"items": [{**RAID_LOG["items"][0], "id": each, **changes} for each in ids]}


@asynccontextmanager
async def open_project_stores() -> AsyncIterator[Stores]:
    """Open stores in memory that contain a project, with a manual clock."""
    async with open_memory_stores(SYSTEM, clock=ManualClock()) as stores:
        await provision(stores, SYSTEM)
        await stores.run(patterns.create_project(sample_project()))
        yield stores


def sample_project() -> Project:
    """Return the project that the stories' stores contain."""
    return Project(
        id=PROJECT,
        name="Member profile",
        source=Source.jira,
        source_project_key="MCU",
        created_at=NOON,
        updated_at=NOON,
    )
