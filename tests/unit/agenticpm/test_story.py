"""The story of `holdfast demo agenticpm`: it tells what happened, and does not get past what went wrong."""

from __future__ import annotations

import io
import logging
import os
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from agenticpm import SYSTEM
from agenticpm.connectors.jira import JiraTracker
from agenticpm.sandbox.resend import ResendSandbox
from holdfast.cli.stories.systems import tell


def told(*, with_sample: bool = False) -> str:
    """With the sample as the command has it; without it sooner."""
    said = io.StringIO()
    system = SYSTEM if with_sample else replace(SYSTEM, sample=None)
    tell(system, Console(file=said, width=400))
    return said.getvalue()


def test_the_story_tells_days_on_which_everything_happens_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTICPM_JIRA_URL", "http://127.0.0.1:9")
    before, level = dict(os.environ), logging.getLogger("holdfast").level

    text = told(with_sample=True)

    for sentence in (
        "Jira says that it is well",
        "The delivery state is",
        "together 47.",
        "no signal is told again, no version is written",
        "One is cancelled, one is edited.",
        "the edited one as it was edited",
        "Each has its evidence: MCU-122, Flagged, before None, after 'Impediment'.",
        "Decided, and in the same moment in the decision log as D001.",
        "Its signal was told once.",
        "1 mail was sent",
        "Undone, as version",
        "effects outside, each once.",
        "write units",
        "nothing found. A planted one is.",
    ):
        assert sentence in text, f"{sentence!r} is not in:\n{text}"
    assert dict(os.environ) == before
    assert logging.getLogger("holdfast").level == level


def test_the_story_does_not_get_past_a_mail_that_went_out_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ResendSandbox, "_known", lambda *_: None)

    with pytest.raises(AssertionError, match="Not as it should be"):
        told()


def test_the_story_does_not_get_past_a_ticket_that_was_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    as_it_is = JiraTracker.changes

    async def forgetful(self: JiraTracker, *given: Any) -> Any:
        page = await as_it_is(self, *given)
        return page.model_copy(update={"tickets": page.tickets[1:]})

    monkeypatch.setattr(JiraTracker, "changes", forgetful)

    with pytest.raises(AssertionError, match="Not as it should be"):
        told()
