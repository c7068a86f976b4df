"""Tests of actions on the loop harness: held, reviewed by people, executed once when due, or refused."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from agenticpm.api import action_reviews
from agenticpm.domain.autonomy import COMMENT, MAIL, MOVE
from agenticpm.integrations.resend.mailer import KEY_LIFETIME_S
from agenticpm.model import patterns
from agenticpm.model.entities import ActionType, Integration, table
from agenticpm.model.events import get_now
from agenticpm.model.patterns import ACTION_QUEUE
from agenticpm.workers import actions
from holdfast.core.errors import ExternalServiceFailed, ExternalServiceRefused, InvalidRequest, NotPending
from holdfast.guarantees import OUTCOME_UNKNOWN, OnceStatus
from holdfast.runtime import restore_in_place
from tests.systems.agenticpm.unit.workers.loop_harness import HOLD_S, Harness

MAIL_DETAIL: dict[str, Any] = {
    "kind": MAIL,
    "to": ["sponsor@example.com"],
    "subject": "R001 is overdue",
    "text": "Please update its state.",
}
COMMENT_DETAIL: dict[str, Any] = {"kind": COMMENT, "ticket": "MCU-1", "text": "Any news?"}


async def list_due(harness: Harness) -> list[str]:
    """Return the ids of the due actions of all projects."""
    found = await harness.stores.all(ACTION_QUEUE.pattern_set.due(get_now(harness.clock), 100))
    return [each.id for each in found]


# --- execution ----------------------------------------------------------------------------------------------


@pytest.mark.proves("AP-22", "AP-23", "AP-X7")
async def test_executes_a_held_action_once_when_its_hold_ends(harness: Harness) -> None:
    project = await harness.create_project()
    action = await harness.hold_action(project, MAIL_DETAIL)
    assert action.held_until == action.created_at + timedelta(minutes=30)
    harness.clock.advance(HOLD_S - 0.001)
    assert await list_due(harness) == []
    assert await harness.execute() == actions.ExecutionReport()
    harness.clock.advance(0.001)
    assert await list_due(harness) == [action.id]
    assert (await harness.execute()).done == [action.id]
    assert await list_due(harness) == []
    assert await harness.execute() == actions.ExecutionReport()
    assert [mail.subject for mail in harness.mailer.ledger.values()] == ["R001 is overdue"]

    done = await harness.reload(action)
    assert (done.executed, done.executed_at, done.queue) == (True, get_now(harness.clock), None)
    assert done.to_item()["TTL"] == int(action.created_at.timestamp()) + 90 * 86400
    (event,) = await harness.events(project, "action_taken")
    assert (event.detail or {})["action"] == action.id


@pytest.mark.parametrize(
    ("detail", "effect"),
    [
        (COMMENT_DETAIL, {"what": "comment", "ticket": "MCU-1", "text": "Any news?"}),
        (
            {"kind": MOVE, "ticket": "MCU-1", "status": "Done"},
            {"what": "move", "ticket": "MCU-1", "status": "Done"},
        ),
    ],
)
async def test_looks_up_a_tracker_effect_without_an_answer_and_does_not_repeat_it(
    harness: Harness, detail: dict[str, Any], effect: dict[str, Any]
) -> None:
    project = await harness.create_project()
    action = await harness.hold_action(project, detail)
    await action_reviews.approve(harness.stores.for_component("api"), project.id, action.id, by="the lead")
    harness.tracker.fails_after = ExternalServiceFailed("no answer", may_be_done=True)
    assert (await harness.execute()).later == [action.id]
    harness.tracker.fails_after = None
    harness.clock.advance(patterns.LEASE_S + 1)
    assert (await harness.execute()).done == [action.id]
    (done,) = harness.tracker.ledger
    assert done | effect == done
    assert done["reference"].endswith(action.id)
    assert len(await harness.events(project, "action_taken")) == 1


async def test_retries_a_mail_without_an_answer_under_the_same_key(harness: Harness) -> None:
    action = await harness.hold_action(None, MAIL_DETAIL)
    harness.clock.advance(HOLD_S)
    harness.mailer.fails_after = ExternalServiceFailed("no answer", may_be_done=True)
    assert (await harness.execute()).later == [action.id]
    harness.mailer.fails_after = None
    harness.clock.advance(KEY_LIFETIME_S / 2)
    assert (await harness.execute()).done == [action.id]
    assert len(harness.mailer.keys) == 2 and len(harness.mailer.ledger) == 1


async def test_does_not_repeat_a_possibly_sent_mail_after_its_key_expired(harness: Harness) -> None:
    project = await harness.create_project()
    action = await harness.hold_action(project, MAIL_DETAIL)
    harness.clock.advance(HOLD_S)
    harness.mailer.fails_after = ExternalServiceFailed("no answer", may_be_done=True)
    await harness.execute()
    harness.mailer.fails_after = None
    harness.clock.advance(KEY_LIFETIME_S)
    assert (await harness.execute()).refused == [action.id]
    assert len(harness.mailer.keys) == 1
    assert (await harness.reload(action)).refused == OUTCOME_UNKNOWN
    (error,) = await harness.events(project, "error")
    assert (error.detail or {})["code"] == OUTCOME_UNKNOWN
    assert await list_due(harness) == []


async def test_possibly_sent_mail_is_not_sent_again_after_a_refused_retry(harness: Harness) -> None:
    """A person reopens it after its key has expired: its outcome is unknown."""
    project = await harness.create_project()
    action = await harness.hold_action(project, MAIL_DETAIL)
    harness.clock.advance(HOLD_S)
    harness.mailer.fails_after = ExternalServiceFailed("no answer", may_be_done=True)
    await harness.execute()
    harness.mailer.fails_after = None
    harness.mailer.fails = ExternalServiceRefused("invalid_idempotent_request", "The body is another.")
    harness.clock.advance(patterns.LEASE_S + 1)
    assert (await harness.execute()).refused == [action.id]
    (error,) = await harness.events(project, "error")
    assert "An earlier attempt may have succeeded" in (error.detail or {})["reason"]

    harness.mailer.fails = None
    harness.clock.advance(KEY_LIFETIME_S)
    attempts = len(harness.mailer.keys)
    await action_reviews.reopen(harness.stores.for_component("api"), project.id, action.id, by="the lead")
    assert (await harness.execute()).refused == [action.id]
    assert (await harness.reload(action)).refused == OUTCOME_UNKNOWN
    assert len(harness.mailer.keys) == attempts


@pytest.mark.proves("AP-23")
async def test_does_not_repeat_an_action_after_the_table_is_restored(harness: Harness) -> None:
    """The comment is found in the tracker; the mail is refused until a person reopens it."""
    project = await harness.create_project()
    mail, comment = (
        await harness.hold_action(project, MAIL_DETAIL),
        await harness.hold_action(project, COMMENT_DETAIL),
    )
    before = harness.clock.now()
    harness.clock.advance(HOLD_S)
    assert len((await harness.execute()).done) == 2
    harness.clock.advance(2 * KEY_LIFETIME_S)
    harness.mailer.ledger.clear()  # the mailer has forgotten the key by now
    await restore_in_place(harness.stores, harness.stores.physical_name(table), before)
    assert set(await list_due(harness)) == {mail.id, comment.id}
    outcome = await harness.execute()
    assert (outcome.done, outcome.refused) == ([comment.id], [mail.id])
    assert len(harness.tracker.ledger) == 1 and harness.mailer.ledger == {}
    (error,) = await harness.events(project, "error")
    assert "restored" in (error.detail or {})["reason"]

    await action_reviews.reopen(harness.stores.for_component("api"), project.id, mail.id, by="the lead")
    assert (await harness.execute()).done == [mail.id]
    assert len(harness.mailer.ledger) == 1


# --- reviews ------------------------------------------------------------------------------------------------


async def test_executes_an_edited_action_as_edited(harness: Harness) -> None:
    project = await harness.create_project()
    action = await harness.hold_action(project, MAIL_DETAIL)
    api = harness.stores.for_component("api")
    await action_reviews.edit(api, project.id, action.id, by="the lead", detail={"subject": "R001, please"})
    harness.clock.advance(HOLD_S)
    assert (await harness.execute()).done == [action.id]
    (mail,) = harness.mailer.ledger.values()
    assert (mail.subject, mail.text) == ("R001, please", "Please update its state.")
    (event,) = await harness.events(project, "action_edited")
    assert (event.detail or {})["by"] == "the lead"


@pytest.mark.proves("AP-X7")
async def test_executes_approved_actions_at_once_and_cancelled_ones_never(harness: Harness) -> None:
    project = await harness.create_project()
    first, second = (
        await harness.hold_action(project, MAIL_DETAIL),
        await harness.hold_action(project, COMMENT_DETAIL),
    )
    api = harness.stores.for_component("api")
    await action_reviews.approve(api, project.id, first.id, by="the lead")
    await action_reviews.cancel(api, project.id, second.id, by="the lead", reason="I have asked")
    assert await list_due(harness) == [first.id]
    assert (await harness.execute()).done == [first.id]
    harness.clock.advance(HOLD_S * 2)
    assert await harness.execute() == actions.ExecutionReport()
    assert len(harness.mailer.ledger) == 1 and harness.tracker.ledger == []
    for ended in (first, second):
        with pytest.raises(NotPending):
            await action_reviews.cancel(api, project.id, ended.id, by="the lead")
    assert (await harness.reload(second)).status is OnceStatus.CANCELLED


@pytest.mark.parametrize(
    "nonsense",
    [
        {"to": "sponsor@example.com"},
        {"to": "@@@"},
        {"to": 5},
        {"to": None},
        {"to": []},
        {"to": ["nobody"]},
        {"to": [{"address": "a@example.com"}]},
        {"subject": ""},
        {"subject": ["a"]},
        {"text": None},
    ],
    ids=str,
)
async def test_refuses_an_invalid_mail_and_executes_the_others(
    harness: Harness, nonsense: dict[str, Any]
) -> None:
    project = await harness.create_project()
    broken, good = (
        await harness.hold_action(project, MAIL_DETAIL),
        await harness.hold_action(project, MAIL_DETAIL),
    )
    api = harness.stores.for_component("api")
    with pytest.raises(InvalidRequest):
        await action_reviews.edit(api, project.id, broken.id, by="the lead", detail=nonsense)
    # Bypass the check that every review passes.
    changes = {"detail": MAIL_DETAIL | nonsense, "revision": broken.revision + 1}
    await harness.stores.run(ACTION_QUEUE.pattern_set.review(broken.model_copy(update=changes), broken))
    harness.clock.advance(HOLD_S)
    outcome = await harness.execute()
    assert (outcome.refused, outcome.done) == ([broken.id], [good.id])
    assert len(harness.mailer.keys) == 1
    assert (await harness.reload(broken)).refused == "unsendable"
    (error,) = await harness.events(project, "error")
    assert "Invalid mail" in (error.detail or {})["reason"]
    assert await harness.execute() == actions.ExecutionReport()


# --- failures and precedents --------------------------------------------------------------------------------


async def test_records_a_permanent_refusal_as_an_error_and_does_not_retry(harness: Harness) -> None:
    project = await harness.create_project()
    action = await harness.hold_action(project, COMMENT_DETAIL)
    harness.clock.advance(HOLD_S)
    harness.tracker.fails = ExternalServiceRefused("404", "The issue does not exist.")
    assert (await harness.execute()).refused == [action.id]
    harness.tracker.fails = None
    harness.clock.advance(HOLD_S)
    assert await harness.execute() == actions.ExecutionReport()
    assert harness.tracker.ledger == []
    refused = await harness.reload(action)
    assert (refused.refused, refused.executed, refused.queue) == ("404", False, None)
    (error,) = await harness.events(project, "error")
    assert error.detail == {"action": action.id, "code": "404", "reason": "The issue does not exist."}


@pytest.mark.parametrize(
    "failure", [ExternalServiceFailed("down", may_be_done=False), RuntimeError("nobody thought of it")]
)
async def test_executes_the_action_later_when_the_external_service_is_down(
    harness: Harness, failure: Exception
) -> None:
    project = await harness.create_project()
    mail, comment = (
        await harness.hold_action(project, MAIL_DETAIL),
        await harness.hold_action(project, COMMENT_DETAIL),
    )
    harness.clock.advance(HOLD_S)
    harness.mailer.fails = failure
    outcome = await harness.execute()
    assert (outcome.later, outcome.done) == ([mail.id], [comment.id])
    assert await harness.events(project, "error") == []
    harness.mailer.fails = None
    harness.clock.advance(patterns.LEASE_S + 1)
    assert (await harness.execute()).done == [mail.id]
    assert len(harness.mailer.ledger) == 1


async def test_unconfigured_integration_does_not_block_other_actions(harness: Harness) -> None:
    project = await harness.create_project()
    del harness.clients.configured[Integration.resend]
    mails = [(await harness.hold_action(project, MAIL_DETAIL)).id for _ in range(actions.DUE_PAGE + 5)]
    comment = await harness.hold_action(project, COMMENT_DETAIL)
    harness.clock.advance(HOLD_S)
    outcome = await harness.execute()
    assert outcome == actions.ExecutionReport(done=[comment.id], waiting=mails)
    assert await list_due(harness) == mails
    harness.clients.configured[Integration.resend] = harness.mailer
    assert (await harness.execute()).done == mails


@pytest.mark.parametrize(
    "detail",
    [
        {"kind": "delete", "ticket": "MCU-1"},
        {"kind": COMMENT, "text": "Any news?"},
        {"kind": COMMENT, "ticket": "MCU-1", "text": 5},
        {"kind": MOVE, "ticket": "MCU-1"},
    ],
    ids=str,
)
async def test_refuses_an_unknown_or_incomplete_action_permanently(
    harness: Harness, detail: dict[str, Any]
) -> None:
    project = await harness.create_project()
    action = await harness.hold_action(project, detail)
    harness.clock.advance(HOLD_S)
    assert (await harness.execute()).refused == [action.id]
    assert harness.tracker.ledger == []
    assert len(await harness.events(project, "error")) == 1
    assert await list_due(harness) == []


async def test_precedents_are_the_last_outcomes_of_the_same_kind(harness: Harness) -> None:
    """`today` counts all actions of the last day, and those of the caller's transaction."""
    project = await harness.create_project()
    done, stopped = (
        await harness.hold_action(project, MAIL_DETAIL),
        await harness.hold_action(project, MAIL_DETAIL),
    )
    await harness.hold_action(project, COMMENT_DETAIL)
    await action_reviews.approve(harness.stores, project.id, done.id, by="the lead")
    await harness.execute()
    await action_reviews.cancel(harness.stores, project.id, stopped.id, by="the lead")
    found = await actions.count_precedents(harness.stores, project.id, ActionType.email_sent, pending=2)
    assert (found.executed, found.cancelled, found.today) == (1, 1, 5)
    harness.clock.advance(24 * 3600)
    found = await actions.count_precedents(harness.stores, project.id, ActionType.email_sent)
    assert (found.executed, found.cancelled, found.today) == (1, 1, 0)
