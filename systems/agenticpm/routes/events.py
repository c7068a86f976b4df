"""Events: of a project, of all projects as a feed, and of one day in full. Newest first, but for a day."""

from __future__ import annotations

from datetime import date

from fastapi import APIRouter
from fastapi.responses import Response

from agenticpm import patterns
from agenticpm.model import Event
from agenticpm.projects import checked_id
from agenticpm.routes.answering import page_of
from holdfast import Stores
from holdfast.web import PageAsked, PageOf


def event_routes(stores: Stores) -> APIRouter:
    router = APIRouter(tags=["events"])

    @router.get("/events", summary="What happened in all projects", response_model=PageOf[Event])
    async def recent(paging: PageAsked) -> Response:
        return page_of(await stores.run(patterns.recent_events(paging.limit, paging.cursor)))

    @router.get("/events/{day}", summary="A day (UTC) in full, oldest first", response_model=PageOf[Event])
    async def of_day(day: date, paging: PageAsked) -> Response:
        return page_of(await stores.run(patterns.events_of_day(day, paging.limit, paging.cursor)))

    @router.get(
        "/projects/{project_id}/events", summary="What happened in a project", response_model=PageOf[Event]
    )
    async def of_project(project_id: str, paging: PageAsked) -> Response:
        asked = patterns.project_events(checked_id(project_id), paging.limit, paging.cursor)
        return page_of(await stores.run(asked))

    return router
