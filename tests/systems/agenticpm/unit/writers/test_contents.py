"""Tests of the four content schemas: the document's examples pass, violations fail with path and reason."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from agenticpm.domain.contents import (
    ArtefactType,
    ObjectReference,
    check_consistency,
    format_time,
    normalize_import,
    to_stored,
    validate_content,
)
from agenticpm.model.entities import Artefact
from tests.cases import all_cases
from tests.systems.agenticpm.unit.samples import NOON
from tests.systems.agenticpm.unit.writers.sample_contents import (
    BACKLOG_SUMMARY,
    CONTENTS,
    DECISION_LOG,
    DELIVERY_STATE,
    PROJECT,
    RAID_LOG,
    make_raid_log,
    replace_at,
)

STATE, RAID, DECISIONS, BACKLOG = (
    ArtefactType.delivery_state,
    ArtefactType.raid_log,
    ArtefactType.decision_log,
    ArtefactType.backlog_summary,
)


def get_rejection(type: ArtefactType, path: str, value: Any) -> str:
    """Return why the document's example is rejected with another value at this path."""
    with pytest.raises(ValueError, match=f"Invalid {type}: ") as error:
        validate_content(type, replace_at(CONTENTS[type], path, value))
    return str(error.value)


@pytest.mark.proves("AP-50", "AP-51", "AP-52", "AP-53")
@pytest.mark.parametrize("type", ArtefactType)
def test_accepts_the_documents_example_and_stores_it_unchanged(type: ArtefactType) -> None:
    assert to_stored(validate_content(type, CONTENTS[type])) == CONTENTS[type]


OTHER_TIMES = [
    "2026-02-03",
    "2026-02-03T00:00:00",
    "2026-02-03T00:00:00+00:00",
    "2026-02-03T11:00:00+11:00",
    "2026-02-03T00:00:00.123456Z",
    "2026-02-30T00:00:00Z",
    "2026-02-03T24:30:00Z",
    "next Tuesday",
    1770076800,
    None,
    datetime(2026, 2, 3),
    datetime(2026, 2, 3, tzinfo=timezone(timedelta(hours=11))),
    datetime(2026, 2, 3, 0, 0, 0, 1, tzinfo=UTC),
]
CHOICES = {
    (STATE, "overall_status"): ["green", "amber", "red"],
    (STATE, "milestones.0.status"): ["on_track", "at_risk", "delayed", "completed"],
    (STATE, "blockers.0.severity"): ["high", "medium", "low"],
    (STATE, "key_metrics.velocity_trend"): ["increasing", "stable", "decreasing"],
    (RAID, "items.0.type"): ["risk", "assumption", "issue", "dependency"],
    (RAID, "items.0.severity"): ["critical", "high", "medium", "low"],
    (RAID, "items.0.status"): ["open", "mitigating", "accepted"],
    (RAID, "items.0.source"): ["agent_detected", "user_added", "integration_signal"],
    (DECISIONS, "decisions.0.status"): ["active", "superseded", "reversed"],
    (BACKLOG, "source"): ["jira", "asana"],
    (BACKLOG, "highlights.0.flag"): ["blocked", "stale", "missing_criteria", "scope_creep", "new"],
}


@pytest.mark.proves("AP-50", "AP-51", "AP-52", "AP-53")
@pytest.mark.parametrize(("type", "path"), CHOICES)
def test_accepts_every_choice_of_the_document_and_rejects_others(type: ArtefactType, path: str) -> None:
    for choice in CHOICES[type, path]:
        validate_content(type, replace_at(CONTENTS[type], path, choice))
    place = path.replace(".0", "[0]")
    assert f"{place}: Input should be" in get_rejection(type, path, "purple")


@pytest.mark.proves("AP-28")
@pytest.mark.parametrize("type", ArtefactType)
def test_names_a_missing_field(type: ArtefactType) -> None:
    for name in CONTENTS[type]:
        without = {key: value for key, value in CONTENTS[type].items() if key != name}
        with pytest.raises(ValueError, match=f"Invalid {type}: {name}: is missing: add it"):
            validate_content(type, without)


@pytest.mark.proves("AP-28")
@pytest.mark.parametrize("type", ArtefactType)
def test_rejects_an_unknown_field(type: ArtefactType) -> None:
    with pytest.raises(ValueError, match="mood: is not in the schema: leave it out"):
        validate_content(type, CONTENTS[type] | {"mood": "good"})


def test_summarises_many_errors() -> None:
    with pytest.raises(ValueError, match=r"items\[0\].id: .*; and 10 more"):
        validate_content(RAID, {"items": [{"id": "X"}]})


