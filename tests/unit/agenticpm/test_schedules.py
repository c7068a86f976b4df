"""What the workers do again and again: each with the rights of its component, and once though several processes do it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agenticpm.model import patterns
from agenticpm.system import SYSTEM
from tests.unit.agenticpm.loop_play import Play, played


def test_everything_that_runs_again_and_again_is_somebodys() -> None:
    found = {(component.name, each.name) for component in SYSTEM.components for each in component.schedules}
    assert found == {
        ("loop", "loop"),
        ("loop", "daily"),
        ("loop", "sweep-contents"),
        ("executor", "held-actions"),
        ("executor", "escalations"),
    }


def test_each_schedule_can_run_with_the_rights_of_its_component(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOLDFAST_KEYS", f"file:{tmp_path / 'keys.json'}")

    async def story(play: Play) -> None:
        project = await play.project()
        for component in SYSTEM.components:
            for schedule in component.schedules:
                await schedule.run(play.stores.for_component(component.name))
        # Nobody has put credentials: the loop went round, and told that it could read nothing.
        assert len(await play.events(project, "heartbeat")) == 1
        assert len(await play.events(project, "error")) == 1
        digests = await play.stores.all(patterns.recent_events())
        assert "digest_prepared" in {each.event_type for each in digests}

    played(story)


def test_two_processes_that_run_the_same_schedules_have_one_effect(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOLDFAST_KEYS", f"file:{tmp_path / 'keys.json'}")

    async def story(play: Play) -> None:
        project = await play.project()
        runs = [
            schedule.run(play.stores.for_component(component.name))
            for component in SYSTEM.components
            for schedule in component.schedules
            for _ in range(2)
        ]
        await asyncio.gather(*runs)
        assert len(await play.events(project, "heartbeat")) == 1
        types = [each.event_type for each in await play.stores.all(patterns.recent_events())]
        assert types.count("digest_prepared") == 1

    played(story)
