"""Tests of the checks of a due action on the loop harness: permission, reason, availability and age."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from agenticpm.api import action_reviews
from agenticpm.domain.autonomy import COMMENT, DO_IT, MAIL, MOVE
from agenticpm.domain.tickets import OutgoingMail
from agenticpm.model import patterns, projects
from agenticpm.model.entities import Action, Integration, Project
from agenticpm.model.patterns import ACTION_QUEUE
from agenticpm.workers import actions, escalations
from agenticpm.workers.due_actions import EXPIRES_AFTER, NOT_ALLOWED, REASON_GONE, TOO_LATE
from holdfast.core.errors import ExternalServiceFailed, NotFound
from holdfast.guarantees import OUTCOME_UNKNOWN, OnceStatus
from tests.systems.agenticpm.unit.workers.loop_harness import HOLD_S, FakeMailer, Harness

DAY_S = 86400.0
EXPIRES_S = EXPIRES_AFTER.total_seconds()
MAIL_DETAIL: dict[str, Any] = {"kind": MAIL, "to": ["a@example.com"], "subject": "R001", "text": "Please."}


async def hold_comment(harness: Harness, **config: Any) -> tuple[Project, Action]:
    """Create a project with a blocked ticket and the comment that the loop holds for it."""
    project = await harness.create_project(config=config)
    harness.tracker.put("MCU-1")
    await harness.run_cycle()
    harness.tracker.block("MCU-1")
    await harness.run_cycle()
    (action,) = await harness.actions(project)
    return project, action


async def change_project(
    harness: Harness, project: Project, *, status: str | None = None, **wanted: Any
) -> None:
    """Change the project's fields and then its status, with the rights of `api`."""
    api = harness.stores.for_component("api")
    for change in (wanted, {"status": status} if status else {}):
        harness.clock.advance(1)
        if "status" in change:
            await projects.change_status(api, project.id, change["status"])
        elif change:
            await projects.change(api, project.id, **change)


# --- permission ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ({"autonomy_level": "monitoring"}, "level is monitoring"),
        ({"autonomy_level": "artefact"}, "level is artefact"),
        ({"status": "archived"}, "project is archived"),
        ({"status": "paused"}, "project is paused"),
        ({"config": {"allowed_actions": [MAIL]}}, "not in the project's allowed_actions"),
        ({"config": {"allowed_actions": []}}, "not in the project's allowed_actions"),
    ],
    ids=str,
)
async def test_refuses_a_held_action_that_the_project_no_longer_allows(
    harness: Harness, wanted: dict[str, Any], says: str
) -> None:
    project, action = await hold_comment(harness)
    await change_project(harness, project, **wanted)
    harness.clock.advance(HOLD_S)
    assert await harness.execute() == actions.ExecutionReport(refused=[action.id])
    assert harness.tracker.ledger == []
    refused = await harness.reload(action)
    assert (refused.status, refused.refused, refused.executed) == (OnceStatus.FAILED, NOT_ALLOWED, False)
    (error,) = await harness.events(project, "error")
    assert error.severity == "error"
    assert says in (error.detail or {})["reason"]
    assert await harness.execute() == actions.ExecutionReport()


@pytest.mark.parametrize("wanted", [{"autonomy_level": "monitoring"}, {"status": "archived"}], ids=str)
async def test_refuses_a_project_mail_too_and_sends_a_mail_without_a_project(
    harness: Harness, wanted: dict[str, Any]
) -> None:
    project = await harness.create_project()
    own, digest = (
        await harness.hold_action(project, MAIL_DETAIL),
        await harness.hold_action(None, MAIL_DETAIL),
    )
    await change_project(harness, project, **wanted)
    harness.clock.advance(HOLD_S)
    assert await harness.execute() == actions.ExecutionReport(done=[digest.id], refused=[own.id])
    assert len(harness.mailer.keys) == 1


async def test_approval_overrides_the_list_but_not_the_level_or_the_status(harness: Harness) -> None:
    api = harness.stores.for_component("api")
    project, action = await hold_comment(harness)
    await change_project(harness, project, config={"allowed_actions": []})
    await action_reviews.approve(api, project.id, action.id, by="the lead")
    assert (await harness.execute()).done == [action.id]
    for wanted in ({"autonomy_level": "artefact"}, {"status": "paused", "autonomy_level": "tactical"}):
        more = await harness.hold_action(project, MAIL_DETAIL)
        await action_reviews.approve(api, project.id, more.id, by="the lead")
        await change_project(harness, project, **wanted)
        assert (await harness.execute()).refused == [more.id]
    assert harness.mailer.keys == []


