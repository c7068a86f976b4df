"""What was last seen of a tracker: kept under its content's name, and found again or taken as lost."""

from __future__ import annotations

import pytest

from agenticpm.domain.tickets import Snapshot
from agenticpm.model import patterns, snapshots
from agenticpm.model.entities import EventType, Project, Severity
from agenticpm.model.events import build_event_writes, get_now
from agenticpm.model.snapshots import SeenCheckpoint
from holdfast.core.errors import ConditionFailed
from tests.unit.agenticpm.loop_play import Play, played
from tests.unit.agenticpm.sample_snapshots import snapshot, ticket


async def pointed(play: Play, project: Project, sha256: str | None) -> Snapshot | None:
    return await snapshots.load_snapshot(
        play.stores, project, SeenCheckpoint(project.id, "jira", "snapshot", sha256)
    )


def test_what_was_kept_is_found_by_the_name_of_its_content() -> None:
    async def story(play: Play) -> None:
        project = await play.project()
        seen = snapshot(ticket("MCU-1"), flags={"blocked:MCU-1": get_now(play.clock)})
        name = await snapshots.store_snapshot(play.stores, project, seen)
        assert await snapshots.store_snapshot(play.stores, project, seen) == name
        assert await pointed(play, project, name) == seen
        assert await snapshots.store_snapshot(play.stores, project, snapshot()) != name

    played(story)


def test_what_is_not_there_or_cannot_be_read_is_taken_as_lost() -> None:
    async def story(play: Play) -> None:
        project = await play.project()
        assert await pointed(play, project, None) is None
        assert await pointed(play, project, "0" * 64) is None
        for number, nonsense in enumerate((b"", b"{", b"[]", b'{"source": "jira"}')):
            name = f"{number}" * 64
            await play.stores.run(patterns.keep_snapshot(nonsense, project.id, name))
            assert await pointed(play, project, name) is None

    played(story)


def test_a_mark_moves_only_from_where_it_was_seen() -> None:
    async def story(play: Play) -> None:
        project = await play.project()
        mark = await snapshots.read_checkpoint(play.stores, project.id, "jira", "last_sync")
        assert mark.value is None
        await play.stores.run(mark.advance(play.stores, "5"))
        for stale in (mark, mark.with_value("4")):
            with pytest.raises(ConditionFailed):
                await play.stores.run(stale.advance(play.stores, "6"))
        await play.stores.run(mark.with_value("5").advance(play.stores, "6"))
        assert (await snapshots.read_checkpoint(play.stores, project.id, "jira", "last_sync")).value == "6"
        assert mark.with_value(None) == mark

    played(story)


def test_times_in_marks_are_of_one_width_and_come_back() -> None:
    async def story(play: Play) -> None:
        for seconds in (0, 0.25, 1):
            play.clock.advance(seconds)
            text = snapshots.format_time(get_now(play.clock))
            assert len(text) == 24 and text.endswith("Z")
            assert snapshots.parse_time(text) == get_now(play.clock)

    played(story)


def test_nothing_was_told_before_the_first_look() -> None:
    async def story(play: Play) -> None:
        project = await play.project()
        assert await snapshots.rebuild_from_events(play.stores, project) == snapshots.build_empty_snapshot(
            project
        )

    played(story)


def test_what_people_were_told_is_found_in_the_events() -> None:
    async def story(play: Play) -> None:
        project = await play.project()
        mark = await snapshots.read_checkpoint(play.stores, project.id, "jira", "snapshot")
        await play.stores.run(mark.advance(play.stores, "0" * 64))
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
            play.clock.advance(1)
            told = {"signal": kind, "subject": subject, "summary": subject, "evidence": []}
            event = build_event_writes(
                play.stores, project.id, EventType.signal_detected, subject, told, severity=Severity(severity)
            )
            await play.stores.transact(*event)
        found = await snapshots.rebuild_from_events(play.stores, project)
        assert set(found.flags) == {
            "blocked:MCU-1",
            "cycle_time_trend:MCU",
            "slipping_milestone:Beta:at_risk",
            "slipping_milestone:Beta:moved",
            "slipping_milestone:Beta:delayed",
        }
        assert (found.tickets, found.mentions) == ({}, {})

    played(story)
