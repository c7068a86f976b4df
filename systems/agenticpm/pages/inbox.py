"""The inbox: questions to decide, and outgoing actions that are held, over all projects."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from agenticpm.api import action_reviews, escalation_views
from agenticpm.model import patterns
from agenticpm.model.entities import Action, Escalation, EscalationStatus, Project, ProjectId
from agenticpm.pages.access import CurrentReader, Reader
from holdfast import Stores
from holdfast.console import OpenQuestions, Topic, render
from holdfast.guarantees import OnceStatus
from holdfast.model.entities import batch_get

TOPIC = "agenticpm-inbox"
# The console counts no more pending questions than these.
MAX_COUNTED = 100


def build_inbox_topic(stores: Stores) -> Topic:
    """Return the topic that changes when a question or a held action appears, ends or is edited."""

    async def read() -> Hashable:
        questions = await escalation_views.list_by_status(stores)
        held = await action_reviews.list_held(stores)
        return (
            tuple(each.id for each in questions),
            tuple((each.id, each.held_until, each.status, each.payload_sha256) for each in held),
        )

    return Topic(TOPIC, read)


def build_open_questions(stores: Stores) -> OpenQuestions:
    """Return the count of pending questions, for the overview and the work page of the console."""

    async def count() -> int:
        return len(await escalation_views.list_by_status(stores, limit=MAX_COUNTED))

    return OpenQuestions(count, "/inbox")


def build_inbox_pages(stores: Stores) -> APIRouter:
    """Build the page of the inbox."""
    router = APIRouter()

    @router.get("/inbox")
    async def show_inbox(
        request: Request,
        reader: CurrentReader,
        status: EscalationStatus = EscalationStatus.pending,
        after: str | None = None,
        held_after: str | None = None,
    ) -> Response:
        questions = await escalation_views.list_by_status(stores, status, cursor=after)
        held = await action_reviews.list_held(stores, cursor=held_after)
        names = await load_names(stores, [*questions, *held])
        return render(
            request,
            "agenticpm/inbox.html",
            questions=[_describe_question(each, names, reader) for each in questions],
            next_questions=questions.cursor,
            held=[describe_action(each, names, reader) for each in held],
            next_held=held.cursor,
            status=status,
            statuses=list(EscalationStatus),
            reader=reader,
            topic=TOPIC,
        )

    return router


async def load_names(stores: Stores, items: Iterable[Escalation | Action]) -> Mapping[ProjectId | None, str]:
    """Return the names of the items' projects by id."""
    ids = list(dict.fromkeys(each.project_id for each in items if each.project_id is not None))
    found: list[Project | None] = list(await stores.run(batch_get(map(patterns.project, ids)))) if ids else []
    return {each.id: each.name for each in found if each is not None}


def describe_action(action: Action, names: Mapping[ProjectId | None, str], reader: Reader) -> dict[str, Any]:
    """Return what a list shows of a held action."""
    return {
        "id": action.id,
        "scope": action.project_id or "global",
        "project": names.get(action.project_id, "No project"),
        "description": reader.mask(action.description),
        "type": action.action_type.replace("_", " "),
        "held_until": action.held_until,
        "revision": action.revision,
        "is_waiting": action.status is OnceStatus.HELD and not action.attempts,
        "attempts": action.attempts,
        "error": reader.mask(action.error) if action.error else None,
    }


def _describe_question(
    question: Escalation, names: Mapping[ProjectId | None, str], reader: Reader
) -> dict[str, Any]:
    """Return what a list shows of an escalation."""
    return {
        "id": question.id,
        "project_id": question.project_id,
        "project": names.get(question.project_id, "Unknown project"),
        "title": reader.mask(question.title),
        "summary": reader.mask(summary)
        if isinstance(summary := question.context.get("summary"), str)
        else "",
        "options": [each.option for each in question.options],
        "recommendation": question.agent_recommendation,
        "status": question.status,
        "decision": question.user_decision,
        "created_at": question.created_at,
        "expires_at": question.expires_at,
    }
