"""The four schemas: the document's examples pass, and whatever breaks one is refused with the place and the reason."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from agenticpm.domain.contents import (
    SCHEMAS,
    ArtefactType,
    DecisionLog,
    ObjectReference,
    RaidLog,
    check_consistency,
    check_references,
    format_time,
    normalize_import,
    parse_as,
    to_stored,
    validate_content,
)
from agenticpm.model.entities import Artefact
from tests.unit.agenticpm.sample_contents import (
    BACKLOG_SUMMARY,
    BEGAN,
    CONTENTS,
    DECISION_LOG,
    DELIVERY_STATE,
    PROJECT,
    RAID_LOG,
    changed,
    raid_log,
)

STATE, RAID, DECISIONS, BACKLOG = (
    ArtefactType.delivery_state,
    ArtefactType.raid_log,
    ArtefactType.decision_log,
    ArtefactType.backlog_summary,
)


def refused(type: ArtefactType, path: str, value: Any) -> str:
    """Why the document's example is refused with another value in this place."""
    with pytest.raises(ValueError, match=f"Invalid {type}: ") as error:
        validate_content(type, changed(CONTENTS[type], path, value))
    return str(error.value)


@pytest.mark.proves("AP-50")
@pytest.mark.proves("AP-51")
@pytest.mark.proves("AP-52")
@pytest.mark.proves("AP-53")
@pytest.mark.parametrize("type", ArtefactType)
def test_the_documents_example_passes_and_is_stored_as_it_is_written(type: ArtefactType) -> None:
    assert to_stored(validate_content(type, CONTENTS[type])) == CONTENTS[type]


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


@pytest.mark.proves("AP-50")
@pytest.mark.proves("AP-51")
@pytest.mark.proves("AP-52")
@pytest.mark.proves("AP-53")
@pytest.mark.parametrize(("type", "path"), CHOICES)
def test_every_choice_of_the_document_passes_and_another_is_refused(type: ArtefactType, path: str) -> None:
    for choice in CHOICES[type, path]:
        validate_content(type, changed(CONTENTS[type], path, choice))
    place = path.replace(".0", "[0]")
    assert f"{place}: Input should be" in refused(type, path, "purple")


@pytest.mark.proves("AP-28")
@pytest.mark.parametrize("type", ArtefactType)
def test_a_field_that_is_missing_is_named(type: ArtefactType) -> None:
    for name in CONTENTS[type]:
        without = {key: value for key, value in CONTENTS[type].items() if key != name}
        with pytest.raises(ValueError, match=f"Invalid {type}: {name}: is missing: add it"):
            validate_content(type, without)


@pytest.mark.proves("AP-28")
@pytest.mark.parametrize("type", ArtefactType)
def test_a_field_that_the_schema_does_not_have_is_refused(type: ArtefactType) -> None:
    with pytest.raises(ValueError, match="mood: is not in the schema: leave it out"):
        validate_content(type, CONTENTS[type] | {"mood": "good"})


def test_many_faults_are_told_in_short() -> None:
    with pytest.raises(ValueError, match=r"items\[0\].id: .*; and 10 more"):
        validate_content(RAID, {"items": [{"id": "X"}]})


@pytest.mark.proves("AP-54")
def test_counts_by_status_and_by_priority_sum_to_the_total() -> None:
    assert "summary: by_status sums to 46, but total_items is 47" in refused(
        BACKLOG, "summary.by_status.to_do", 21
    )
    assert "summary: by_priority sums to 48, but total_items is 47" in refused(
        BACKLOG, "summary.by_priority.low", 11
    )


@pytest.mark.proves("AP-54")
def test_the_parts_of_a_sprint_are_not_more_than_the_whole() -> None:
    why = refused(STATE, "current_sprint.progress.completed_points", Decimal("21.5"))
    assert "current_sprint.progress: completed, in progress and blocked sum to 34.5 of 34" in why
    validate_content(STATE, changed(DELIVERY_STATE, "current_sprint.progress.completed_points", 3))


@pytest.mark.proves("AP-54")
def test_open_blockers_are_as_many_as_there_are() -> None:
    assert "key_metrics.open_blockers is 2, but there are 1 blockers" in refused(
        STATE, "key_metrics.open_blockers", 2
    )


