"""The pages of PAGW in the console: worklist, requests over all stores, payers, CMS metrics."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from fastapi import APIRouter

from holdfast import Stores
from holdfast.console import PageLink, SystemPages
from pagw.pages.actions import build_action_routes
from pagw.pages.metrics import build_metrics_pages
from pagw.pages.payers import build_payer_pages
from pagw.pages.requests import build_request_pages, build_request_topic
from pagw.pages.worklist import build_open_questions, build_worklist_pages, build_worklist_topic

TEMPLATES: Final = Path(__file__).parent / "templates"
LINKS: Final = (
    PageLink("Worklist", "/worklist"),
    PageLink("Payers", "/payers"),
    PageLink("CMS metrics", "/metrics"),
)


def build_pages(stores: Stores) -> SystemPages:
    """Build the pages over the stores of the component `console`."""
    router = APIRouter()
    for build in (
        build_worklist_pages,
        build_action_routes,
        build_request_pages,
        build_payer_pages,
        build_metrics_pages,
    ):
        router.include_router(build(stores))
    return SystemPages(
        router,
        TEMPLATES,
        links=LINKS,
        topics=(build_worklist_topic(stores), build_request_topic(stores)),
        questions=build_open_questions(stores),
    )
