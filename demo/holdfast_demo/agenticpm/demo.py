"""DEMO of AgenticPM: what hosts show of it without real data and without real external services.

Functions import what they need when they run, because a host that loads the demo may use one part of it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from holdfast import Stores
from holdfast.core.clock import Clock, RunClock
from holdfast.model.demo import Demo


async def _run_story(stores: Stores, console: Any, clock: RunClock, folder: Path) -> None:
    """Run the demo story."""
    from holdfast_demo.agenticpm.story import run_story

    await run_story(stores, console, clock, folder)


async def _load_sample(stores: Stores, **options: Any) -> int:
    """Load the sample data and return the number of rows written."""
    from holdfast_demo.agenticpm.sample import load_sample

    return await load_sample(stores, **options)


def _build_jira_sandbox(clock: Clock, folder: Path) -> Any:
    from holdfast_demo.agenticpm.sandbox.jira import JiraSandbox, build_jira_app

    return build_jira_app(JiraSandbox(clock=clock, folder=folder))


def _build_asana_sandbox(clock: Clock, folder: Path) -> Any:
    from holdfast_demo.agenticpm.sandbox.asana import AsanaSandbox, build_asana_app

    return build_asana_app(AsanaSandbox(clock=clock, folder=folder))


def _build_outlook_sandbox(clock: Clock) -> Any:
    from holdfast_demo.agenticpm.sandbox.outlook import OutlookSandbox, build_outlook_app

    return build_outlook_app(OutlookSandbox(clock=clock))


def _build_resend_sandbox(clock: Clock, folder: Path) -> Any:
    from holdfast_demo.agenticpm.sandbox.resend import ResendSandbox, build_resend_app

    return build_resend_app(ResendSandbox(clock=clock, folder=folder))


DEMO = Demo(
    sample=_load_sample,
    story=_run_story,
    sandboxes={
        "jira": _build_jira_sandbox,
        "asana": _build_asana_sandbox,
        "outlook": _build_outlook_sandbox,
        "resend": _build_resend_sandbox,
    },
)
