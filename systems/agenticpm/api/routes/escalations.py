"""HTTP routes of escalations: list those of all projects by status or of one project, get and decide one."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from agenticpm.api import escalation_views as views
from agenticpm.api.routes.responses import CONFLICT, NOT_FOUND, build_page_response, build_response
from agenticpm.model.entities import Escalation, EscalationStatus
from holdfast import Stores
from holdfast.web import PageOf, RequestedPage


class DecisionMade(BaseModel):
    """A decision: the name of one of the options, the notes and the person."""

    model_config = ConfigDict(extra="forbid")

    decision: str
    notes: Annotated[str | None, Field(max_length=5000)] = None
    by: Annotated[str, Field(min_length=1, max_length=100)]


def build_escalation_routes(stores: Stores) -> APIRouter:
    router = APIRouter(tags=["escalations"])
    path = "/projects/{project_id}/escalations"

    @router.get(
        "/escalations",
        summary="List escalations of all projects, oldest first",
        response_model=PageOf[Escalation],
    )
    async def in_status(
        paging: RequestedPage, status: EscalationStatus = EscalationStatus.pending
    ) -> Response:
        return build_page_response(await views.list_by_status(stores, status, paging.limit, paging.cursor))

    @router.get(path, summary="List a project's escalations, oldest first", response_model=list[Escalation])
    async def of_project(project_id: str) -> Response:
        return build_response(await views.list_of_project(stores, project_id))

    @router.get(path + "/{id}", summary="Get an escalation", response_model=Escalation, responses=NOT_FOUND)
    async def get(project_id: str, id: str) -> Response:
        return build_response(await views.get_escalation(stores, project_id, id))

    @router.post(
        path + "/{id}/decision",
        summary="Decide an escalation, and record the decision in the decision log",
        response_model=Escalation,
        responses=NOT_FOUND | CONFLICT,
    )
    async def decide(project_id: str, id: str, made: DecisionMade) -> Response:
        decided = await views.decide(stores, project_id, id, made.decision, notes=made.notes, by=made.by)
        return build_response(decided)

    return router
