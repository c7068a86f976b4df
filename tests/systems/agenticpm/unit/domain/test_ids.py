"""Tests of the ids of blockers, RAID items and decisions: a new id is free and valid, even after 999999."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenticpm.domain.contents import ArtefactType, get_next_id, iter_free_ids, validate_content
from agenticpm.domain.thresholds import Thresholds
from agenticpm.domain.tickets import Writing
from agenticpm.domain.writers.delivery_state import build_delivery_state
from agenticpm.domain.writers.raid_log import build_raid_log
from agenticpm.model import artefacts
from agenticpm.model.entities import EscalationStatus
from agenticpm.workers import escalations
from tests.systems.agenticpm.unit.sample_snapshots import NOW, make_item, make_snapshot, make_ticket
from tests.systems.agenticpm.unit.workers.loop_harness import Harness
from tests.systems.agenticpm.unit.writers.sample_contents import DECISION_LOG


@pytest.mark.parametrize(
    ("taken", "following"),
    [
        ([], "R001"),
        (["R001", "R007"], "R008"),
        (["R0999"], "R1000"),
        (["R999998"], "R999999"),
        (["R999999"], "R001"),
        (["R001", "R0002", "R999999"], "R003"),
    ],
)
def test_next_id_follows_the_highest_or_is_the_lowest_free_one(taken: list[str], following: str) -> None:
    assert get_next_id("R", taken) == following


@given(st.lists(st.integers(0, 999_999).map(lambda number: f"B{number:03d}"), max_size=20), st.integers(1, 5))
def test_consecutive_ids_are_unique_unused_and_valid(taken: list[str], wanted: int) -> None:
    ids = iter_free_ids("B", taken)
    given_ids = [next(ids) for _ in range(wanted)]
    assert len({*given_ids, *taken}) == wanted + len(set(taken))
    assert all(re.fullmatch(r"B[0-9]{3,6}", each) for each in given_ids)


def make_writing(type: str, previous: dict[str, Any] | None) -> Writing:
    """Make the input of a writer with three blocked tickets."""
    seen = make_snapshot(*(make_ticket(f"MCU-{number}", is_blocked=True) for number in range(3)))
    return Writing(type=type, previous=previous, snapshot=seen, signals=(), raid_log=None, now=NOW)


def test_extends_a_raid_log_whose_highest_id_a_person_gave() -> None:
    log = build_raid_log(
        make_writing("raid_log", {"items": [make_item("R999999"), make_item("R002")]}), Thresholds()
    )
    assert [each["id"] for each in log["items"]] == ["R999999", "R002", "R001", "R003", "R004"]
    validate_content(ArtefactType.raid_log, log)


def test_extends_a_delivery_state_whose_highest_id_a_person_gave() -> None:
    state = build_delivery_state(make_writing("delivery_state", None), Thresholds())
    own = state["blockers"][0] | {"id": "B999999", "source_ticket": None}
    metrics = state["key_metrics"] | {"open_blockers": 1}
    previous = state | {"blockers": [own], "key_metrics": metrics}
    after = build_delivery_state(make_writing("delivery_state", previous), Thresholds())
    assert [each["id"] for each in after["blockers"]] == ["B001", "B002", "B003", "B999999"]
    validate_content(ArtefactType.delivery_state, after)


def test_does_not_reuse_the_id_of_a_blocker_in_the_previous_state() -> None:
    state = build_delivery_state(make_writing("delivery_state", None), Thresholds())
    other = make_writing("delivery_state", state).model_copy(
        update={"snapshot": make_snapshot(make_ticket("MCU-9", is_blocked=True))}
    )
    assert [each["id"] for each in build_delivery_state(other, Thresholds())["blockers"]] == ["B004"]


async def test_decides_when_a_person_gave_the_highest_id(harness: Harness) -> None:
    project = await harness.create_project()
    decision = DECISION_LOG["decisions"][0] | {"id": "D999999", "related_raid_items": []}
    await artefacts.update(
        harness.stores, project.id, ArtefactType.decision_log, {"decisions": [decision]}, 0
    )
    writes = await escalations.build_escalation(
        harness.stores, project.id, title="Which date", context={}, options=[{"option": "May"}]
    )
    await harness.stores.transact(*writes)
    (question,) = await escalations.list_of_project(harness.stores, project.id)
    decided = await escalations.decide(harness.stores, project.id, question.id, "May")
    assert decided.status is EscalationStatus.decided
    log = await harness.artefact(project, ArtefactType.decision_log)
    assert [each["id"] for each in log.content["decisions"]] == ["D999999", "D001"]
