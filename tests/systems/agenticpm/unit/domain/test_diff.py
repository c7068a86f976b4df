"""Tests of the differences between two contents: matching of entries, paths, and lines for a person."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from agenticpm.domain.diff import Difference, compute_differences, format_lines, format_value
from tests.systems.agenticpm.unit.writers.sample_contents import (
    BACKLOG_SUMMARY,
    DELIVERY_STATE,
    make_raid_log,
    replace_at,
)


def test_reports_a_changed_value_with_its_path() -> None:
    after = replace_at(DELIVERY_STATE, "key_metrics.active_risks", 4)
    assert compute_differences(DELIVERY_STATE, after) == [Difference("key_metrics.active_risks", 3, 4)]


def test_matches_entries_by_id_in_any_order() -> None:
    found = compute_differences(make_raid_log("R002", "R003"), make_raid_log("R001", "R002"))
    assert [(each.path, each.kind) for each in found] == [
        ("items[R003]", "removed"),
        ("items[R001]", "added"),
    ]


@pytest.mark.parametrize(
    ("name", "path"),
    [("ticket_id", "all[B].x"), ("name", "all[B].x"), ("option", "all[B].x"), ("colour", "all[1].x")],
)
def test_matches_entries_without_an_id_by_another_name_or_their_index(name: str, path: str) -> None:
    before = {"all": [{name: "A", "x": 1}, {name: "B", "x": 1}]}
    after = {"all": [{name: "A", "x": 1}, {name: "B", "x": 2}]}
    assert compute_differences(before, after) == [Difference(path, 1, 2)]


def test_matches_entries_with_duplicate_names_by_index() -> None:
    before = [{"ticket_id": "A", "flag": "new"}, {"ticket_id": "A", "flag": "stale"}]
    after = [{"ticket_id": "A", "flag": "new"}, {"ticket_id": "A", "flag": "blocked"}]
    assert compute_differences(before, after) == [Difference("[1].flag", "stale", "blocked")]


def test_another_order_is_a_difference() -> None:
    found = compute_differences(make_raid_log("R001", "R002"), make_raid_log("R002", "R001"))
    assert found == [Difference("items", ["R001", "R002"], ["R002", "R001"], "moved")]


def test_matches_texts_by_index() -> None:
    after = replace_at(
        DELIVERY_STATE, "next_actions", ["Follow up with Sarah on design assets by Feb 5", "x", "y"]
    )
    assert [(each.path, each.kind) for each in compute_differences(DELIVERY_STATE, after)] == [
        ("next_actions[1]", "changed"),
        ("next_actions[2]", "added"),
    ]


@pytest.mark.parametrize(
    ("before", "after"), [(None, {}), ({}, []), (True, 1), (0, False), ([], {}), ("1", 1), ({"a": None}, {})]
)
def test_values_of_different_types_differ(before: Any, after: Any) -> None:
    assert compute_differences(before, after)


def test_equal_numbers_in_different_forms_do_not_differ() -> None:
    assert compute_differences({"a": 4, "b": Decimal("4.20")}, {"a": Decimal(4), "b": Decimal("4.2")}) == []


def test_formats_differences_as_lines() -> None:
    before = replace_at(BACKLOG_SUMMARY, "refinement_candidates", [])
    after = replace_at(replace_at(BACKLOG_SUMMARY, "highlights", []), "scope_notes", "none")
    assert format_lines(compute_differences(before, after)) == [
        "- highlights[MCU-142]: Profile page redesign",
        "+ refinement_candidates[MCU-155]: Implement LinkedIn import",
        "~ scope_notes: 3 new tickets added mid-sprint (possible scope creep) → none",
    ]


def test_first_version_is_one_line_from_nothing_to_everything() -> None:
    assert format_lines(compute_differences(None, {"items": []})) == ['~ everything: nothing → {"items": []}']


def test_shown_value_is_short_and_has_no_terminal_control_characters() -> None:
    assert format_value("red\x1b[31m\nalert\u202e") == "red[31m alert"
    assert len(format_value("x" * 1000)) == 120
    assert format_value("x" * 1000, 10) == "x" * 9 + "…"
    assert format_value(["a", Decimal("4.2")]) == '["a", 4.2]'
