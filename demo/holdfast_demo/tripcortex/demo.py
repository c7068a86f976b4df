"""DEMO of Trip Cortex: what hosts show of it without real data and without real external services.

Functions import what they need when they run, because a host that loads the demo may use one part of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from holdfast import Stores
from holdfast.core.clock import Clock, RunClock
from holdfast.model.demo import Demo


async def _load_sample(
    stores: Stores, *, scale: float = 1, progress: Callable[[str, int, int], None] | None = None
) -> int:
    """Write the sample data; return the number of rows written."""
    from holdfast_demo.tripcortex.sample.loader import load_sample

    return await load_sample(stores, scale=scale, progress=progress)


async def _run_story(
    stores: Stores, console: Any, clock: RunClock, folder: Path, variables: Mapping[str, str]
) -> None:
    """Run the demo story."""
    from holdfast_demo.tripcortex.story import run_story

    await run_story(stores, console, clock, folder, variables)


def _build_portal_sandbox(clock: Clock, folder: Path) -> Any:
    """Return the ASGI app of the portal's sandbox."""
    from holdfast_demo.tripcortex import sandbox

    return sandbox.make_portal(clock, folder)


def _build_issuer_sandbox(clock: Clock, folder: Path) -> Any:
    """Return the ASGI app of the token issuer's sandbox."""
    from holdfast_demo.tripcortex import sandbox

    return sandbox.make_issuer(clock, folder)


def _build_sandbox_variables(sandbox_urls: Mapping[str, str], own_url: str) -> Mapping[str, str]:
    """Return the environment variables of a system that uses the sandboxes at these URLs."""
    from holdfast_demo.tripcortex import sandbox

    return sandbox.build_variables(sandbox_urls, own_url)


DEMO = Demo(
    sample=_load_sample,
    story=_run_story,
    sandboxes={"portal": _build_portal_sandbox, "issuer": _build_issuer_sandbox},
    sandbox_variables=_build_sandbox_variables,
)
