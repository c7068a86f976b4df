"""Escalation operations for the API and the commands: list, show and decide."""

from __future__ import annotations

from uuid import UUID

from agenticpm.model import patterns
from agenticpm.model.entities import Escalation, EscalationStatus
from agenticpm.model.projects import parse_choice, parse_project_id
from agenticpm.workers import escalations
from holdfast import Page, Stores
from holdfast.core.errors import InvalidRequest, NotFound


async def list_by_status(
    stores: Stores,
    status: EscalationStatus | str = EscalationStatus.pending,
    limit: int = patterns.PAGE,
    cursor: str | None = None,
) -> Page[Escalation]:
    """Return one page of the escalations of all projects in a status, oldest first."""
    wanted = parse_choice(EscalationStatus, status, "status")
    return await stores.run(patterns.escalations_in(wanted, limit, cursor))


async def list_of_project(stores: Stores, project_id: str) -> list[Escalation]:
    """List the escalations of a project in every status, oldest first."""
    return await escalations.list_of_project(stores, parse_project_id(project_id))


async def get_escalation(stores: Stores, project_id: str, id: str) -> Escalation:
    """Return the escalation. Raise InvalidRequest if the id is not a UUID, NotFound if there is none."""
    try:
        wanted = str(UUID(id))
    except ValueError:
        raise InvalidRequest(f"Invalid escalation id {id!r}: expected a UUID.") from None
    escalation = await stores.run(patterns.escalation(parse_project_id(project_id), wanted))
    if escalation is None:
        raise NotFound(f"Escalation {id} of project {project_id} not found. List the project's escalations.")
    return escalation


async def decide(
    stores: Stores, project_id: str, id: str, decision: str, *, notes: str | None = None, by: str
) -> Escalation:
    """Decide a pending escalation; see `escalations.decide`."""
    return await escalations.decide(stores, parse_project_id(project_id), id, decision, notes, by)
