"""HTTP routes of artefacts: list, get with an ETag, compare, export; put or undo the version in If-Match."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final

from fastapi import APIRouter, Body, Header
from fastapi.responses import PlainTextResponse, Response
from pydantic import BaseModel

from agenticpm.api import artefact_views as views
from agenticpm.api.artefact_views import Format
from agenticpm.api.routes.responses import (
    NOT_FOUND,
    PRECONDITIONS,
    IfMatchVersion,
    build_response,
    format_etag,
)
from agenticpm.domain.contents import ArtefactType
from agenticpm.model.entities import Artefact
from holdfast import Stores
from holdfast.core.errors import Conflict

MEDIA_TYPES: Final = {
    Format.md: "text/markdown; charset=utf-8",
    Format.csv: "text/csv; charset=utf-8",
    Format.confluence: "application/xhtml+xml; charset=utf-8",
}


class ArtefactHead(BaseModel):
    """An artefact without its content."""

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
    """The changes since the previous version: by path, and as lines of text."""

    version: int
    differences: list[dict[str, Any]]
    lines: list[str]


def build_artefact_routes(stores: Stores) -> APIRouter:
    router = APIRouter(prefix="/projects/{project_id}/artefacts", tags=["artefacts"], responses=NOT_FOUND)

    @router.get("", summary="List a project's artefacts", response_model=list[ArtefactHead])
    async def listed(project_id: str) -> Response:
        return build_response(await views.list_artefacts(stores, project_id))

    @router.get("/{type}", summary="Get an artefact with its content", response_model=ArtefactInFull)
    async def get(
        project_id: str, type: ArtefactType, if_none_match: Annotated[str | None, Header()] = None
    ) -> Response:
        artefact = await views.get_artefact(stores, project_id, type)
        if if_none_match is not None and if_none_match.strip() in ("*", format_etag(artefact.version)):
            return Response(status_code=304, headers={"etag": format_etag(artefact.version)})
        return await respond_with_etag(artefact)

    @router.put(
        "/{type}",
        summary="Write the next version of an artefact",
        response_model=ArtefactInFull,
        responses=PRECONDITIONS,
    )
    async def put(
        project_id: str, type: ArtefactType, seen: IfMatchVersion, content: Annotated[dict[str, Any], Body()]
    ) -> Response:
        try:
            return await respond_with_etag(await views.put(stores, project_id, type, content, seen.version))
        except Conflict as error:
            raise seen.to_precondition(error) from error

    @router.post(
        "/{type}/undo",
        summary="Undo the last version of an artefact",
        response_model=ArtefactInFull,
        responses=PRECONDITIONS,
    )
    async def undo(project_id: str, type: ArtefactType, seen: IfMatchVersion) -> Response:
        artefact = await views.get_artefact(stores, project_id, type)
        try:
            return await respond_with_etag(await views.undo(stores, project_id, type, seen.version))
        except Conflict as error:
            raise (seen.to_precondition(error) if artefact.version != seen.version else error) from error

    @router.get("/{type}/diff", summary="Compare an artefact with its previous version", response_model=Diff)
    async def diff(project_id: str, type: ArtefactType) -> Response:
        return build_response(await views.diff(stores, project_id, type))

    @router.get("/{type}/export", summary="Export an artefact as Markdown, CSV or a Confluence page")
    async def export(project_id: str, type: ArtefactType, format: Format = Format.md) -> Response:
        text = await views.export(stores, project_id, type, format)
        name = f"{type}.{'xhtml' if format is Format.confluence else format}"
        headers = {"content-disposition": f'attachment; filename="{name}"'}
        return PlainTextResponse(text, media_type=MEDIA_TYPES[format], headers=headers)

    async def respond_with_etag(artefact: Artefact) -> Response:
        full = await views.load_with_content(stores, artefact)
        return build_response(full, headers={"etag": format_etag(artefact.version)})

    return router