@pytest.mark.proves("AP-28", "AP-54")
@all_cases(
    ("type", "path", "values", "why"),
    [
        (BACKLOG, "summary.by_status.to_do", [21], "summary: by_status sums to 46, but total_items is 47"),
        (BACKLOG, "summary.by_priority.low", [11], "summary: by_priority sums to 48, but total_items is 47"),
        (
            STATE,
            "current_sprint.progress.completed_points",
            [Decimal("21.5")],
            "current_sprint.progress: completed, in progress and blocked sum to 34.5 of 34",
        ),
        (STATE, "key_metrics.open_blockers", [2], "open_blockers is 2, but there are 1 blockers"),
        (STATE, "current_sprint.end_date", ["2026-02-02T00:00:00Z"], "end_date is before start_date"),
        (STATE, "blockers.0.id", ["B01", "b001", "R001", "B001\n", "B٠٠١"], "pattern"),
        (STATE, "blockers.0.id", [1], "valid string"),
        (RAID, "items.0.id", ["R01", "001", "D001", "R1234567", "R999999999"], "items[0].id: String should"),
        (DECISIONS, "decisions.0.id", ["D01", ""], "pattern"),
        (DECISIONS, "decisions.0.id", [None], "valid string"),
        (DECISIONS, "decisions.0.related_raid_items.0", ["B001", "R2"], "pattern"),
        (STATE, "blockers", [DELIVERY_STATE["blockers"] * 2], "blockers has the id B001 more than once"),
        (RAID, "items", [RAID_LOG["items"] * 2], "items has the id R001 more than once"),
        (DECISIONS, "decisions", [DECISION_LOG["decisions"] * 2], "has the id D001 more than once"),
        (
            DECISIONS,
            "decisions.0.decision",
            ["Cancel it"],
            "the decision 'Cancel it' is not in options_considered (Delay to mid-April, Rush",
        ),
        (DECISIONS, "decisions.0.options_considered", [[]], "options_considered (none)"),
        (BACKLOG, "last_synced", OTHER_TIMES, "last_synced: "),
        (
            BACKLOG,
            "summary.total_items",
            [-1, "47", True, None, 1.5, float("nan"), float("inf"), Decimal("1e200")],
            "summary.total_items: ",
        ),
        (
            STATE,
            "key_metrics.avg_cycle_time_days",
            [-1, "4.2", True, float("nan"), float("inf"), Decimal("1e-200")],
            "key_metrics.avg_cycle_time_days: ",
        ),
    ],
)
def test_rejects_a_content_with_the_reason(
    type: ArtefactType, path: str, values: list[Any], why: str
) -> None:
    for value in values:
        assert why in get_rejection(type, path, value), value


@all_cases(
    ("type", "path", "value"),
    [
        (STATE, "current_sprint.progress.completed_points", 3),
        (STATE, "blockers.0.id", "B1000"),
        (RAID, "items.0.id", "R1000"),
        (DECISIONS, "decisions.0.id", "D1000"),
        (DECISIONS, "decisions.0.related_raid_items.0", "R002"),
        (STATE, "current_sprint", None),
        (STATE, "milestones.0.due_date", None),
        (STATE, "key_metrics.avg_cycle_time_days", None),
        (RAID, "items.0.owner", None),
    ],
)
def test_accepts_longer_ids_and_null_for_unknown_tracker_values(
    type: ArtefactType, path: str, value: Any
) -> None:
    validate_content(type, replace_at(CONTENTS[type], path, value))


@pytest.mark.proves("AP-54")
@pytest.mark.parametrize("good", ["2026-02-03T00:00:00Z", "2026-02-03T00:00:00.123Z"])
def test_keeps_times_in_seconds_or_milliseconds_with_z(good: str) -> None:
    kept = to_stored(validate_content(BACKLOG, replace_at(BACKLOG_SUMMARY, "last_synced", good)))
    assert kept["last_synced"] == good


def test_converts_times_of_other_zones_to_utc() -> None:
    assert (
        format_time(datetime(2026, 2, 3, 11, tzinfo=timezone(timedelta(hours=11)))) == "2026-02-03T00:00:00Z"
    )
    assert format_time(datetime(2026, 2, 3, 0, 0, 0, 12_345, tzinfo=UTC)) == "2026-02-03T00:00:00.012Z"


