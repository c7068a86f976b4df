"""Tests of the story of `holdfast demo agenticpm`: its output, and that it stops at an unexpected result."""

from __future__ import annotations

import io
import logging
import os
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from agenticpm.integrations.jira.tracker import JiraTracker
from agenticpm.system import SYSTEM
from holdfast.cli.stories.system_stories import run_story
from holdfast_demo.agenticpm.demo import DEMO
from holdfast_demo.agenticpm.sandbox.resend import ResendSandbox


def render_story(*, with_sample: bool = False) -> str:
    """Run the story and return its output. Without the sample data it is faster."""
    output = io.StringIO()
    system = SYSTEM if with_sample else replace(SYSTEM, demo=replace(DEMO, sample=None))
    run_story(system, Console(file=output, width=400))
    return output.getvalue()


def test_story_reports_days_on_which_everything_happens_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It also leaves the environment and the log level as they were."""
    monkeypatch.setenv("AGENTICPM_JIRA_URL", "http://127.0.0.1:9")
    before, level = dict(os.environ), logging.getLogger("holdfast").level

    text = render_story(with_sample=True)

    for sentence in (
        "Jira is healthy",
        "The delivery state is",
        "total 47.",
        "no signal is repeated, no version is written",
        "One is cancelled, one is edited.",
        "one with the edited text",
        "Each has its evidence: MCU-122, Flagged, before None, after 'Impediment'.",
        "Decided, and in the same transaction added to the decision log as D001.",
        "Its signal was reported once.",
        "1 mail was sent",
        "Undone, as version",
        "external effects, each once.",
        "write units",
        "nothing found. A planted token is found.",
    ):
        assert sentence in text, f"{sentence!r} is not in:\n{text}"
    assert dict(os.environ) == before
    assert logging.getLogger("holdfast").level == level


def test_story_stops_at_a_mail_sent_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ResendSandbox, "_find_sent", lambda *_: None)

    with pytest.raises(AssertionError, match="Unexpected result"):
        render_story()


def test_story_stops_at_an_unread_ticket(monkeypatch: pytest.MonkeyPatch) -> None:
    as_it_is = JiraTracker.fetch_changes

    async def forgetful(self: JiraTracker, *given: Any) -> Any:
        page = await as_it_is(self, *given)
        return page.model_copy(update={"tickets": page.tickets[1:]})

    monkeypatch.setattr(JiraTracker, "fetch_changes", forgetful)

    with pytest.raises(AssertionError, match="Unexpected result"):
        render_story()
