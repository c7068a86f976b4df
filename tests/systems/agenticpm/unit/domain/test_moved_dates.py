"""Tests of moved due dates: no alarm and no question if the new date can be met, both if it cannot."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

import pytest

from agenticpm.domain.autonomy import propose
from agenticpm.domain.tickets import Milestone, Signal, Snapshot, SyncPage, apply_page
from tests.systems.agenticpm.unit.sample_snapshots import (
    DAY,
    NOW,
    detect_signals,
    make_falling_velocity,
    make_snapshot,
    make_ticket,
)
from tests.systems.agenticpm.unit.workers.loop_harness import Harness


def make_snapshot_due(at: datetime, points: int) -> Snapshot:
    """Make a project with a pace of (20 + 10 + 10) / 3 points in 14 days, `points` to do, and a due date."""
    falling = make_falling_velocity()
    left = make_ticket("MCU-1", milestone="Beta", points=Decimal(points))
    plan = falling.plan.model_copy(update={"milestones": (Milestone(name="Beta", due_at=at),)})
    return falling.model_copy(update={"tickets": {**falling.tickets, "MCU-1": left}, "plan": plan})


def detect_slips(before: Snapshot, after: Snapshot) -> tuple[Snapshot, list[Signal]]:
    """Detect the slipping milestones only."""
    seen, signals = detect_signals(before, after)
    return seen, [each for each in signals if each.kind == "slipping_milestone"]


def detect_move(points: int, was: datetime, now_due: datetime) -> Signal:
    """Return the signal of a milestone that moves from one due date to another, with `points` to do."""
    seen, _ = detect_slips(make_snapshot(), make_snapshot_due(was, points))
    plan = make_snapshot_due(now_due, points).plan
    _, (signal,) = detect_slips(seen, apply_page(seen, SyncPage(checkpoint="c"), plan, NOW))
    return signal


@pytest.mark.parametrize("days", [1, 5, 90])
def test_reports_an_achievable_moved_date_without_an_alarm(
    days: int,
) -> None:
    signal = detect_move(10, NOW + 30 * DAY, NOW + (30 + days) * DAY)
    assert signal.severity == "info"
    assert "it was moved from 2026-03-13" in signal.summary and "late" not in signal.summary


def test_unachievable_moved_date_is_critical() -> None:
    assert detect_move(90, NOW + DAY, NOW + 30 * DAY).severity == "critical"
    assert detect_move(10, NOW - 60 * DAY, NOW - 20 * DAY).severity == "critical"


async def test_does_not_ask_about_an_achievable_moved_date(harness: Harness) -> None:
    project = await harness.create_project(autonomy_level="tactical")
    assert propose(project, detect_move(10, NOW + 30 * DAY, NOW + 90 * DAY)) is None
    assert propose(project, detect_move(90, NOW + DAY, NOW + 30 * DAY)) is not None