async def test_edit_does_not_approve_an_action(harness: Harness) -> None:
    project, action = await hold_comment(harness)
    await action_reviews.edit(
        harness.stores.for_component("api"), project.id, action.id, by="the lead", detail={"text": "Well?"}
    )
    await change_project(harness, project, config={"allowed_actions": [MAIL]})
    harness.clock.advance(HOLD_S)
    assert (await harness.execute()).refused == [action.id]


async def hold_allowed_comment(harness: Harness) -> tuple[Project, Action]:
    """Hold a comment that the list does not allow but a person does, with "Do it"."""
    project = await harness.create_project(config={"allowed_actions": [MAIL]})
    harness.tracker.put("MCU-1")
    await harness.run_cycle()
    harness.tracker.block("MCU-1")
    await harness.run_cycle()
    (question,) = await harness.escalations(project)
    await escalations.decide(
        harness.stores.for_component("api"), project.id, question.id, DO_IT, by="the lead"
    )
    (action,) = await harness.actions(project)
    return project, action


async def test_do_it_allows_that_one_action(harness: Harness) -> None:
    project, action = await hold_allowed_comment(harness)
    other = await harness.hold_action(project, {"kind": COMMENT, "ticket": "MCU-1", "text": "Any news?"})
    harness.clock.advance(HOLD_S)
    assert await harness.execute() == actions.ExecutionReport(done=[action.id], refused=[other.id])
    assert len(harness.tracker.ledger) == 1


@pytest.mark.parametrize("wanted", [{"autonomy_level": "monitoring"}, {"status": "archived"}], ids=str)
async def test_do_it_does_not_override_the_level_or_the_status(
    harness: Harness, wanted: dict[str, Any]
) -> None:
    project, action = await hold_allowed_comment(harness)
    await change_project(harness, project, **wanted)
    assert await harness.execute() == actions.ExecutionReport(refused=[action.id])
    assert harness.tracker.ledger == []


@pytest.mark.parametrize("config", [{}, {"allowed_actions": [COMMENT, MAIL]}], ids=str)
async def test_executes_a_move_only_after_a_person_approved_it(
    harness: Harness, config: dict[str, Any]
) -> None:
    project = await harness.create_project(config=config)
    move = {"kind": MOVE, "ticket": "MCU-1", "status": "Done"}
    first, second = await harness.hold_action(project, move), await harness.hold_action(project, move)
    await action_reviews.approve(harness.stores.for_component("api"), project.id, second.id, by="the lead")
    harness.clock.advance(HOLD_S)
    assert await harness.execute() == actions.ExecutionReport(done=[second.id], refused=[first.id])


async def test_looks_up_a_possible_comment_even_when_actions_are_no_longer_allowed(harness: Harness) -> None:
    project, action = await hold_comment(harness)
    harness.clock.advance(HOLD_S)
    harness.tracker.fails_after = ExternalServiceFailed("no answer", may_be_done=True)
    assert (await harness.execute()).later == [action.id]
    harness.tracker.fails_after = None
    await change_project(harness, project, autonomy_level="monitoring")
    harness.clock.advance(patterns.LEASE_S + 1)
    assert (await harness.execute()).done == [action.id]
    assert len(harness.tracker.ledger) == 1


async def test_refuses_an_action_without_a_project_unless_it_is_a_mail(harness: Harness) -> None:
    action = await harness.hold_action(None, {"kind": COMMENT, "ticket": "MCU-1", "text": "Any news?"})
    harness.clock.advance(HOLD_S)
    assert (await harness.execute()).refused == [action.id]
    assert (await harness.reload(action)).refused == NOT_ALLOWED


# --- reason -------------------------------------------------------------------------------------------------


async def test_skips_a_comment_about_a_ticket_that_is_no_longer_blocked(harness: Harness) -> None:
    project, action = await hold_comment(harness)
    harness.tracker.put("MCU-1", is_blocked=False)
    await harness.run_cycle()
    harness.clock.advance(HOLD_S)
    assert await harness.execute() == actions.ExecutionReport(refused=[action.id])
    assert harness.tracker.ledger == []
    assert (await harness.reload(action)).refused == REASON_GONE
    (event,) = await harness.events(project, "action_cancelled")
    assert (event.severity, (event.detail or {})["action"]) == ("info", action.id)
    assert await harness.events(project, "error") == []

    # To get it anyway, a person approves it.
    await action_reviews.reopen(harness.stores.for_component("api"), project.id, action.id, by="the lead")
    assert (await harness.execute()).done == [action.id]


