"""`SystemPages`: the pages that a system adds to the console.

    def load_pages(stores: Stores) -> SystemPages:
        return SystemPages(build_router(stores), TEMPLATES, (PageLink("Inbox", "/inbox"),))

    SYSTEM = System("agenticpm", …, pages=load_pages)

The router is mounted at `/apps/NAME`. The function is called once with the stores of the system's
component `console`, so the pages run only the patterns that it declares. Templates are rendered with
`render(request, "agenticpm/inbox.html", …)`: the folder is known by the system's name.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.console.live import Topic

if TYPE_CHECKING:
    from fastapi import APIRouter

__all__ = ["OpenQuestions", "PageLink", "SystemPages"]

COMPONENT = "console"
"""The name of the component whose patterns a system's pages may run."""


@dataclass(frozen=True)
class PageLink:
    """A link in the navigation to a page of a system; `path` starts below `/apps/NAME`."""

    title: str
    path: str


@dataclass(frozen=True)
class OpenQuestions:
    """What the pages of a system ask people: the overview and the work page count it.

    `count` returns how many questions are open, from a bounded read. `path` is the page that lists them.
    """

    count: Callable[[], Awaitable[int]]
    path: str


@dataclass(frozen=True)
class SystemPages:
    """The routes of a system's pages, the folder of their templates, their links in the navigation, the
    topics that their live parts follow, and the questions that they ask people.
    """

    router: APIRouter
    templates: Path
    links: Sequence[PageLink] = ()
    topics: Sequence[Topic] = ()
    questions: OpenQuestions | None = None