@pytest.mark.proves("AP-54")
@pytest.mark.parametrize(
    ("type", "path", "good", "bad"),
    [
        (STATE, "blockers.0.id", "B1000", ["B01", "b001", "R001", "B001\n", "B٠٠١", 1]),
        (RAID, "items.0.id", "R1000", ["R01", "001", "D001"]),
        (DECISIONS, "decisions.0.id", "D1000", ["D01", "", None]),
        (DECISIONS, "decisions.0.related_raid_items.0", "R002", ["B001", "R2"]),
    ],
)
def test_ids_have_their_letter_and_three_digits_or_more(
    type: ArtefactType, path: str, good: str, bad: list[Any]
) -> None:
    validate_content(type, changed(CONTENTS[type], path, good))
    for each in bad:
        assert "pattern" in (why := refused(type, path, each)) or "valid string" in why


@pytest.mark.proves("AP-54")
@pytest.mark.parametrize(("type", "list_name"), [(RAID, "items"), (DECISIONS, "decisions")])
def test_an_id_stands_once(type: ArtefactType, list_name: str) -> None:
    twice = CONTENTS[type][list_name] * 2
    assert f"{list_name} has the id {twice[0]['id']} more than once" in refused(type, list_name, twice)


def test_a_blocker_stands_once() -> None:
    twice = changed(
        changed(DELIVERY_STATE, "blockers", DELIVERY_STATE["blockers"] * 2), "key_metrics.open_blockers", 2
    )
    with pytest.raises(ValueError, match="blockers has the id B001 more than once"):
        validate_content(STATE, twice)


@pytest.mark.proves("AP-54")
def test_a_decision_is_one_of_the_options_that_were_considered() -> None:
    why = refused(DECISIONS, "decisions.0.decision", "Cancel it")
    assert "the decision 'Cancel it' is not in options_considered (Delay to mid-April, Rush" in why
    assert "options_considered (none)" in refused(DECISIONS, "decisions.0.options_considered", [])


@pytest.mark.proves("AP-54")
@pytest.mark.parametrize("good", ["2026-02-03T00:00:00Z", "2026-02-03T00:00:00.123Z"])
def test_a_time_is_kept_in_seconds_or_thousandths_with_z(good: str) -> None:
    kept = to_stored(validate_content(BACKLOG, changed(BACKLOG_SUMMARY, "last_synced", good)))
    assert kept["last_synced"] == good


@pytest.mark.proves("AP-54")
@pytest.mark.parametrize(
    "bad",
    [
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
    ],
)
def test_a_time_of_any_other_form_or_zone_is_refused(bad: Any) -> None:
    assert "last_synced: " in refused(BACKLOG, "last_synced", bad)


def test_a_time_of_another_zone_is_stated_in_utc() -> None:
    assert (
        format_time(datetime(2026, 2, 3, 11, tzinfo=timezone(timedelta(hours=11)))) == "2026-02-03T00:00:00Z"
    )
    assert format_time(datetime(2026, 2, 3, 0, 0, 0, 12_345, tzinfo=UTC)) == "2026-02-03T00:00:00.012Z"


@pytest.mark.proves("AP-54")
def test_a_sprint_does_not_end_before_it_starts() -> None:
    assert "end_date is before start_date" in refused(
        STATE, "current_sprint.end_date", "2026-02-02T00:00:00Z"
    )


@pytest.mark.proves("AP-51")
@pytest.mark.parametrize("status", ["resolved", "closed"])
def test_what_is_over_has_a_resolution_and_its_date(status: str) -> None:
    over = {"status": status, "resolution": "Migrated", "resolved_date": "2026-02-03T00:00:00Z"}
    validate_content(RAID, raid_log("R001", **over))
    for missing, why in (("resolved_date", "needs a resolved_date"), ("resolution", "needs a resolution")):
        with pytest.raises(ValueError, match=why):
            validate_content(RAID, raid_log("R001", **over | {missing: None}))
    with pytest.raises(ValueError, match="resolved_date is before raised_date"):
        validate_content(RAID, raid_log("R001", **over | {"resolved_date": "2026-01-14T00:00:00Z"}))


@pytest.mark.proves("AP-51")
@pytest.mark.parametrize("status", ["open", "mitigating", "accepted"])
def test_what_is_not_over_has_no_date_of_its_end(status: str) -> None:
    with pytest.raises(ValueError, match=f"status {status} allows no resolved_date"):
        validate_content(RAID, raid_log("R001", status=status, resolved_date="2026-02-03T00:00:00Z"))


@pytest.mark.proves("AP-28")
@pytest.mark.parametrize("bad", [-1, "47", True, None, 1.5, float("nan"), float("inf"), Decimal("1e200")])
def test_a_count_is_a_whole_number_from_nought(bad: Any) -> None:
    assert "summary.total_items: " in refused(BACKLOG, "summary.total_items", bad)