async def test_skips_a_comment_about_a_stale_ticket_that_was_updated(harness: Harness) -> None:
    project = await harness.create_project()
    harness.tracker.put("MCU-1")
    harness.tracker.put("MCU-2")
    await harness.run_cycle()
    harness.clock.advance(7 * DAY_S)
    await harness.run_cycle()
    stale = {(each.detail or {})["ticket"]: each.id for each in await harness.actions(project)}
    harness.tracker.put("MCU-1", assignee="Ada")
    await harness.run_cycle()
    harness.clock.advance(HOLD_S)
    assert await harness.execute() == actions.ExecutionReport(done=[stale["MCU-2"]], refused=[stale["MCU-1"]])


async def test_refuses_a_comment_on_a_deleted_ticket(harness: Harness) -> None:
    _, action = await hold_comment(harness)
    harness.clock.advance(HOLD_S + patterns.LEASE_S + 1)  # so late that it is looked up first
    harness.tracker.fails = NotFound("There is no such issue.")
    assert (await harness.execute()).refused == [action.id]
    assert (await harness.reload(action)).refused == "not_found"


# --- unavailable integration --------------------------------------------------------------------------------


async def test_reports_a_wait_for_an_integration_once_and_executes_when_it_is_back(harness: Harness) -> None:
    project, action = await hold_comment(harness)
    tracker = harness.clients.configured.pop(Integration.jira)
    harness.clock.advance(HOLD_S)
    for _ in range(3):
        assert await harness.execute() == actions.ExecutionReport(waiting=[action.id])
        harness.clock.advance(actions.LOG_INTERVAL_S)
        actions._LOGGED.clear()  # as in a restarted process
    (event,) = await harness.events(project, "error")
    assert event.severity == "warning"
    assert (event.detail or {}) == {"action": action.id, "reason": "jira is not configured."}
    assert "Comment on MCU-1" in event.summary
    assert (await harness.reload(action)).refused is None
    harness.clients.configured[Integration.jira] = tracker
    assert (await harness.execute()).done == [action.id]


async def test_global_feed_reports_a_waiting_mail_without_a_project(harness: Harness) -> None:
    action = await harness.hold_action(None, MAIL_DETAIL)
    del harness.clients.configured[Integration.resend]
    harness.clock.advance(HOLD_S)
    assert (await harness.execute()).waiting == [action.id]
    feed = await harness.stores.all(patterns.recent_events())
    assert [each.summary for each in feed if each.event_type == "error"] == [
        "Waiting: Mail a@example.com: R001"
    ]


@pytest.mark.parametrize("is_mail", [True, False])
async def test_action_expires_after_a_week(harness: Harness, is_mail: bool) -> None:
    project, comment = await hold_comment(harness)
    action = await harness.hold_action(project, MAIL_DETAIL) if is_mail else comment
    if is_mail:
        await action_reviews.cancel(
            harness.stores.for_component("api"), project.id, comment.id, by="the lead"
        )
    integration = Integration.resend if is_mail else Integration.jira
    there = harness.clients.configured.pop(integration)
    assert action.held_until is not None
    harness.clock.advance(action.held_until.timestamp() - harness.clock.now() + EXPIRES_S)
    assert await harness.execute() == actions.ExecutionReport(waiting=[action.id])
    harness.clock.advance(1)
    assert await harness.execute() == actions.ExecutionReport(refused=[action.id])
    lapsed = await harness.reload(action)
    assert (lapsed.refused, lapsed.executed, lapsed.asked_since) == (TOO_LATE, False, None)
    assert (await harness.events(project, "error"))[-1].severity == "error"
    harness.clients.configured[integration] = there
    assert await harness.execute() == actions.ExecutionReport()
    assert (harness.tracker.ledger, harness.mailer.keys) == ([], [])


@pytest.mark.parametrize("is_mail", [True, False])
async def test_action_expires_when_the_executor_was_down_for_a_week(harness: Harness, is_mail: bool) -> None:
    project = await harness.create_project()
    comment = {"kind": COMMENT, "ticket": "MCU-1", "text": "Any news?"}
    action = await harness.hold_action(project, MAIL_DETAIL if is_mail else comment)
    harness.clock.advance(HOLD_S + EXPIRES_S + 1)
    assert await harness.execute() == actions.ExecutionReport(refused=[action.id])
    assert (await harness.reload(action)).refused == TOO_LATE
    assert (harness.tracker.ledger, harness.mailer.keys) == ([], [])


