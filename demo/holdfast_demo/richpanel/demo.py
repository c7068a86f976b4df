"""DEMO of the Richpanel middleware: what hosts show of it without real data and real external services.

Functions import what they need when they run, because a host that loads the demo may use one part of it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from holdfast import Stores
from holdfast.core.clock import Clock, RunClock
from holdfast.model.demo import Demo


async def _load_sample(stores: Stores, **options: Any) -> int:
    from holdfast_demo.richpanel.sample import load_sample

    return await load_sample(stores, **options)


def _build_sandbox(clock: Clock) -> Any:
    """Build the sandbox of the help desk and the shop."""
    from holdfast_demo.richpanel.sandbox import Sandbox, build_sandbox_app

    return build_sandbox_app(Sandbox(clock=clock))


async def _run_story(stores: Stores, console: Any, clock: RunClock, folder: Path) -> None:
    """Run the demo story."""
    from holdfast_demo.richpanel.story import run_story

    await run_story(stores, console, clock, folder)


DEMO = Demo(sample=_load_sample, story=_run_story, sandboxes={"helpdesk": _build_sandbox})
