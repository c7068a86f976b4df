"""Artefacts: in full with their version as an ETag, against the version before, exported; changed and undone by a
caller who says which version they have seen."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final

from fastapi import APIRouter, Body, Header
from fastapi.responses import PlainTextResponse, Response
from pydantic import BaseModel

from agenticpm import artefact_views as views
from agenticpm.artefact_views import Format
from agenticpm.contents import ArtefactType
from agenticpm.model import Artefact
from agenticpm.routes.answering import NOT_THERE, PRECONDITIONS, SeenVersion, answered, tag_of
from holdfast import Stores
from holdfast.errors import Conflict

MEDIA: Final = {
    Format.md: "text/markdown; charset=utf-8",
    Format.csv: "text/csv; charset=utf-8",
    Format.confluence: "application/xhtml+xml; charset=utf-8",
}


class ArtefactHead(BaseModel):
    """An artefact without what it says."""

    id: str
    projectId: str  # noqa: N815
    type: ArtefactType
    version: int
    canUndo: bool  # noqa: N815
    createdAt: datetime  # noqa: N815
    updatedAt: datetime  # noqa: N815


class ArtefactInFull(ArtefactHead):
    content: dict[str, Any]


class Diff(BaseModel):
    """Against the version before: place by place, and in lines for a person."""

    version: int
    differences: list[dict[str, Any]]
    lines: list[str]


def artefact_routes(stores: Stores) -> APIRouter:
    router = APIRouter(prefix="/projects/{project_id}/artefacts", tags=["artefacts"], responses=NOT_THERE)

    @router.get("", summary="What there is of a project", response_model=list[ArtefactHead])
    async def listed(project_id: str) -> Response:
        return answered(await views.listed(stores, project_id))

    @router.get("/{type}", summary="An artefact in full", response_model=ArtefactInFull)
    async def get(
        project_id: str, type: ArtefactType, if_none_match: Annotated[str | None, Header()] = None
    ) -> Response:
        artefact = await views.found(stores, project_id, type)
        if if_none_match is not None and if_none_match.strip() in ("*", tag_of(artefact.version)):
            return Response(status_code=304, headers={"etag": tag_of(artefact.version)})
        return await _tagged(artefact)

    @router.put("/{type}", summary="The next version", response_model=ArtefactInFull, responses=PRECONDITIONS)
    async def put(
        project_id: str, type: ArtefactType, seen: SeenVersion, content: Annotated[dict[str, Any], Body()]
    ) -> Response:
        try:
            return await _tagged(await views.put(stores, project_id, type, content, seen.version))
        except Conflict as error:
            raise seen.told(error) from error

    @router.post(
        "/{type}/undo", summary="One step back", response_model=ArtefactInFull, responses=PRECONDITIONS
    )
    async def undo(project_id: str, type: ArtefactType, seen: SeenVersion) -> Response:
        artefact = await views.found(stores, project_id, type)
        try:
            return await _tagged(await views.undo(stores, project_id, type, seen.version))
        except Conflict as error:
            raise (seen.told(error) if artefact.version != seen.version else error) from error

    @router.get("/{type}/diff", summary="Against the version before", response_model=Diff)
    async def diff(project_id: str, type: ArtefactType) -> Response:
        return answered(await views.diff(stores, project_id, type))

    @router.get("/{type}/export", summary="As Markdown, CSV or a page of Confluence")
    async def export(project_id: str, type: ArtefactType, format: Format = Format.md) -> Response:
        text = await views.export(stores, project_id, type, format)
        name = f"{type}.{'xhtml' if format is Format.confluence else format}"
        headers = {"content-disposition": f'attachment; filename="{name}"'}
        return PlainTextResponse(text, media_type=MEDIA[format], headers=headers)

    async def _tagged(artefact: Artefact) -> Response:
        full = await views.in_full(stores, artefact)
        return answered(full, headers={"etag": tag_of(artefact.version)})

    return router
