"""The addresses of what a system declares, and the tabs of its pages."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from holdfast.model.objects import Bucket
from holdfast.model.patterns import Pattern
from holdfast.model.queues import Queue
from holdfast.model.system import System
from holdfast.model.tables import Table
from holdfast.reports.resources import CacheKeys, Resource, ResourcePath, SqlTable


class SystemUrls:
    """The addresses of one system's pages in the explorer, and in the data browser."""

    def __init__(self, system: System) -> None:
        self._system = system
        self.system = f"/systems/{quote(system.name, safe='')}"
        self.patterns = f"{self.system}/patterns"
        self.findings = f"{self.system}/findings"

    def get_pattern(self, pattern: Pattern[..., Any] | str) -> str:
        """Return the address of a pattern, by itself or its id."""
        return f"{self.patterns}/{_quote(pattern if isinstance(pattern, str) else pattern.id)}"

    def get_component(self, name: str) -> str:
        """Return the address of a component."""
        return f"{self.system}/components/{_quote(name)}"

    def get_table(self, name: str) -> str:
        """Return the address of a table."""
        return f"{self.system}/tables/{_quote(name)}"

    def get_items(self, table: str) -> str:
        """Return the address of a table's items in the data browser."""
        return f"/data/{_quote(self._system.name)}/{_quote(table)}"

    def find_content(self, kind: str, name: str) -> tuple[str, str] | None:
        """Return the title and the address of the page with what a resource holds; None if there is none."""
        system = _quote(self._system.name)
        return {
            "queue": ("Its messages", f"/queues/{system}/{_quote(name)}"),
            "bucket": ("Its objects", f"/data/{system}/bucket:{_quote(name)}"),
            "schema": ("Its rows", f"/data/{system}"),
            "flow": ("Its executions", f"/flows/{system}/{_quote(name)}"),
        }.get(kind)

    def find_resource(self, resource: Resource) -> str:
        """Return the address of a resource: its page, or its part of the system's page; empty if it has
        none.
        """
        match resource:
            case Table():
                is_declared = any(each.name == resource.name for each in self._system.tables)
                return self.get_table(resource.name) if is_declared else ""
            case Queue():
                return f"{self.system}#queue-{_quote(resource.name)}"
            case Bucket():
                return f"{self.system}#bucket-{_quote(resource.name)}"
            case SqlTable():
                schema = resource.name.partition(".")[0]
                is_declared = any(each.name == schema for each in self._system.schemas)
                return f"{self.system}#schema-{_quote(schema)}" if is_declared else ""
            case CacheKeys():
                return f"{self.system}#cache"

    def find_path(self, path: ResourcePath) -> str:
        """Return the address of a resource, or of the index of a table."""
        resource, index = path
        url = self.find_resource(resource)
        return f"{url}#index-{_quote(index.name)}" if index is not None and url else url

    def list_tabs(self, findings: int | None) -> list[tuple[str, str]]:
        """Return the tabs of the system's pages: title and address."""
        count = "" if findings is None else f" ({findings})"
        return [
            ("Model", self.system),
            (f"Patterns ({len(self._system.patterns)})", self.patterns),
            (f"Findings{count}", self.findings),
        ]


def _quote(text: str) -> str:
    return quote(text, safe="")
