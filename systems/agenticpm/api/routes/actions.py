"""HTTP routes of actions: list, get, approve, edit, cancel and reopen actions, and explain their causes."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from agenticpm.api import action_reviews, explain
from agenticpm.api.routes.responses import CONFLICT, NOT_FOUND, build_page_response, build_response
from holdfast import Stores
from holdfast.web import PageOf, RequestedPage

PersonName = Annotated[str, Field(min_length=1, max_length=100)]
GLOBAL_SCOPE = "global"


class ActionShown(BaseModel):
    id: str
    projectId: str | None  # noqa: N815
    actionType: str  # noqa: N815
    description: str
    detail: dict[str, Any] | None
    confidence: dict[str, float] | None
    status: str
    executed: bool
    heldUntil: datetime | None  # noqa: N815
    executedAt: datetime | None  # noqa: N815
    reviewedBy: str | None  # noqa: N815
    reviewedAt: datetime | None  # noqa: N815
    review: str | None
    refused: str | None
    error: str | None
    createdAt: datetime  # noqa: N815


class Approval(BaseModel):
    model_config = ConfigDict(extra="forbid")

    by: PersonName


class Edit(BaseModel):
    """A change to a held action. The keys given in `detail` replace the existing ones."""

    model_config = ConfigDict(extra="forbid")

    by: PersonName
    detail: dict[str, Any] | None = None
    description: Annotated[str | None, Field(max_length=2000)] = None


class Reopening(BaseModel):
    model_config = ConfigDict(extra="forbid")

    by: PersonName


class Cancellation(BaseModel):
    model_config = ConfigDict(extra="forbid")

    by: PersonName
    reason: Annotated[str | None, Field(max_length=500)] = None


class Why(BaseModel):
    lines: list[str]
    data: dict[str, Any]


def build_action_routes(stores: Stores) -> APIRouter:
    """Build the router. Actions without a project are under `global` instead of a project id."""
    router = APIRouter(tags=["actions"])
    path = "/projects/{project_id}/actions"
    reviewed: dict[str, Any] = {"response_model": ActionShown, "responses": NOT_FOUND | CONFLICT}

    @router.get("/actions/held", summary="List held actions by due time", response_model=PageOf[ActionShown])
    async def held(paging: RequestedPage) -> Response:
        return build_page_response(await action_reviews.list_held(stores, paging.limit, paging.cursor))

    @router.get("/why/{id:path}", summary="Explain an action, an escalation or an event", response_model=Why)
    async def why(id: str) -> Response:
        found = await explain.explain(stores, id)
        return build_response({"lines": list(found.lines), "data": found.data})

    @router.get(path, summary="List a project's actions, newest first", response_model=PageOf[ActionShown])
    async def of_project(project_id: str, paging: RequestedPage) -> Response:
        return build_page_response(
            await action_reviews.list_of_project(
                stores, _parse_scope(project_id), paging.limit, paging.cursor
            )
        )

    @router.get(path + "/{id}", summary="Get an action", response_model=ActionShown, responses=NOT_FOUND)
    async def get(project_id: str, id: str) -> Response:
        return build_response(await action_reviews.get_action(stores, _parse_scope(project_id), id))

    @router.post(path + "/{id}/approve", summary="Approve a held action: it is due immediately", **reviewed)
    async def approve(project_id: str, id: str, wanted: Approval) -> Response:
        return build_response(
            await action_reviews.approve(stores, _parse_scope(project_id), id, by=wanted.by)
        )

    @router.patch(path + "/{id}", summary="Edit a held action; its due time stays", **reviewed)
    async def edit(project_id: str, id: str, wanted: Edit) -> Response:
        return build_response(
            await action_reviews.edit(stores, _parse_scope(project_id), id, **wanted.model_dump())
        )

    @router.post(path + "/{id}/cancel", summary="Cancel a held action: it is never executed", **reviewed)
    async def cancel(project_id: str, id: str, wanted: Cancellation) -> Response:
        return build_response(
            await action_reviews.cancel(stores, _parse_scope(project_id), id, **wanted.model_dump())
        )

    @router.post(
        path + "/{id}/reopen",
        summary="Reopen a refused action: it is due again",
        description="The agent executes the action again. If it was refused with OutcomeUnknown, first "
        "check at the external service that it was not done.",
        **reviewed,
    )
    async def reopen(project_id: str, id: str, wanted: Reopening) -> Response:
        return build_response(await action_reviews.reopen(stores, _parse_scope(project_id), id, by=wanted.by))

    return router


def _parse_scope(project_id: str) -> str | None:
    """Return the project id, or None for `global`."""
    return None if project_id == GLOBAL_SCOPE else project_id
