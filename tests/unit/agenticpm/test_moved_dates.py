"""A date that people have moved: no alarm and no question where it can be kept; both where it cannot."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

import pytest

from agenticpm.domain.autonomy import propose
from agenticpm.domain.signals import detect
from agenticpm.domain.thresholds import Thresholds
from agenticpm.domain.tickets import Milestone, Signal, Snapshot, SyncPage, apply_page
from tests.unit.agenticpm.loop_play import Play, played
from tests.unit.agenticpm.sample_snapshots import DAY, NOW, falling_velocity, snapshot, ticket


def due(at: datetime, points: int) -> Snapshot:
    """A pace of (20 + 10 + 10) / 3 points in 14 days, and so many points to do."""
    falling = falling_velocity()
    left = ticket("MCU-1", milestone="Beta", points=Decimal(points))
    plan = falling.plan.model_copy(update={"milestones": (Milestone(name="Beta", due_at=at),)})
    return falling.model_copy(update={"tickets": {**falling.tickets, "MCU-1": left}, "plan": plan})


def look(before: Snapshot, after: Snapshot) -> tuple[Snapshot, list[Signal]]:
    seen, signals = detect(before, after, (), raid_log=None, now=NOW, thresholds=Thresholds(), limit=99)
    return seen, [each for each in signals if each.kind == "slipping_milestone"]


def moved(points: int, was: datetime, now_due: datetime) -> Signal:
    seen, _ = look(snapshot(), due(was, points))
    plan = due(now_due, points).plan
    _, (signal,) = look(seen, apply_page(seen, SyncPage(checkpoint="c"), plan, NOW))
    return signal


@pytest.mark.parametrize("days", [1, 5, 90])
def test_a_date_that_was_moved_and_can_be_kept_is_told_and_is_no_alarm_however_far_it_was_moved(
    days: int,
) -> None:
    signal = moved(10, NOW + 30 * DAY, NOW + (30 + days) * DAY)
    assert signal.severity == "info"
    assert "it was moved from 2026-03-13" in signal.summary and "late" not in signal.summary


def test_a_date_that_was_moved_far_and_still_cannot_be_kept_is_critical() -> None:
    assert moved(90, NOW + DAY, NOW + 30 * DAY).severity == "critical"
    assert moved(10, NOW - 60 * DAY, NOW - 20 * DAY).severity == "critical"


def test_nobody_is_asked_about_a_date_that_was_moved_and_can_be_kept() -> None:
    async def story(play: Play) -> None:
        project = await play.project(autonomy_level="tactical")
        assert propose(project, moved(10, NOW + 30 * DAY, NOW + 90 * DAY)) is None
        assert propose(project, moved(90, NOW + DAY, NOW + 30 * DAY)) is not None

    played(story)
