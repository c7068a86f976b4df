"""Tests of snapshots and checkpoints on the loop harness: stored by hash, lost, and rebuilt from events."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from agenticpm.domain.tickets import Snapshot
from agenticpm.model import patterns, snapshots
from agenticpm.model.entities import EventType, Project, ProjectId, Severity
from agenticpm.model.events import build_event_writes, get_now
from agenticpm.model.snapshots import SeenCheckpoint
from holdfast.core.errors import ConditionFailed
from tests.systems.agenticpm.unit.sample_snapshots import make_snapshot, make_ticket
from tests.systems.agenticpm.unit.workers.loop_harness import Harness


async def load_snapshot(harness: Harness, project: Project, sha256: str | None) -> Snapshot | None:
    """Load the snapshot that a checkpoint with this value points to."""
    return await snapshots.load_snapshot(
        harness.stores, project, SeenCheckpoint(project.id, "jira", "snapshot", sha256)
    )


def test_interval_passes_after_its_time_and_not_because_of_a_clock_that_was_ahead() -> None:
    now, hour = datetime(2026, 2, 4, 12, tzinfo=UTC), timedelta(hours=1)
    for last, is_passed in ((-hour, True), (-hour / 2, False), (timedelta(0), False), (24 * hour, True)):
        value = snapshots.format_time(now + last)
        assert (
            SeenCheckpoint(ProjectId("p-1"), "jira", "last_cycle", value).has_passed(hour, now) is is_passed
        )
    assert SeenCheckpoint(ProjectId("p-1"), "jira", "last_cycle", None).has_passed(hour, now)


async def test_finds_a_stored_snapshot_by_its_hash(harness: Harness) -> None:
    project = await harness.create_project()
    seen = make_snapshot(make_ticket("MCU-1"), flags={"blocked:MCU-1": get_now(harness.clock)})
    name = await snapshots.store_snapshot(harness.stores, project, seen)
    assert await snapshots.store_snapshot(harness.stores, project, seen) == name
    assert await load_snapshot(harness, project, name) == seen
    assert await snapshots.store_snapshot(harness.stores, project, make_snapshot()) != name


async def test_treats_a_missing_or_unreadable_snapshot_as_lost(harness: Harness) -> None:
    project = await harness.create_project()
    assert await load_snapshot(harness, project, None) is None
    assert await load_snapshot(harness, project, "0" * 64) is None
    for number, nonsense in enumerate((b"", b"{", b"[]", b'{"source": "jira"}')):
        name = f"{number}" * 64
        await harness.stores.run(patterns.keep_snapshot(nonsense, project.id, name))
        assert await load_snapshot(harness, project, name) is None


async def test_checkpoint_moves_only_from_the_value_that_was_read(harness: Harness) -> None:
    project = await harness.create_project()
    mark = await snapshots.read_checkpoint(harness.stores, project.id, "jira", "last_sync")
    assert mark.value is None
    await harness.stores.run(mark.build_write(harness.stores, "5"))
    for stale in (mark, mark.with_value("4")):
        with pytest.raises(ConditionFailed):
            await harness.stores.run(stale.build_write(harness.stores, "6"))
    await harness.stores.run(mark.with_value("5").build_write(harness.stores, "6"))
    assert (await snapshots.read_checkpoint(harness.stores, project.id, "jira", "last_sync")).value == "6"
    assert mark.with_value(None) == mark


async def test_checkpoint_times_have_one_width_and_round_trip(harness: Harness) -> None:
    for seconds in (0, 0.25, 1):
        harness.clock.advance(seconds)
        text = snapshots.format_time(get_now(harness.clock))
        assert len(text) == 24 and text.endswith("Z")
        assert snapshots.parse_time(text) == get_now(harness.clock)


async def test_rebuilt_snapshot_is_empty_before_the_first_read(harness: Harness) -> None:
    project = await harness.create_project()
    assert await snapshots.rebuild_from_events(harness.stores, project) == snapshots.build_empty_snapshot(
        project
    )


async def test_rebuilds_the_flags_from_the_signal_events(harness: Harness) -> None:
    project = await harness.create_project()
    mark = await snapshots.read_checkpoint(harness.stores, project.id, "jira", "snapshot")
    await harness.stores.run(mark.build_write(harness.stores, "0" * 64))
    for kind, subject, severity in (
        ("blocked", "MCU-1", "warning"),
        ("blocked", "MCU-2", "warning"),
        ("unblocked", "MCU-2", "info"),
        ("velocity_trend", "MCU", "warning"),
        ("velocity_trend", "MCU", "info"),
        ("cycle_time_trend", "MCU", "warning"),
        ("slipping_milestone", "Beta", "error"),
        ("a kind of tomorrow", "x", "info"),
    ):
        harness.clock.advance(1)
        detail = {"signal": kind, "subject": subject, "summary": subject, "evidence": []}
        event = build_event_writes(
            harness.stores,
            project.id,
            EventType.signal_detected,
            subject,
            detail,
            severity=Severity(severity),
        )
        await harness.stores.transact(*event)
    found = await snapshots.rebuild_from_events(harness.stores, project)
    assert set(found.flags) == {
        "blocked:MCU-1",
        "cycle_time_trend:MCU",
        "slipping_milestone:Beta:at_risk",
        "slipping_milestone:Beta:moved",
        "slipping_milestone:Beta:delayed",
    }
    assert (found.tickets, found.mentions) == ({}, {})
