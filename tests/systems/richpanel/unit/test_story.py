"""Story of `holdfast demo richpanel`: it reports what happened and fails if anything went wrong."""

from __future__ import annotations

import io
import logging
import os
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from holdfast.cli.stories.system_stories import run_story
from holdfast_demo.richpanel.demo import DEMO
from richpanel.integrations.clients import HelpDeskClient
from richpanel.system import SYSTEM
from richpanel.workers import actions


def run_and_capture() -> str:
    """Run the story without the sample, and return its output."""
    said = io.StringIO()
    # The sample data does not affect the story.
    run_story(replace(SYSTEM, demo=replace(DEMO, sample=None)), Console(file=said, width=400))
    return said.getvalue()


@pytest.mark.proves("RP-1")
@pytest.mark.proves("RP-46")
def test_story_shows_every_effect_once_and_restores_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RP_MW_AUDIT", "off")
    before, level = dict(os.environ), logging.getLogger("holdfast").level

    text = run_and_capture()

    for sentence in (
        "5 customers write. The help desk sends their webhooks 13 times.",
        "→ risk, fraud_report (at risk: fraud_suspected)",
        "The help desk's ledger has 12 effects, and none twice.",
        "The idempotency record drops it.",
        "what would have been sent: ask_order_number. The customer got nothing.",
        "we: Hello, your order ending in 8156 is now: on its way",
        "we: Hello, we could not match that number to an order of yours.",
        "the same question is only routed",
        "the next question is only routed",
        "assigned once, tagged once",
        "the same ones, each once",
        "did auto_reply → order_status, because",
        "14 events processed; 1 duplicate dropped",
        "rp_mw_audit_actions: 60 days",
        "nothing found. The scan finds a planted line.",
        "An event took",
    ):
        assert sentence in text, f"{sentence!r} is not in:\n{text}"
    assert dict(os.environ) == before
    assert logging.getLogger("holdfast").level == level


def test_story_fails_on_a_duplicate_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    async def finds_nothing(*_: Any) -> None:
        return None

    monkeypatch.setattr(HelpDeskClient, "find_activity", finds_nothing)

    with pytest.raises(AssertionError, match="Unexpected result"):
        run_and_capture()


def test_story_fails_on_customer_text_in_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    as_it_is = actions.build_audit_payload
    monkeypatch.setattr(
        actions,
        "build_audit_payload",
        lambda facts, *more: {**as_it_is(facts, *more), "text": facts.event.text},
    )

    with pytest.raises(AssertionError, match="needle"):
        run_and_capture()
