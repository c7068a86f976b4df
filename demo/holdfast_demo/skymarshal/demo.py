"""DEMO of SkyMarshal: what hosts show of it without real data and without real external services.

Functions import what they need when they run, because a host that loads the demo may use one part of it.
"""

from __future__ import annotations

from typing import Any

from holdfast import Stores
from holdfast.model.demo import Demo


async def _load_sample(stores: Stores, **options: Any) -> int:
    from holdfast_demo.skymarshal.sample.loader import load_sample

    return await load_sample(stores, **options)


async def _run_story(stores: Stores, console: Any) -> None:
    from holdfast_demo.skymarshal.story import run_story

    await run_story(stores, console)


DEMO = Demo(sample=_load_sample, story=_run_story)
