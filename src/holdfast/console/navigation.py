"""The one navigation of the console: its own pages, and those of each system that the user sees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from holdfast.console.system_pages import SystemPages
from holdfast.console.users import User
from holdfast.model.system import System

# Title, address, and the beginnings of the paths that belong to it.
OWN_PAGES: Final = (
    ("Overview", "/", ()),
    ("Systems", "/systems", ("/systems",)),
    ("Data", "/data", ("/data",)),
    (
        "Work",
        "/work",
        ("/work", "/queues", "/outbox", "/actions", "/flows", "/breakers", "/leases", "/why"),
    ),
    ("Cost", "/cost", ("/cost",)),
)


@dataclass(frozen=True)
class Entry:
    """One link, and whether it is of the current page; a system's entry has its pages below."""

    title: str
    url: str
    is_current: bool = False
    children: Sequence[Entry] = ()


class Navigation:
    """Builds the links for a user."""

    def __init__(self, systems: Sequence[System], pages: Mapping[str, SystemPages]) -> None:
        self._systems, self._pages = systems, pages

    def build(self, user: User | None, path: str) -> list[Entry]:
        """Return the links of a user; none before sign-in."""
        if user is None:
            return []
        own = [
            Entry(title, url, path == url or any(_is_below(each, path) for each in beginnings))
            for title, url, beginnings in OWN_PAGES
        ]
        seen = [each for each in self._systems if user.can_see(each.name) and each.name in self._pages]
        return [*own, *(self._build_system(each, path) for each in seen)]

    def _build_system(self, system: System, path: str) -> Entry:
        base = f"/apps/{system.name}"
        links = [
            Entry(each.title, base + each.path, _is_below(base + each.path, path))
            for each in self._pages[system.name].links
        ]
        return Entry(system.title or system.name, links[0].url if links else base, False, links)


def _is_below(url: str, path: str) -> bool:
    """Return whether the path is the address or below it."""
    return path == url or path.startswith(f"{url}/")
