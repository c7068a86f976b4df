"""Differences between contents: what is matched with what, and how a person is told."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from agenticpm.domain.contents import ArtefactType
from agenticpm.domain.diff import Difference, compute_differences, format_lines, format_value
from tests.unit.agenticpm.sample_contents import BACKLOG_SUMMARY, CONTENTS, DELIVERY_STATE, changed, raid_log


@pytest.mark.parametrize("type", ArtefactType)
def test_equal_contents_do_not_differ(type: ArtefactType) -> None:
    assert compute_differences(CONTENTS[type], CONTENTS[type]) == []


def test_a_value_that_changed_is_told_with_its_place() -> None:
    after = changed(DELIVERY_STATE, "key_metrics.active_risks", 4)
    assert compute_differences(DELIVERY_STATE, after) == [Difference("key_metrics.active_risks", 3, 4)]


def test_things_with_an_id_are_matched_by_it_wherever_they_stand() -> None:
    found = compute_differences(raid_log("R002", "R003"), raid_log("R001", "R002"))
    assert [(each.path, each.kind) for each in found] == [
        ("items[R003]", "removed"),
        ("items[R001]", "added"),
    ]


@pytest.mark.parametrize(
    ("name", "path"),
    [("ticket_id", "all[B].x"), ("name", "all[B].x"), ("option", "all[B].x"), ("colour", "all[1].x")],
)
def test_things_without_an_id_are_matched_by_another_name_or_by_their_place(name: str, path: str) -> None:
    before = {"all": [{name: "A", "x": 1}, {name: "B", "x": 1}]}
    after = {"all": [{name: "A", "x": 1}, {name: "B", "x": 2}]}
    assert compute_differences(before, after) == [Difference(path, 1, 2)]


def test_things_of_which_two_have_the_same_name_are_matched_by_their_place() -> None:
    before = [{"ticket_id": "A", "flag": "new"}, {"ticket_id": "A", "flag": "stale"}]
    after = [{"ticket_id": "A", "flag": "new"}, {"ticket_id": "A", "flag": "blocked"}]
    assert compute_differences(before, after) == [Difference("[1].flag", "stale", "blocked")]


def test_another_order_of_the_same_things_is_a_difference() -> None:
    found = compute_differences(raid_log("R001", "R002"), raid_log("R002", "R001"))
    assert found == [Difference("items", ["R001", "R002"], ["R002", "R001"], "moved")]


def test_texts_in_a_list_are_matched_by_their_place() -> None:
    after = changed(
        DELIVERY_STATE, "next_actions", ["Follow up with Sarah on design assets by Feb 5", "x", "y"]
    )
    assert [(each.path, each.kind) for each in compute_differences(DELIVERY_STATE, after)] == [
        ("next_actions[1]", "changed"),
        ("next_actions[2]", "added"),
    ]


@pytest.mark.parametrize(
    ("before", "after"), [(None, {}), ({}, []), (True, 1), (0, False), ([], {}), ("1", 1), ({"a": None}, {})]
)
def test_values_of_another_kind_differ(before: Any, after: Any) -> None:
    assert compute_differences(before, after)


def test_a_number_is_the_same_in_any_form() -> None:
    assert compute_differences({"a": 4, "b": Decimal("4.20")}, {"a": Decimal(4), "b": Decimal("4.2")}) == []


def test_a_person_is_told_in_lines() -> None:
    before = changed(BACKLOG_SUMMARY, "refinement_candidates", [])
    after = changed(changed(BACKLOG_SUMMARY, "highlights", []), "scope_notes", "none")
    assert format_lines(compute_differences(before, after)) == [
        "- highlights[MCU-142]: Profile page redesign",
        "+ refinement_candidates[MCU-155]: Implement LinkedIn import",
        "~ scope_notes: 3 new tickets added mid-sprint (possible scope creep) → none",
    ]


def test_a_first_version_is_told_as_everything() -> None:
    assert format_lines(compute_differences(None, {"items": []})) == ['~ everything: nothing → {"items": []}']


def test_a_shown_value_is_short_and_holds_nothing_that_a_terminal_follows() -> None:
    assert format_value("red\x1b[31m\nalert\u202e") == "red[31m alert"
    assert len(format_value("x" * 1000)) == 120
    assert format_value("x" * 1000, 10) == "x" * 9 + "…"
    assert format_value(["a", Decimal("4.2")]) == '["a", 4.2]'
