"""The pages of AgenticPM in the console: the inbox of what waits for a person, and the projects."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from fastapi import APIRouter

from agenticpm.pages.actions import build_action_pages
from agenticpm.pages.escalations import build_escalation_pages
from agenticpm.pages.inbox import build_inbox_pages, build_inbox_topic, build_open_questions
from agenticpm.pages.projects import build_project_pages
from holdfast import Stores
from holdfast.console import PageLink, SystemPages

TEMPLATES: Final = Path(__file__).parent / "templates"


def build_pages(stores: Stores) -> SystemPages:
    """Build the pages over the stores of the component `console`."""
    router = APIRouter()
    for build in (build_inbox_pages, build_escalation_pages, build_action_pages, build_project_pages):
        router.include_router(build(stores))
    return SystemPages(
        router,
        TEMPLATES,
        links=(PageLink("Inbox", "/inbox"), PageLink("Projects", "/projects")),
        topics=(build_inbox_topic(stores),),
        questions=build_open_questions(stores),
    )
