"""The findings of the design check, next to what they concern. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from holdfast.console.explorer.navigation import SystemUrls
from holdfast.model.entities.entity import get_declaration
from holdfast.model.system import System
from holdfast.reports.design.rules.base import Finding, Severity, format_pattern

SubjectKind = Literal["pattern", "table", "index", "queue", "bucket", "component", "system"]

SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "info")
BADGES: Final[Mapping[Severity, str]] = {"error": "bad", "warning": "warn", "info": "info"}


@dataclass(frozen=True)
class Subject:
    """What a finding concerns, by the name under which pages ask for it."""

    kind: SubjectKind
    name: str


@dataclass(frozen=True)
class PlacedFinding:
    """A finding, what it concerns and the address of that; empty if it has none."""

    finding: Finding
    subjects: Sequence[Subject]
    url: str

    @property
    def badge(self) -> str:
        """The colour of its severity."""
        return BADGES[self.finding.severity]


def place_findings(system: System, findings: Iterable[Finding]) -> list[PlacedFinding]:
    """Return each finding with what it concerns: the whole system, unless its subject names a part."""
    known, urls = _list_subjects(system), SystemUrls(system)
    placed = []
    for each in findings:
        subjects = _find_subjects(each.subject, known)
        placed.append(PlacedFinding(each, subjects, _find_url(subjects, urls)))
    return placed


def select_findings(placed: Iterable[PlacedFinding], kind: SubjectKind, name: str) -> list[PlacedFinding]:
    """Return the findings about one part of the system."""
    return [each for each in placed if Subject(kind, name) in each.subjects]


def count_severities(placed: Iterable[PlacedFinding]) -> dict[Severity, int]:
    """Return how many findings of each severity there are."""
    found = [each.finding.severity for each in placed]
    return {severity: found.count(severity) for severity in SEVERITIES}


def _find_subjects(text: str, known: Mapping[str, Subject]) -> list[Subject]:
    """Return what a finding's subject names: one part, or several with commas between them."""
    if text in known:
        return [known[text]]
    found = [known[part] for part in text.split(", ") if part in known]
    return found or [Subject("system", "")]


def _list_subjects(system: System) -> dict[str, Subject]:
    """Return every part of a system by the text that findings use for it."""
    found = {each.name: Subject("component", each.name) for each in system.components}
    found |= {each.name: Subject("bucket", each.name) for each in system.buckets}
    found |= {each.name: Subject("queue", each.name) for each in system.queues}
    found |= {format_pattern(each): Subject("pattern", each.id) for each in system.patterns}
    for table in system.tables:
        names = [get_declaration(each).entity.__name__ for each in table.entities]
        found |= {f"{table.name}, {name}": Subject("table", table.name) for name in names}
        found |= {repr(each): Subject("index", repr(each)) for each in table.indexes}
    return found | {each.name: Subject("table", each.name) for each in system.tables}


def _find_url(subjects: Sequence[Subject], urls: SystemUrls) -> str:
    """Return the address of the first subject."""
    subject = subjects[0]
    match subject.kind:
        case "pattern":
            return urls.get_pattern(subject.name)
        case "component":
            return urls.get_component(subject.name)
        case "table":
            return urls.get_table(subject.name)
        case "index":
            table, _, index = subject.name.rpartition(".")
            return f"{urls.get_table(table)}#index-{index}"
        case "queue" | "bucket":
            return f"{urls.system}#{subject.kind}-{subject.name}"
    return urls.system
