"""DEMO of PAGW: what hosts show of it without real data and without real external services.

Functions import what they need when they run, because a host that loads the demo may use one part of it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from holdfast import Stores
from holdfast.core.clock import Clock, RunClock
from holdfast.model.demo import Demo


async def _load_sample(
    stores: Stores, *, scale: float = 1, progress: Callable[[str, int, int], None] | None = None
) -> int:
    from holdfast_demo.pagw.sample.loader import load_sample

    return await load_sample(stores, scale=scale, progress=progress)


async def _run_story(stores: Stores, console: Any, clock: RunClock, folder: Path) -> None:
    from holdfast_demo.pagw.story import run_story

    await run_story(stores, console, clock, folder)


def _build_payer_sandbox(clock: Clock, folder: Path) -> Any:
    from holdfast_demo.pagw import sandbox

    return sandbox.make_payer(clock, folder)


def _build_pas_payer_sandbox(clock: Clock, folder: Path) -> Any:
    from holdfast_demo.pagw import sandbox

    return sandbox.make_pas_payer(clock, folder)


def _build_issuer_sandbox(clock: Clock, folder: Path) -> Any:
    from holdfast_demo.pagw import sandbox

    return sandbox.make_issuer(clock, folder)


def _build_client_sandbox(clock: Clock, folder: Path) -> Any:
    from holdfast_demo.pagw import sandbox

    return sandbox.make_client(clock, folder)


def _build_sandbox_variables(services: Mapping[str, str], gateway_url: str) -> Mapping[str, str]:
    """Return the environment variables of a gateway at `gateway_url` that uses the sandboxes in `services`
    (name to address).
    """
    from holdfast_demo.pagw import sandbox

    return sandbox.build_variables(services, gateway_url)


async def _register_sandbox_payer(stores: Stores) -> None:
    """Register the sandbox payers if PAGW_PAYER_URL and PAGW_PAS_PAYER_URL say where they are."""
    from holdfast_demo.pagw import sandbox

    if url := os.environ.get(sandbox.PAYER_VARIABLE):
        await sandbox.register(stores, url)
    if url := os.environ.get(sandbox.PAS_PAYER_VARIABLE):
        await sandbox.register_pas_payer(stores, url)


DEMO = Demo(
    sample=_load_sample,
    story=_run_story,
    sandboxes={
        "payer": _build_payer_sandbox,
        "issuer": _build_issuer_sandbox,
        "client": _build_client_sandbox,
        "pas-payer": _build_pas_payer_sandbox,
    },
    sandbox_variables=_build_sandbox_variables,
    on_startup=_register_sandbox_payer,
)
