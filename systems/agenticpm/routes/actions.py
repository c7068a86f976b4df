"""Actions: what the agent did and would do; those that wait are approved, edited or cancelled here,
and those that were refused reopened."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from agenticpm import explaining, reviews
from agenticpm.routes.answering import NOT_THERE, OVERTAKEN, answered, page_of
from holdfast import Stores
from holdfast.web import PageAsked, PageOf

By = Annotated[str, Field(min_length=1, max_length=100)]
GLOBAL = "global"


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

    by: By


class Edit(BaseModel):
    """Of `detail`, what is given takes the place of what was there."""

    model_config = ConfigDict(extra="forbid")

    by: By
    detail: dict[str, Any] | None = None
    description: Annotated[str | None, Field(max_length=2000)] = None


class Reopening(BaseModel):
    model_config = ConfigDict(extra="forbid")

    by: By


class Cancellation(BaseModel):
    model_config = ConfigDict(extra="forbid")

    by: By
    reason: Annotated[str | None, Field(max_length=500)] = None


class Why(BaseModel):
    lines: list[str]
    data: dict[str, Any]


def action_routes(stores: Stores) -> APIRouter:
    """Those that belong to no project are under `global` in place of a project's id."""
    router = APIRouter(tags=["actions"])
    path = "/projects/{project_id}/actions"
    reviewed: dict[str, Any] = {"response_model": ActionShown, "responses": NOT_THERE | OVERTAKEN}

    @router.get(
        "/actions/held", summary="Those that wait, by when they are due", response_model=PageOf[ActionShown]
    )
    async def held(paging: PageAsked) -> Response:
        return page_of(await reviews.held(stores, paging.limit, paging.cursor))

    @router.get(
        "/why/{id:path}", summary="What led to an action, an escalation or an event", response_model=Why
    )
    async def why(id: str) -> Response:
        found = await explaining.why(stores, id)
        return answered({"lines": list(found.lines), "data": found.data})

    @router.get(path, summary="Those of a project, newest first", response_model=PageOf[ActionShown])
    async def of_project(project_id: str, paging: PageAsked) -> Response:
        return page_of(await reviews.of_project(stores, _scope(project_id), paging.limit, paging.cursor))

    @router.get(path + "/{id}", summary="One of them", response_model=ActionShown, responses=NOT_THERE)
    async def get(project_id: str, id: str) -> Response:
        return answered(await reviews.found(stores, _scope(project_id), id))

    @router.post(path + "/{id}/approve", summary="It is due at once", **reviewed)
    async def approve(project_id: str, id: str, wanted: Approval) -> Response:
        return answered(await reviews.approve(stores, _scope(project_id), id, by=wanted.by))

    @router.patch(path + "/{id}", summary="Its content is another, and the hold goes on", **reviewed)
    async def edit(project_id: str, id: str, wanted: Edit) -> Response:
        return answered(await reviews.edit(stores, _scope(project_id), id, **wanted.model_dump()))

    @router.post(path + "/{id}/cancel", summary="It is never done", **reviewed)
    async def cancel(project_id: str, id: str, wanted: Cancellation) -> Response:
        return answered(await reviews.cancel(stores, _scope(project_id), id, **wanted.model_dump()))

    @router.post(
        path + "/{id}/reopen",
        summary="One that was refused is due again",
        description="Of one that was refused with the code OutcomeUnknown it is said that it was not done: look at the "
        "party first.",
        **reviewed,
    )
    async def reopen(project_id: str, id: str, wanted: Reopening) -> Response:
        return answered(await reviews.reopen(stores, _scope(project_id), id, by=wanted.by))

    return router


def _scope(project_id: str) -> str | None:
    return None if project_id == GLOBAL else project_id
