"""Sample contents, projects, actions and escalations for tests of the API and commands, and a clock."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

from agenticpm.domain.autonomy import COMMENT, MAIL
from agenticpm.model import patterns, projects
from agenticpm.model.entities import Action, ActionType, Confidence, Escalation, Option, Project
from agenticpm.model.patterns import ACTION_QUEUE
from agenticpm.workers.actions import build_hold
from agenticpm.workers.escalations import build_escalation
from holdfast import Stores
from holdfast.core.errors import ExternalServiceRefused
from tests.systems.agenticpm.unit.sample_snapshots import make_item

# A Wednesday at noon in Sydney.
NOON: Final = datetime(2026, 2, 4, 1, tzinfo=UTC)
BECAUSE: Final[dict[str, Any]] = {
    "signal": "blocked",
    "subject": "MCU-142",
    "summary": "MCU-142 is blocked",
    "evidence": [{"ticket": "MCU-142", "field": "status", "before": "In Progress", "after": "Blocked"}],
}
MAIL_DETAIL: Final[dict[str, Any]] = {
    "kind": MAIL,
    "to": ["lead@acme.example"],
    "subject": "Design assets",
    "text": "When will they come?",
}


class ManualClock:
    """Clock that only the test moves."""

    def __init__(self, now: datetime = NOON) -> None:
        self.seconds = now.timestamp()

    def now(self) -> float:
        return self.seconds

    def advance(self, seconds: float) -> None:
        self.seconds += seconds


def make_risk(id: str, title: str = "The vendor may be late", **changes: Any) -> dict[str, Any]:
    """Make an open RAID risk; `changes` override its fields."""
    given = {
        "title": title,
        "description": "Their last two deliveries were",
        "due_date": "2026-03-01T00:00:00Z",
    }
    return make_item(id, **given | changes)


def make_raid_log(*risks: dict[str, Any]) -> dict[str, Any]:
    return {"items": list(risks)}


async def create_project(stores: Stores, **changes: Any) -> Project:
    """Create the sample project; `changes` override its fields."""
    given: dict[str, Any] = {
        "name": "Member profile",
        "source": "jira",
        "source_project_key": "MCU",
    } | changes
    return await projects.create(stores, **given)


async def hold_mail(stores: Stores, project: Project | None) -> Action:
    """Hold a mail for half an hour and return the action."""
    return await _hold_action(stores, project, ActionType.email_sent, "Mail the lead", MAIL_DETAIL)


async def hold_comment(stores: Stores, project: Project) -> Action:
    """Hold a comment for half an hour and return the action."""
    detail = {"kind": COMMENT, "ticket": "MCU-142", "text": "What is it waiting for?"}
    return await _hold_action(stores, project, ActionType.jira_update, "Comment on MCU-142", detail)


async def _hold_action(
    stores: Stores, project: Project | None, type: ActionType, description: str, detail: dict[str, Any]
) -> Action:
    """Hold an action for half an hour, caused by a blocked ticket, and return it."""
    project_id = None if project is None else project.id
    sure = Confidence(
        source_agreement=Decimal(1),
        boundary_compliance=Decimal(1),
        schema_validity=Decimal(1),
        precedent_match=Decimal("0.5"),
    )
    writes = build_hold(
        stores, project_id, type, description, detail, hold_s=1800, confidence=sure, because=BECAUSE
    )
    await stores.transact(*writes)
    return (await stores.run(patterns.project_actions(project_id, 1))).items[0]


async def refuse_action(stores: Stores, action: Action) -> None:
    """Execute the action against an external service that refuses it permanently."""

    async def refuse(fresh: Action, key: str) -> None:
        raise ExternalServiceRefused("422", "There is no such address.")

    with suppress(ExternalServiceRefused):
        await ACTION_QUEUE.execute(stores, action, act=refuse, takes_key=True, act_s=1.0)


async def create_escalation(
    stores: Stores, project: Project, title: str = "Beta launch is at risk"
) -> Escalation:
    """Create an escalation with the options Delay and Rush, and return it."""
    writes = await build_escalation(
        stores,
        project.id,
        title=title,
        context=BECAUSE,
        options=[Option(option="Delay", pros=["Nothing is cut"], cons=["Later"]), Option(option="Rush")],
        recommendation="Delay",
        rationale="Velocity fell",
    )
    await stores.transact(*writes)
    found = await stores.all(patterns.project_escalations(project.id))
    return next(each for each in found if each.title == title)
