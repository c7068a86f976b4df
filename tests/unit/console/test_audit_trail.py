"""The audit of effects: the intent before, the outcome afterwards, and what the audit page makes of both."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from holdfast.console.audit_trail import audit, audit_effect
from holdfast.console.model import AUDIT, AuditPhase
from holdfast.console.users import User
from holdfast.core.errors import NotFound, RetryLater
from tests.unit.console.consoles import ConsoleUnderTest

OTTO = User("otto", frozenset({"operator"}))


class Killed(BaseException):
    """The console dies here."""


async def test_the_intent_is_recorded_before_the_effect_and_the_outcome_after_it(
    site: ConsoleUnderTest,
) -> None:
    async with audit_effect(site.console, OTTO, "redrive", system="pagw", target="q", id="m-1") as effect:
        (before,) = await site.read_audit()
        effect.note(moved=3)

    intent, outcome = await site.read_audit()
    assert intent == before
    assert (intent.phase, intent.result, intent.parsed_payload) == (AuditPhase.INTENT, None, {"id": "m-1"})
    assert (outcome.phase, outcome.parsed_payload) == (AuditPhase.OUTCOME, {"id": "m-1", "moved": 3})
    assert outcome.result is not None and outcome.result.ok
    assert (outcome.user, outcome.action, outcome.system, outcome.target) == ("otto", "redrive", "pagw", "q")


async def test_a_failed_effect_is_recorded_by_the_name_of_its_error(site: ConsoleUnderTest) -> None:
    with pytest.raises(NotFound):
        async with audit_effect(site.console, OTTO, "redrive", target="q"):
            raise NotFound("No message of ada@example.org.")

    outcome = (await site.read_audit())[-1]
    assert outcome.result is not None and not outcome.result.ok
    assert outcome.result.reason == "NotFound"


async def test_the_audit_page_shows_one_row_for_each_effect(site: ConsoleUnderTest) -> None:
    ada = await site.sign_in("ada")
    async with audit_effect(site.console, OTTO, "redrive", target="queue done") as effect:
        effect.note(moved=3)
    with pytest.raises(RetryLater):
        async with audit_effect(site.console, OTTO, "redrive", target="queue failed"):
            raise RetryLater("The store does not answer.")
    page = await ada.read("/admin/audit?action=redrive")

    assert page.count("</tr>") == 3
    assert page.count("queue done") == page.count("queue failed") == 1
    assert "moved: 3" in page and "failed: " in page
    assert "outcome unknown" not in page


async def test_an_effect_whose_console_died_has_an_unknown_outcome(site: ConsoleUnderTest) -> None:
    ada = await site.sign_in("ada")
    with pytest.raises(Killed):
        async with audit_effect(site.console, OTTO, "redrive", target="queue q"):
            raise Killed
    page = await ada.read("/admin/audit?action=redrive")

    assert page.count("</tr>") == 2
    assert "queue q" in page and "outcome unknown" in page


async def test_an_outcome_on_the_page_before_belongs_to_its_intent(site: ConsoleUnderTest) -> None:
    ada = await site.sign_in("ada")
    async with audit_effect(site.console, OTTO, "redrive", target="queue split"):
        pass
    # The newest page has 50 entries: 49 of these, and the outcome.
    for number in range(49):
        await audit(site.console, OTTO, "redrive", target=f"queue {number:02}")
    newest = await ada.read("/admin/audit?action=redrive")
    older = await ada.read(newest.split('href="')[-1].split('"')[0])

    assert "queue split" in newest and "outcome unknown" not in newest
    assert "queue split" not in older and "outcome unknown" not in older


async def test_an_effect_stands_if_its_outcome_cannot_be_recorded(
    site: ConsoleUnderTest, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise RetryLater("The store does not answer.")

    with caplog.at_level(logging.ERROR):
        async with audit_effect(site.console, OTTO, "redrive"):
            monkeypatch.setattr(AUDIT, "record", fail)

    assert [each.phase for each in await site.read_audit()] == [AuditPhase.INTENT]
    assert "was not recorded" in caplog.text