@pytest.mark.parametrize("bad", [-1, "4.2", True, float("nan"), float("inf"), Decimal("1e-200")])
def test_an_amount_is_a_number_that_a_table_can_hold(bad: Any) -> None:
    assert "key_metrics.avg_cycle_time_days: " in refused(STATE, "key_metrics.avg_cycle_time_days", bad)


def test_numbers_are_stored_without_binary_fractions() -> None:
    kept = to_stored(validate_content(STATE, changed(DELIVERY_STATE, "key_metrics.avg_cycle_time_days", 4.2)))
    assert kept["key_metrics"]["avg_cycle_time_days"] == Decimal("4.2")
    assert isinstance(kept["current_sprint"]["progress"]["total_points"], int)


@pytest.mark.parametrize(
    ("type", "path"),
    [
        (STATE, "current_sprint"),
        (STATE, "milestones.0.due_date"),
        (STATE, "key_metrics.avg_cycle_time_days"),
        (RAID, "items.0.owner"),
    ],
)
def test_what_a_tracker_may_not_know_can_be_null(type: ArtefactType, path: str) -> None:
    validate_content(type, changed(CONTENTS[type], path, None))


# --- between artefacts --------------------------------------------------------------------------------------


@pytest.mark.proves("AP-54")
def test_a_decision_names_only_items_that_the_raid_log_has() -> None:
    decisions = parse_as(DecisionLog, DECISION_LOG)
    check_references(decisions, parse_as(RaidLog, RAID_LOG))
    with pytest.raises(ValueError, match="The decision D001 names R001, which the RAID log does not have"):
        check_references(decisions, parse_as(RaidLog, raid_log("R002")))


@pytest.mark.proves("AP-54")
def test_active_risks_are_those_of_the_raid_log_that_are_open_or_mitigating() -> None:
    over = {"status": "closed", "resolution": "Done", "resolved_date": "2026-02-03T00:00:00Z"}
    items = [
        *raid_log("R001", "R002")["items"],
        *raid_log("R003", status="mitigating")["items"],
        *raid_log("R004", type="issue")["items"],
        *raid_log("R005", status="accepted")["items"],
        *raid_log("R006", **over)["items"],
    ]
    check_consistency({STATE: DELIVERY_STATE, RAID: {"items": items}, DECISIONS: DECISION_LOG})
    with pytest.raises(ValueError, match="active_risks is 3, but the RAID log has 2"):
        check_consistency({STATE: DELIVERY_STATE, RAID: {"items": items[1:]}})


def test_what_is_not_known_is_not_compared() -> None:
    check_consistency({STATE: DELIVERY_STATE, DECISIONS: DECISION_LOG})
    check_consistency({RAID: {"items": []}, BACKLOG: BACKLOG_SUMMARY})


# --- as items -----------------------------------------------------------------------------------------------


@pytest.mark.proves("AP-X18")
def test_a_content_that_stands_elsewhere_passes_as_such() -> None:
    spilled = {"$object": "a" * 64, "bytes": 400_000}
    assert isinstance(validate_content(RAID, spilled), ObjectReference)
    assert to_stored(validate_content(RAID, spilled)) == spilled
    for bad in ({"$object": "a" * 63, "bytes": 1}, {"$object": "a" * 64}, spilled | {"items": []}):
        with pytest.raises(ValueError, match="Invalid"):
            validate_content(RAID, bad)


@pytest.mark.proves("AP-28")
def test_no_artefact_is_made_with_a_content_that_breaks_its_schema() -> None:
    with pytest.raises(ValueError, match="summary: by_status sums to 46"):
        Artefact(
            id=PROJECT,
            project_id=PROJECT,
            type=BACKLOG,
            content=changed(BACKLOG_SUMMARY, "summary.by_status.to_do", 21),
            created_at=BEGAN,
            updated_at=BEGAN,
        )


@pytest.mark.proves("AP-X3")
def test_an_import_takes_both_names_of_the_version_before_and_stores_one() -> None:
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
def test_an_imported_item_is_read_as_an_artefact() -> None:
    made = Artefact(
        id=PROJECT, project_id=PROJECT, type=RAID, content=RAID_LOG, created_at=BEGAN, updated_at=BEGAN
    )
    item: dict[str, Any] = {**made.to_item(), "previous_version": {"items": []}}
    read = Artefact.from_item(normalize_import(item))
    assert read.previous_version == {"items": []}
    assert read.to_item()["previousVersion"] == {"items": []}


def test_there_is_a_schema_for_every_type() -> None:
    assert set(SCHEMAS) == set(ArtefactType)
