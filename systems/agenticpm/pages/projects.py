"""Projects: the list, one project with its artefacts, and one artefact with its changes and undo."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, Final

from fastapi import APIRouter, Form
from starlette.requests import Request
from starlette.responses import Response

from agenticpm.api import action_reviews, artefact_views, escalation_views
from agenticpm.domain.contents import ArtefactType
from agenticpm.domain.diff import Difference, compute_differences, format_value
from agenticpm.domain.layouts import build_layout
from agenticpm.model import artefacts, patterns, projects
from agenticpm.model.entities import Artefact, EscalationStatus, Event, ProjectStatus
from agenticpm.pages.access import OPERATOR_ONLY, SYSTEM, CurrentReader, Reader
from agenticpm.pages.inbox import TOPIC, describe_action
from holdfast import Stores
from holdfast.console import CurrentConsole, CurrentUser, audit_effect, redirect, render
from holdfast.core.errors import Conflict

TITLES: Final = {
    ArtefactType.delivery_state: "Delivery state",
    ArtefactType.raid_log: "RAID log",
    ArtefactType.backlog_summary: "Backlog summary",
    ArtefactType.decision_log: "Decision log",
}
RECENT_EVENTS: Final = 15
RECENT_ACTIONS: Final = 10


def build_project_pages(stores: Stores) -> APIRouter:
    """Build the pages of projects and artefacts."""
    router = APIRouter(prefix="/projects")

    @router.get("")
    async def list_projects(
        request: Request, status: ProjectStatus = ProjectStatus.active, after: str | None = None
    ) -> Response:
        page = await projects.list_by_status(stores, status, patterns.PAGE, after)
        return render(
            request,
            "agenticpm/projects.html",
            projects=page.items,
            cursor=page.cursor,
            status=status,
            statuses=list(ProjectStatus),
        )

    @router.get("/{project_id}")
    async def show_project(
        request: Request, reader: CurrentReader, project_id: str, events_after: str | None = None
    ) -> Response:
        project = await projects.get(stores, project_id)
        found = await stores.all(patterns.artefacts(project.id))
        health = await _load_health(stores, found.items)
        questions = await escalation_views.list_of_project(stores, project.id)
        actions = await action_reviews.list_of_project(stores, project.id, RECENT_ACTIONS)
        events = await stores.run(patterns.project_events(project.id, RECENT_EVENTS, events_after))
        return render(
            request,
            "agenticpm/project.html",
            project=project,
            health=None if health is None else reader.mask(health),
            reader=reader,
            artefacts=[_describe_artefact(each) for each in found],
            questions=[
                {"id": each.id, "title": reader.mask(each.title), "created_at": each.created_at}
                for each in questions
                if each.status is EscalationStatus.pending
            ],
            actions=[
                {**describe_action(each, {}, reader), "status": str(each.status), "at": each.created_at}
                for each in actions
            ],
            events=[_describe_event(each, reader) for each in events],
            next_events=events.cursor,
            topic=TOPIC,
        )

    @router.get("/{project_id}/artefacts/{type}")
    async def show_artefact(
        request: Request, reader: CurrentReader, project_id: str, type: ArtefactType, view: str = "current"
    ) -> Response:
        project = await projects.get(stores, project_id)
        artefact = await artefact_views.get_artefact(stores, project_id, type)
        content = await artefacts.load_content(stores, artefact)
        before = await artefacts.load_previous(stores, artefact)
        differences = [] if before is None else compute_differences(before, content)
        return render(
            request,
            "agenticpm/artefact.html",
            project=project,
            artefact=artefact,
            title=TITLES[type],
            blocks=[_describe_block(each) for each in build_layout(type, reader.mask(content))],
            has_previous=before is not None,
            differences=[_describe_difference(each, reader) for each in differences],
            view="changes" if view == "changes" else "current",
            reader=reader,
            may_undo=reader.may_decide and before is not None,
        )

    @router.post("/{project_id}/artefacts/{type}/undo", dependencies=[OPERATOR_ONLY])
    async def undo(
        console: CurrentConsole,
        user: CurrentUser,
        project_id: str,
        type: ArtefactType,
        version: Annotated[int, Form()],
    ) -> Response:
        page = f"/apps/{SYSTEM}/projects/{project_id}/artefacts/{type}"
        target = f"{type} of project {project_id}"
        try:
            async with audit_effect(
                console, user, "undo", system=SYSTEM, target=target, version=version
            ) as effect:
                restored = await artefact_views.undo(stores, project_id, type, version)
                effect.note(restored=restored.version)
        except Conflict as error:
            return redirect(page, f"Nothing was undone. {error.message}", "problem")
        return redirect(
            page, f"Version {version} is undone: version {restored.version} has the content from before it."
        )

    return router


async def _load_health(stores: Stores, found: list[Artefact] | tuple[Artefact, ...]) -> dict[str, Any] | None:
    """Return the status light of the delivery state and its sentence; None before the first one."""
    state = next((each for each in found if each.type is ArtefactType.delivery_state), None)
    if state is None:
        return None
    content = await artefacts.load_content(stores, state)
    return {"status": content["overall_status"], "summary": content["status_summary"]}


def _describe_artefact(artefact: Artefact) -> dict[str, Any]:
    return {
        "type": artefact.type,
        "title": TITLES[artefact.type],
        "version": artefact.version,
        "updated_at": artefact.updated_at,
        "has_previous": artefact.previous_version is not None,
    }


def _describe_event(event: Event, reader: Reader) -> dict[str, Any]:
    return {
        "id": event.id,
        "type": event.event_type.replace("_", " "),
        "severity": event.severity,
        "summary": reader.mask(event.summary),
        "at": event.created_at,
    }


def _describe_block(block: Any) -> dict[str, Any]:
    """Return a block of a layout with its kind, for the template."""
    return {"kind": type(block).__name__.lower(), **asdict(block)}


def _describe_difference(found: Difference, reader: Reader) -> dict[str, Any]:
    return {
        "kind": found.kind,
        "path": found.path or "everything",
        "before": "" if found.kind == "added" else reader.mask(format_value(found.before)),
        "after": "" if found.kind == "removed" else reader.mask(format_value(found.after)),
    }
