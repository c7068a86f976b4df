"""Escalations: what waits for a person, in all projects and in one; and the decision."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from agenticpm import escalation_views as views
from agenticpm.model import Escalation, EscalationStatus
from agenticpm.routes.answering import NOT_THERE, OVERTAKEN, answered, page_of
from holdfast import Stores
from holdfast.web import PageAsked, PageOf


class DecisionMade(BaseModel):
    """One of the options by its name, why, and by whom."""

    model_config = ConfigDict(extra="forbid")

    decision: str
    notes: Annotated[str | None, Field(max_length=5000)] = None
    by: Annotated[str, Field(min_length=1, max_length=100)]


def escalation_routes(stores: Stores) -> APIRouter:
    router = APIRouter(tags=["escalations"])
    path = "/projects/{project_id}/escalations"

    @router.get(
        "/escalations", summary="Those of all projects, oldest first", response_model=PageOf[Escalation]
    )
    async def in_status(paging: PageAsked, status: EscalationStatus = EscalationStatus.pending) -> Response:
        return page_of(await views.listed(stores, status, paging.limit, paging.cursor))

    @router.get(path, summary="Those of a project, oldest first", response_model=list[Escalation])
    async def of_project(project_id: str) -> Response:
        return answered(await views.of_project(stores, project_id))

    @router.get(path + "/{id}", summary="One of them", response_model=Escalation, responses=NOT_THERE)
    async def get(project_id: str, id: str) -> Response:
        return answered(await views.found(stores, project_id, id))

    @router.post(
        path + "/{id}/decision",
        summary="Decide it; the decision log has it in the same moment",
        response_model=Escalation,
        responses=NOT_THERE | OVERTAKEN,
    )
    async def decide(project_id: str, id: str, made: DecisionMade) -> Response:
        decided = await views.decide(stores, project_id, id, made.decision, notes=made.notes, by=made.by)
        return answered(decided)

    return router
