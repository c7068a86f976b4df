"""Findings next to what they concern, and the search over patterns."""

from __future__ import annotations

from holdfast.console.explorer.findings import count_severities, place_findings, select_findings
from holdfast.console.explorer.pattern_rows import PatternFilter, build_pattern_views, list_resource_names
from holdfast.reports.design.rules.base import Finding, Severity
from tests.unit.console.explorer.clinic import CLINIC


def find(subject: str, severity: Severity = "warning") -> Finding:
    return Finding("clinic", severity, subject, "Something.", "Do it.")


def test_a_finding_is_shown_next_to_its_subject() -> None:
    subjects = {
        "P1 patient": ("pattern", "P1", "/systems/clinic/patterns/P1"),
        "Visits": ("table", "Visits", "/systems/clinic/tables/Visits"),
        "Visits.by-doctor": ("index", "Visits.by-doctor", "/systems/clinic/tables/Visits#index-by-doctor"),
        "Visits, Visit": ("table", "Visits", "/systems/clinic/tables/Visits"),
        "clinic_reminders": ("queue", "clinic_reminders", "/systems/clinic#queue-clinic_reminders"),
        "nurse, clinic_reminders": ("component", "nurse", "/systems/clinic/components/nurse"),
        "clinic": ("system", "", "/systems/clinic"),
        "round": ("system", "", "/systems/clinic"),
    }
    for text, (kind, name, url) in subjects.items():
        (placed,) = place_findings(CLINIC, [find(text)])
        assert select_findings([placed], kind, name) == [placed], text  # type: ignore[arg-type]
        assert placed.url == url


def test_a_finding_about_two_parts_is_shown_next_to_both() -> None:
    placed = place_findings(CLINIC, [find("nurse, clinic_reminders")])
    assert select_findings(placed, "queue", "clinic_reminders") == placed


def test_counts_findings_by_severity() -> None:
    placed = place_findings(CLINIC, [find("clinic", "error"), find("Visits"), find("Visits", "info")])
    assert count_severities(placed) == {"error": 1, "warning": 1, "info": 1}


def select(**chosen: str) -> list[str]:
    views = build_pattern_views(CLINIC, None, [])
    return [each.row.id for each in PatternFilter(**chosen).select(views)]


def test_searches_patterns_by_id_purpose_table_and_component() -> None:
    assert select(q="p1") == ["P1"]
    assert select(q="admit PATIENT") == ["P3"]
    assert select(q="by-doctor") == ["V2"]
    assert select(q="nurse patients") == ["P1"]
    assert select(q="nothing like this") == []


def test_filters_patterns() -> None:
    assert select(store="queues") == ["R1", "RMR", "RMD", "RMH"]
    assert select(kind="writes", store="tables") == ["P5", "P3"]
    assert select(component="nurse") == ["P1", "RMR", "RMD", "RMH"]
    assert select(table="Visits", kind="reads") == ["V1", "V2", "V3"]


def test_without_a_filter_every_pattern_is_listed() -> None:
    assert select() == [each.id for each in CLINIC.patterns]
    assert PatternFilter().is_empty


def test_lists_the_resources_that_patterns_touch() -> None:
    assert list_resource_names(build_pattern_views(CLINIC, None, [])) == [
        "Patients",
        "Visits",
        "clinic_reminders",
    ]
