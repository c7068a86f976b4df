"""Stories of `holdfast demo`: their temporary stores, environment, and the clock that they can advance."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from holdfast import ReceivedMessage, Stores
from holdfast.cli.stories.system_stories import build_story_settings, run_story
from holdfast.core.clock import RunClock, SystemClock
from holdfast.model.demo import Demo
from holdfast.model.system import Deployment
from holdfast.runtime import get_queue_reports
from tests.unit.runtime import post_office as office
from tests.unit.runtime.post_office import SYSTEM, Letter


def run_and_capture(story: Any, **more: Any) -> str:
    """Run the post office's system with this story and return what it prints."""
    said = io.StringIO()
    run_story(replace(SYSTEM, demo=Demo(story=story), **more), Console(file=said, width=200))
    return said.getvalue()


def test_story_uses_its_queues_and_moves_its_clock_forward() -> None:
    async def story(stores: Stores, console: Console, clock: RunClock) -> None:
        assert stores.clock is clock
        await stores.run(office.post(Letter(id="l-1")))
        [first] = await stores.run(office.take(1, 0.0))
        await stores.run(office.hold(first, 40_000))
        clock.advance(40_001)
        [again] = await stores.run(office.take(1, 0.0))
        console.print(f"{receive(again)} came again")

    def receive(letter: ReceivedMessage[Letter]) -> str:
        return letter.message.id

    assert "l-1 came again" in run_and_capture(story)


def test_story_without_a_clock_parameter_uses_the_system_clock() -> None:
    async def story(stores: Stores, console: Console) -> None:
        console.print(f"by {type(stores.clock).__name__}")

    assert f"by {SystemClock.__name__}" in run_and_capture(story)


def test_system_that_needs_an_environment_gets_demo() -> None:
    async def story(stores: Stores, console: Console) -> None:
        for report in await get_queue_reports(stores, SYSTEM.queues):
            console.print(report.physical)

    assert "letters-demo.fifo" in run_and_capture(story, deployment=Deployment(needs_environment=True))
    assert "letters.fifo" in run_and_capture(story)


def test_keeps_every_store_of_a_story_in_its_folder(tmp_path: Path) -> None:
    settings = build_story_settings(SYSTEM, tmp_path)

    places = (settings.tables_file, settings.queues_file, settings.objects_directory, settings.keys_file)
    assert {place.parent for place in places} == {tmp_path}