@pytest.mark.proves("AP-51")
@pytest.mark.parametrize("status", ["resolved", "closed"])
def test_resolved_item_has_a_resolution_and_a_date(status: str) -> None:
    over = {"status": status, "resolution": "Migrated", "resolved_date": "2026-02-03T00:00:00Z"}
    validate_content(RAID, make_raid_log("R001", **over))
    for missing, why in (("resolved_date", "needs a resolved_date"), ("resolution", "needs a resolution")):
        with pytest.raises(ValueError, match=why):
            validate_content(RAID, make_raid_log("R001", **over | {missing: None}))
    with pytest.raises(ValueError, match="resolved_date is before raised_date"):
        validate_content(RAID, make_raid_log("R001", **over | {"resolved_date": "2026-01-14T00:00:00Z"}))


@pytest.mark.proves("AP-51")
@pytest.mark.parametrize("status", ["open", "mitigating", "accepted"])
def test_unresolved_item_has_no_resolution_date(status: str) -> None:
    with pytest.raises(ValueError, match=f"status {status} allows no resolved_date"):
        validate_content(RAID, make_raid_log("R001", status=status, resolved_date="2026-02-03T00:00:00Z"))


def test_stores_numbers_without_binary_fractions() -> None:
    kept = to_stored(
        validate_content(STATE, replace_at(DELIVERY_STATE, "key_metrics.avg_cycle_time_days", 4.2))
    )
    assert kept["key_metrics"]["avg_cycle_time_days"] == Decimal("4.2")
    assert isinstance(kept["current_sprint"]["progress"]["total_points"], int)


@pytest.mark.proves("AP-54")
def test_active_risks_are_open_or_mitigating_items_of_the_raid_log() -> None:
    over = {"status": "closed", "resolution": "Done", "resolved_date": "2026-02-03T00:00:00Z"}
    items = [
        *make_raid_log("R001", "R002")["items"],
        *make_raid_log("R003", status="mitigating")["items"],
        *make_raid_log("R004", type="issue")["items"],
        *make_raid_log("R005", status="accepted")["items"],
        *make_raid_log("R006", **over)["items"],
    ]
    check_consistency({STATE: DELIVERY_STATE, RAID: {"items": items}, DECISIONS: DECISION_LOG})
    with pytest.raises(ValueError, match="active_risks is 3, but the RAID log has 2"):
        check_consistency({STATE: DELIVERY_STATE, RAID: {"items": items[1:]}})


def test_compares_nothing_if_the_other_artefact_is_missing() -> None:
    check_consistency({STATE: DELIVERY_STATE, DECISIONS: DECISION_LOG})
    check_consistency({RAID: {"items": []}, BACKLOG: BACKLOG_SUMMARY})


@pytest.mark.proves("AP-X18")
def test_accepts_a_reference_to_a_stored_object() -> None:
    spilled = {"$object": "a" * 64, "bytes": 400_000}
    assert isinstance(validate_content(RAID, spilled), ObjectReference)
    assert to_stored(validate_content(RAID, spilled)) == spilled
    for bad in ({"$object": "a" * 63, "bytes": 1}, {"$object": "a" * 64}, spilled | {"items": []}):
        with pytest.raises(ValueError, match="Invalid"):
            validate_content(RAID, bad)


@pytest.mark.proves("AP-28")
def test_artefact_rejects_an_invalid_content() -> None:
    with pytest.raises(ValueError, match="summary: by_status sums to 46"):
        Artefact(
            id=PROJECT,
            project_id=PROJECT,
            type=BACKLOG,
            content=replace_at(BACKLOG_SUMMARY, "summary.by_status.to_do", 21),
            created_at=NOON,
            updated_at=NOON,
        )


@pytest.mark.proves("AP-X3")
def test_import_accepts_both_names_of_the_previous_version_and_stores_one() -> None:
    item = {"version": 2, "content": RAID_LOG}
    for name in ("previous_version", "previousVersion"):
        taken = normalize_import({**item, name: {"items": []}})
        assert taken == {**item, "previousVersion": {"items": []}}
    assert normalize_import(item) == item
    both: dict[str, Any] = {"previous_version": {"items": []}, "previousVersion": {"items": []}}
    assert normalize_import(item | both) == {**item, "previousVersion": {"items": []}}
    with pytest.raises(ValueError, match="with different values"):
        normalize_import(item | both | {"previousVersion": RAID_LOG})


@pytest.mark.proves("AP-X3")
def test_reads_an_imported_item_as_an_artefact() -> None:
    made = Artefact(
        id=PROJECT, project_id=PROJECT, type=RAID, content=RAID_LOG, created_at=NOON, updated_at=NOON
    )
    item: dict[str, Any] = {**made.to_item(), "previous_version": {"items": []}}
    read = Artefact.from_item(normalize_import(item))
    assert read.previous_version == {"items": []}
    assert read.to_item()["previousVersion"] == {"items": []}