async def test_possibly_sent_mail_is_not_reported_as_expired(harness: Harness) -> None:
    """It is refused with an unknown outcome."""
    project = await harness.create_project()
    action = await harness.hold_action(project, MAIL_DETAIL)
    harness.clock.advance(HOLD_S)
    harness.mailer.fails_after = ExternalServiceFailed("no answer", may_be_done=True)
    await harness.execute()
    harness.mailer.fails_after = None
    harness.clock.advance(EXPIRES_S + 1)
    assert (await harness.execute()).refused == [action.id]
    assert (await harness.reload(action)).refused == OUTCOME_UNKNOWN


class HungMailer(FakeMailer):
    """A mailer that does not answer until another request was served."""

    def __init__(self, served: asyncio.Event) -> None:
        super().__init__()
        self._served = served

    async def send(self, mail: OutgoingMail, key: str) -> dict[str, Any]:
        await self._served.wait()
        return await super().send(mail, key)


async def test_hanging_integration_does_not_delay_the_others(harness: Harness) -> None:
    served = asyncio.Event()
    harness.clients.configured[Integration.resend] = HungMailer(served)
    project = await harness.create_project()
    mail = await harness.hold_action(project, MAIL_DETAIL)
    comment = await harness.hold_action(project, {"kind": COMMENT, "ticket": "MCU-1", "text": "Any news?"})
    comments = harness.tracker.comment

    async def comment_then_serve(ticket: str, text: str, reference: str) -> dict[str, Any]:
        served.set()
        return await comments(ticket, text, reference)

    harness.tracker.comment = comment_then_serve  # type: ignore[method-assign]
    harness.clock.advance(HOLD_S)
    outcome = await asyncio.wait_for(harness.execute(), 10)
    assert sorted(outcome.done) == sorted([mail.id, comment.id])


async def test_executes_the_rest_on_the_next_run_when_an_integration_used_up_its_time(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = await harness.create_project()
    mails = [(await harness.hold_action(project, MAIL_DETAIL)).id for _ in range(3)]
    harness.clock.advance(HOLD_S)
    monkeypatch.setattr(actions, "SERVICE_TIME_S", -1.0)
    assert await harness.execute() == actions.ExecutionReport(later=mails)
    assert harness.mailer.keys == []
    monkeypatch.undo()
    assert await harness.execute() == actions.ExecutionReport(done=mails)


async def test_old_actions_expire_and_recent_ones_wait_for_the_same_integration(harness: Harness) -> None:
    project = await harness.create_project()
    old = await harness.hold_action(project, MAIL_DETAIL)
    harness.clock.advance(EXPIRES_S)
    young = await harness.hold_action(project, MAIL_DETAIL)
    del harness.clients.configured[Integration.resend]
    harness.clock.advance(HOLD_S)
    assert await harness.execute() == actions.ExecutionReport(refused=[old.id], waiting=[young.id])


# --- events -------------------------------------------------------------------------------------------------


async def test_event_reports_what_was_sent_and_not_its_description(harness: Harness) -> None:
    project = await harness.create_project()
    mail = await harness.hold_action(project, MAIL_DETAIL)
    await ACTION_QUEUE.edit(harness.stores, mail, by="somebody", description="Harmless")
    harness.clock.advance(HOLD_S)
    await harness.execute()
    (event,) = await harness.events(project, "action_taken")
    assert event.summary == "Done: Mail a@example.com: R001"


async def test_event_reports_an_edit_made_after_the_due_actions_were_listed(harness: Harness) -> None:
    project = await harness.create_project()
    mail = await harness.hold_action(project, MAIL_DETAIL)
    await ACTION_QUEUE.edit(harness.stores, mail, by="somebody", detail=MAIL_DETAIL | {"subject": "R002"})
    harness.clock.advance(HOLD_S)
    await actions.execute(harness.stores.for_component("executor"), harness.clients, mail)
    (event,) = await harness.events(project, "action_taken")
    assert event.summary == "Done: Mail a@example.com: R002"


async def test_action_cancelled_during_the_check_is_not_a_refusal(harness: Harness) -> None:
    project = await harness.create_project()
    mail = await harness.hold_action(project, MAIL_DETAIL)
    harness.clock.advance(HOLD_S + timedelta(minutes=1).total_seconds())
    found = harness.clients.get_client

    async def cancelled_first(integration: Integration) -> Any:
        await action_reviews.cancel(harness.stores.for_component("api"), project.id, mail.id, by="the lead")
        return await found(integration)

    harness.clients.get_client = cancelled_first  # type: ignore[method-assign]
    assert await harness.execute() == actions.ExecutionReport()
    assert harness.mailer.keys == []
