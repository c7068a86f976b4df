"""Tests of the workers' schedules: each runs with its component's rights, and twice has one effect."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agenticpm.model import patterns
from agenticpm.system import SYSTEM
from tests.systems.agenticpm.unit.workers.loop_harness import Harness


def test_loop_and_executor_have_their_schedules() -> None:
    found = {(component.name, each.name) for component in SYSTEM.components for each in component.schedules}
    assert found == {
        ("loop", "loop"),
        ("loop", "daily"),
        ("loop", "sweep-contents"),
        ("executor", "held-actions"),
        ("executor", "escalations"),
    }


async def test_each_schedule_can_run_with_the_rights_of_its_component(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOLDFAST_KEYS", f"file:{tmp_path / 'keys.json'}")

    project = await harness.create_project()
    for component in SYSTEM.components:
        for schedule in component.schedules:
            await schedule.run(harness.stores.for_component(component.name))
    # There are no credentials: the loop ran and reported that it could read nothing.
    assert len(await harness.events(project, "heartbeat")) == 1
    assert len(await harness.events(project, "error")) == 1
    digests = await harness.stores.all(patterns.recent_events())
    assert "digest_prepared" in {each.event_type for each in digests}


async def test_schedules_run_twice_concurrently_have_one_effect(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOLDFAST_KEYS", f"file:{tmp_path / 'keys.json'}")

    project = await harness.create_project()
    runs = [
        schedule.run(harness.stores.for_component(component.name))
        for component in SYSTEM.components
        for schedule in component.schedules
        for _ in range(2)
    ]
    await asyncio.gather(*runs)
    assert len(await harness.events(project, "heartbeat")) == 1
    types = [each.event_type for each in await harness.stores.all(patterns.recent_events())]
    assert types.count("digest_prepared") == 1
