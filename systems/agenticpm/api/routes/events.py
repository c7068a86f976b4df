"""HTTP routes of events: a project's and the feed of all projects, newest first; a day, oldest first."""

from __future__ import annotations

from datetime import date

from fastapi import APIRouter
from fastapi.responses import Response

from agenticpm.api.routes.responses import build_page_response
from agenticpm.model import patterns
from agenticpm.model.entities import Event
from agenticpm.model.projects import parse_project_id
from holdfast import Stores
from holdfast.web import PageOf, RequestedPage


def build_event_routes(stores: Stores) -> APIRouter:
    router = APIRouter(tags=["events"])

    @router.get("/events", summary="List events of all projects, newest first", response_model=PageOf[Event])
    async def recent(paging: RequestedPage) -> Response:
        return build_page_response(await stores.run(patterns.recent_events(paging.limit, paging.cursor)))

    @router.get(
        "/events/{day}", summary="List all events of a day (UTC), oldest first", response_model=PageOf[Event]
    )
    async def of_day(day: date, paging: RequestedPage) -> Response:
        return build_page_response(await stores.run(patterns.events_of_day(day, paging.limit, paging.cursor)))

    @router.get(
        "/projects/{project_id}/events",
        summary="List a project's events, newest first",
        response_model=PageOf[Event],
    )
    async def of_project(project_id: str, paging: RequestedPage) -> Response:
        asked = patterns.project_events(parse_project_id(project_id), paging.limit, paging.cursor)
        return build_page_response(await stores.run(asked))

    return router
