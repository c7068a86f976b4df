"""Escalations as people ask for them, and decide them."""

from __future__ import annotations

from uuid import UUID

from agenticpm import escalations, patterns
from agenticpm.model import Escalation, EscalationStatus
from agenticpm.projects import checked_id, one_of
from holdfast import Page, Stores
from holdfast.errors import InvalidRequest, NotFound


async def listed(
    stores: Stores,
    status: EscalationStatus | str = EscalationStatus.pending,
    limit: int = patterns.PAGE,
    cursor: str | None = None,
) -> Page[Escalation]:
    """Of all projects, oldest first."""
    wanted = one_of(EscalationStatus, status, "status")
    return await stores.run(patterns.escalations_in(wanted, limit, cursor))


async def of_project(stores: Stores, project_id: str) -> list[Escalation]:
    return await escalations.of_project(stores, checked_id(project_id))


async def found(stores: Stores, project_id: str, id: str) -> Escalation:
    try:
        wanted = str(UUID(id))
    except ValueError:
        raise InvalidRequest(f"{id!r} is no id of an escalation: it is a UUID.") from None
    escalation = await stores.run(patterns.escalation(checked_id(project_id), wanted))
    if escalation is None:
        raise NotFound(f"The project {project_id} has no escalation {id}: list those it has.")
    return escalation


async def decide(
    stores: Stores, project_id: str, id: str, decision: str, *, notes: str | None = None, by: str
) -> Escalation:
    return await escalations.decide(stores, checked_id(project_id), id, decision, notes, by)
