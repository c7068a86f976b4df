"""The access patterns of a system as pages list them: what each runs, its costs, its findings. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from holdfast.console.explorer.accesses import list_paths
from holdfast.console.explorer.analysis import Results
from holdfast.console.explorer.findings import PlacedFinding, select_findings
from holdfast.console.explorer.navigation import SystemUrls
from holdfast.model.system import System
from holdfast.reports.cost.system_cost import PatternCost
from holdfast.reports.examples import Example, list_examples
from holdfast.reports.measurement.pattern_measures import Measure
from holdfast.reports.pattern_list import PatternRow, build_pattern_rows
from holdfast.reports.resources import format_path

STORES: Final = {
    "tables": "tables",
    "queues": "queues",
    "objects": "objects",
    "sql": "SQL",
    "cache": "cache",
}


@dataclass(frozen=True)
class PatternView:
    """One pattern with everything that a list shows of it."""

    row: PatternRow
    example: Example
    url: str
    # The resources and indexes that it touches: title and address.
    places: Sequence[tuple[str, str]]
    measure: Measure | None = None
    cost: PatternCost | None = None
    findings: Sequence[PlacedFinding] = ()

    @property
    def writes(self) -> bool:
        """Whether it changes a store."""
        return self.example.writes


@dataclass(frozen=True)
class PatternFilter:
    """What a user searches for; an empty field lets everything through."""

    q: str = ""
    store: str = ""
    component: str = ""
    kind: str = ""
    table: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether it lets everything through."""
        return self == PatternFilter()

    def select(self, views: Iterable[PatternView]) -> list[PatternView]:
        """Return the patterns that it lets through."""
        return [each for each in views if self._matches(each)]

    def _matches(self, view: PatternView) -> bool:
        row = view.row
        return (
            self.store in ("", row.store)
            and (not self.component or self.component in row.components)
            and (not self.kind or view.writes == (self.kind == "writes"))
            and (not self.table or self.table in view.example.resource_names)
            and all(word in _get_text(view) for word in self.q.lower().split())
        )


def build_pattern_views(
    system: System, results: Results | None, findings: Sequence[PlacedFinding]
) -> list[PatternView]:
    """Return every pattern in the order of the declaration; with costs once they are known."""
    urls = SystemUrls(system)
    return [
        PatternView(
            row,
            example,
            urls.get_pattern(row.id),
            [(format_path(path), urls.find_path(path)) for path in list_paths(example)],
            None if results is None else results.measures.get(row.id),
            None if results is None else results.costs.get(row.id),
            select_findings(findings, "pattern", row.id),
        )
        for row, example in zip(build_pattern_rows(system), list_examples(system), strict=True)
    ]


def list_resource_names(views: Iterable[PatternView]) -> list[str]:
    """Return the names of the resources that any pattern touches, sorted."""
    return sorted({name for each in views for name in each.example.resource_names})


def _get_text(view: PatternView) -> str:
    """Return what a search looks at, in lower case."""
    row = view.row
    parts = (
        row.id,
        row.name,
        row.purpose,
        row.operation or "",
        row.table or "",
        row.index or "",
        *row.components,
    )
    return " ".join(parts).lower()
