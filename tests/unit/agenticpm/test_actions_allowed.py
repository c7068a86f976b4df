"""What was held is looked at once more when it is due: whether it may still be done, whether its reason still stands,
whether its party is there, and whether it is too late for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from agenticpm.api import action_reviews
from agenticpm.domain.autonomy import COMMENT, DO_IT, MAIL, MOVE
from agenticpm.domain.tickets import OutgoingMail, Plan, Sprint, Stage
from agenticpm.model import escalations, patterns, projects
from agenticpm.model.entities import Action, ActionType, Integration, Project
from agenticpm.model.events import get_now
from agenticpm.model.patterns import ACTION_QUEUE
from agenticpm.workers import actions
from agenticpm.workers.due_actions import EXPIRES_AFTER, NOT_ALLOWED, REASON_GONE, TOO_LATE
from holdfast.core.errors import ExternalServiceFailed, NotFound
from holdfast.guarantees import OUTCOME_UNKNOWN, OnceStatus
from tests.unit.agenticpm.loop_play import Play, PlayMailer, played

HOLD_S = 30 * 60.0
DAY_S = 86400.0
LAPSES_S = EXPIRES_AFTER.total_seconds()
MAIL_DETAIL: dict[str, Any] = {"kind": MAIL, "to": ["a@example.com"], "subject": "R001", "text": "Please."}

Deed = Callable[[Play, Project], Awaitable[Any]]


async def held(play: Play, project: Project | None, detail: dict[str, Any]) -> Action:
    play.clock.advance(1)
    stores = play.stores.for_component("loop")
    type = ActionType.email_sent if detail["kind"] == MAIL else ActionType.jira_update
    id = None if project is None else project.id
    await stores.transact(*actions.hold(stores, id, type, "Ask", detail, hold_s=HOLD_S))
    return (await play.actions(project))[0]


async def commented(play: Play, **config: Any) -> tuple[Project, Action]:
    """A project with a blocked ticket, and the comment that the loop holds for it."""
    project = await play.project(config=config)
    play.tracker.put("MCU-1")
    await play.cycle()
    play.tracker.block("MCU-1")
    await play.cycle()
    (action,) = await play.actions(project)
    return project, action


async def changed(play: Play, project: Project, *, status: str | None = None, **wanted: Any) -> None:
    api = play.stores.for_component("api")
    for change in (wanted, {"status": status} if status else {}):
        play.clock.advance(1)
        if "status" in change:
            await projects.change_status(api, project.id, change["status"])
        elif change:
            await projects.change(api, project.id, **change)


async def now_of(play: Play, project: Project | None, action: Action) -> Action:
    return next(each for each in await play.actions(project) if each.id == action.id)


# --- whether it may still be done ---------------------------------------------------------------------------


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
def test_what_was_held_is_refused_when_the_project_no_longer_lets_the_agent_do_it(
    wanted: dict[str, Any], says: str
) -> None:
    async def story(play: Play) -> None:
        project, action = await commented(play)
        await changed(play, project, **wanted)
        play.clock.advance(HOLD_S)
        assert await play.execute() == actions.ExecutionReport(refused=[action.id])
        assert play.tracker.ledger == []
        refused = await now_of(play, project, action)
        assert (refused.status, refused.refused, refused.executed) == (OnceStatus.FAILED, NOT_ALLOWED, False)
        (error,) = await play.events(project, "error")
        assert error.severity == "error"
        assert says in (error.detail or {})["reason"]
        assert await play.execute() == actions.ExecutionReport()

    played(story)


@pytest.mark.parametrize("wanted", [{"autonomy_level": "monitoring"}, {"status": "archived"}], ids=str)
def test_a_mail_of_a_project_is_refused_as_well_and_one_of_no_project_goes_out(
    wanted: dict[str, Any],
) -> None:
    async def story(play: Play) -> None:
        project = await play.project()
        own, digest = await held(play, project, MAIL_DETAIL), await held(play, None, MAIL_DETAIL)
        await changed(play, project, **wanted)
        play.clock.advance(HOLD_S)
        assert await play.execute() == actions.ExecutionReport(done=[digest.id], refused=[own.id])
        assert len(play.mailer.asked) == 1

    played(story)


def test_an_approval_passes_the_list_and_neither_the_level_nor_the_status() -> None:
    async def story(play: Play) -> None:
        api = play.stores.for_component("api")
        project, action = await commented(play)
        await changed(play, project, config={"allowed_actions": []})
        await action_reviews.approve(api, project.id, action.id, by="the lead")
        assert (await play.execute()).done == [action.id]
        for wanted in ({"autonomy_level": "artefact"}, {"status": "paused", "autonomy_level": "tactical"}):
            more = await held(play, project, MAIL_DETAIL)
            await action_reviews.approve(api, project.id, more.id, by="the lead")
            await changed(play, project, **wanted)
            assert (await play.execute()).refused == [more.id]
        assert play.mailer.asked == []

    played(story)


def test_an_edit_is_no_approval() -> None:
    async def story(play: Play) -> None:
        project, action = await commented(play)
        await action_reviews.edit(
            play.stores.for_component("api"), project.id, action.id, by="the lead", detail={"text": "Well?"}
        )
        await changed(play, project, config={"allowed_actions": [MAIL]})
        play.clock.advance(HOLD_S)
        assert (await play.execute()).refused == [action.id]

    played(story)


async def said_yes(play: Play) -> tuple[Project, Action]:
    """A comment that the list does not allow and a person does: "Do it"."""
    project = await play.project(config={"allowed_actions": [MAIL]})
    play.tracker.put("MCU-1")
    await play.cycle()
    play.tracker.block("MCU-1")
    await play.cycle()
    (asked,) = await play.escalations(project)
    await escalations.decide(play.stores.for_component("api"), project.id, asked.id, DO_IT, by="the lead")
    (action,) = await play.actions(project)
    return project, action


def test_a_yes_is_a_permission_for_that_one_action() -> None:
    async def story(play: Play) -> None:
        project, action = await said_yes(play)
        other = await held(play, project, {"kind": COMMENT, "ticket": "MCU-1", "text": "Any news?"})
        play.clock.advance(HOLD_S)
        assert await play.execute() == actions.ExecutionReport(done=[action.id], refused=[other.id])
        assert len(play.tracker.ledger) == 1

    played(story)


@pytest.mark.parametrize("wanted", [{"autonomy_level": "monitoring"}, {"status": "archived"}], ids=str)
def test_a_yes_does_nothing_against_the_level_or_the_status(wanted: dict[str, Any]) -> None:
    async def story(play: Play) -> None:
        project, action = await said_yes(play)
        await changed(play, project, **wanted)
        assert await play.execute() == actions.ExecutionReport(refused=[action.id])
        assert play.tracker.ledger == []

    played(story)


@pytest.mark.parametrize("config", [{}, {"allowed_actions": [COMMENT, MAIL]}], ids=str)
def test_a_move_is_done_only_where_a_person_has_approved_it(config: dict[str, Any]) -> None:
    async def story(play: Play) -> None:
        project = await play.project(config=config)
        move = {"kind": MOVE, "ticket": "MCU-1", "status": "Done"}
        first, second = await held(play, project, move), await held(play, project, move)
        await action_reviews.approve(play.stores.for_component("api"), project.id, second.id, by="the lead")
        play.clock.advance(HOLD_S)
        assert await play.execute() == actions.ExecutionReport(done=[second.id], refused=[first.id])

    played(story)


def test_a_comment_that_may_be_there_is_looked_up_though_nothing_may_be_done_any_more() -> None:
    async def story(play: Play) -> None:
        project, action = await commented(play)
        play.clock.advance(HOLD_S)
        play.tracker.lost = ExternalServiceFailed("no answer", may_be_done=True)
        assert (await play.execute()).later == [action.id]
        play.tracker.lost = None
        await changed(play, project, autonomy_level="monitoring")
        play.clock.advance(patterns.LEASE_S + 1)
        assert (await play.execute()).done == [action.id]
        assert len(play.tracker.ledger) == 1

    played(story)


def test_an_action_of_no_project_that_is_no_mail_is_refused() -> None:
    async def story(play: Play) -> None:
        action = await held(play, None, {"kind": COMMENT, "ticket": "MCU-1", "text": "Any news?"})
        play.clock.advance(HOLD_S)
        assert (await play.execute()).refused == [action.id]
        assert (await now_of(play, None, action)).refused == NOT_ALLOWED

    played(story)


# --- whether its reason still stands ------------------------------------------------------------------------


async def unblock(play: Play, _: Project) -> None:
    play.tracker.put("MCU-1", is_blocked=False)


async def finish(play: Play, _: Project) -> None:
    play.tracker.put("MCU-1", stage=Stage.done, status="Done")


@pytest.mark.parametrize("deed", [unblock, finish])
def test_a_comment_about_a_blocked_ticket_is_not_made_when_it_is_not(deed: Deed) -> None:
    async def story(play: Play) -> None:
        project, action = await commented(play)
        await deed(play, project)
        await play.cycle()
        play.clock.advance(HOLD_S)
        assert await play.execute() == actions.ExecutionReport(refused=[action.id])
        assert play.tracker.ledger == []
        assert (await now_of(play, project, action)).refused == REASON_GONE
        (event,) = await play.events(project, "action_cancelled")
        assert (event.severity, (event.detail or {})["action"]) == ("info", action.id)
        assert await play.events(project, "error") == []

        # Who wants it all the same says so.
        await action_reviews.reopen(play.stores.for_component("api"), project.id, action.id, by="the lead")
        assert (await play.execute()).done == [action.id]

    played(story)


def test_a_comment_about_a_stale_ticket_is_not_made_when_somebody_has_worked_on_it() -> None:
    async def story(play: Play) -> None:
        project = await play.project()
        play.tracker.put("MCU-1")
        play.tracker.put("MCU-2")
        await play.cycle()
        play.clock.advance(7 * DAY_S)
        await play.cycle()
        stale = {(each.detail or {})["ticket"]: each.id for each in await play.actions(project)}
        play.tracker.put("MCU-1", assignee="Ada")
        await play.cycle()
        play.clock.advance(HOLD_S)
        assert await play.execute() == actions.ExecutionReport(
            done=[stale["MCU-2"]], refused=[stale["MCU-1"]]
        )

    played(story)


def test_a_comment_about_missing_criteria_is_not_made_when_they_are_there() -> None:
    async def story(play: Play) -> None:
        project = await play.project()
        begun = get_now(play.clock) - timedelta(days=1)
        play.tracker.planned = Plan(sprints=(Sprint(id="1", name="Sprint 1", starts_at=begun),))
        for key in ("MCU-1", "MCU-2"):
            play.tracker.put(key, sprint="Sprint 1", has_criteria=False)
        await play.cycle()
        lacking = {(each.detail or {})["ticket"]: each.id for each in await play.actions(project)}
        play.tracker.put("MCU-1", has_criteria=True)
        await play.cycle()
        play.clock.advance(HOLD_S)
        assert await play.execute() == actions.ExecutionReport(
            done=[lacking["MCU-2"]], refused=[lacking["MCU-1"]]
        )

    played(story)


def test_a_comment_on_a_ticket_that_the_tracker_no_longer_has_is_refused() -> None:
    async def story(play: Play) -> None:
        project, action = await commented(play)
        play.clock.advance(HOLD_S + patterns.LEASE_S + 1)  # so late that it is looked up first
        play.tracker.fails = NotFound("There is no such issue.")
        assert (await play.execute()).refused == [action.id]
        assert (await now_of(play, project, action)).refused == "not_found"

    played(story)


# --- while its party is not there ---------------------------------------------------------------------------


def test_what_waits_for_a_party_is_told_once_and_done_when_it_is_there() -> None:
    async def story(play: Play) -> None:
        project, action = await commented(play)
        tracker = play.parties.there.pop(Integration.jira)
        play.clock.advance(HOLD_S)
        for _ in range(3):
            assert await play.execute() == actions.ExecutionReport(waiting=[action.id])
            play.clock.advance(actions.LOG_INTERVAL_S)
            actions._LOGGED.clear()  # as in a process that was started anew
        (event,) = await play.events(project, "error")
        assert event.severity == "warning"
        assert (event.detail or {}) == {"action": action.id, "reason": "jira is not configured."}
        assert "Comment on MCU-1" in event.summary
        assert (await now_of(play, project, action)).refused is None
        play.parties.there[Integration.jira] = tracker
        assert (await play.execute()).done == [action.id]

    played(story)


def test_that_a_mail_of_no_project_waits_is_told_in_the_feed_of_all() -> None:
    async def story(play: Play) -> None:
        action = await held(play, None, MAIL_DETAIL)
        del play.parties.there[Integration.resend]
        play.clock.advance(HOLD_S)
        assert (await play.execute()).waiting == [action.id]
        feed = await play.stores.all(patterns.recent_events())
        assert [each.summary for each in feed if each.event_type == "error"] == [
            "Waiting: Mail a@example.com: R001"
        ]

    played(story)


@pytest.mark.parametrize("is_mail", [True, False])
def test_what_could_not_be_done_for_a_week_lapses(is_mail: bool) -> None:
    async def story(play: Play) -> None:
        project, comment = await commented(play)
        action = await held(play, project, MAIL_DETAIL) if is_mail else comment
        if is_mail:
            await action_reviews.cancel(
                play.stores.for_component("api"), project.id, comment.id, by="the lead"
            )
        party = Integration.resend if is_mail else Integration.jira
        there = play.parties.there.pop(party)
        assert action.held_until is not None
        play.clock.advance(action.held_until.timestamp() - play.clock.now() + LAPSES_S)
        assert await play.execute() == actions.ExecutionReport(waiting=[action.id])
        play.clock.advance(1)
        assert await play.execute() == actions.ExecutionReport(refused=[action.id])
        lapsed = await now_of(play, project, action)
        assert (lapsed.refused, lapsed.executed, lapsed.asked_since) == (TOO_LATE, False, None)
        assert (await play.events(project, "error"))[-1].severity == "error"
        play.parties.there[party] = there
        assert await play.execute() == actions.ExecutionReport()
        assert (play.tracker.ledger, play.mailer.asked) == ([], [])

    played(story)


@pytest.mark.parametrize("is_mail", [True, False])
def test_it_lapses_as_well_where_the_executor_was_down_for_a_week(is_mail: bool) -> None:
    async def story(play: Play) -> None:
        project = await play.project()
        comment = {"kind": COMMENT, "ticket": "MCU-1", "text": "Any news?"}
        action = await held(play, project, MAIL_DETAIL if is_mail else comment)
        play.clock.advance(HOLD_S + LAPSES_S + 1)
        assert await play.execute() == actions.ExecutionReport(refused=[action.id])
        assert (await now_of(play, project, action)).refused == TOO_LATE
        assert (play.tracker.ledger, play.mailer.asked) == ([], [])

    played(story)


def test_of_a_mail_that_may_be_out_nobody_says_that_it_lapsed() -> None:
    async def story(play: Play) -> None:
        project = await play.project()
        action = await held(play, project, MAIL_DETAIL)
        play.clock.advance(HOLD_S)
        play.mailer.lost = ExternalServiceFailed("no answer", may_be_done=True)
        await play.execute()
        play.mailer.lost = None
        play.clock.advance(LAPSES_S + 1)
        assert (await play.execute()).refused == [action.id]
        assert (await now_of(play, project, action)).refused == OUTCOME_UNKNOWN

    played(story)


class HungMailer(PlayMailer):
    """Gives no answer until somebody else was served."""

    def __init__(self, served: asyncio.Event) -> None:
        super().__init__()
        self._served = served

    async def send(self, mail: OutgoingMail, key: str) -> dict[str, Any]:
        await self._served.wait()
        return await super().send(mail, key)


def test_a_party_that_hangs_keeps_no_other_waiting() -> None:
    async def story(play: Play) -> None:
        served = asyncio.Event()
        play.parties.there[Integration.resend] = HungMailer(served)
        project = await play.project()
        mail = await held(play, project, MAIL_DETAIL)
        comment = await held(play, project, {"kind": COMMENT, "ticket": "MCU-1", "text": "Any news?"})
        comments = play.tracker.comment

        async def comment_then_serve(ticket: str, text: str, reference: str) -> dict[str, Any]:
            served.set()
            return await comments(ticket, text, reference)

        play.tracker.comment = comment_then_serve  # type: ignore[method-assign]
        play.clock.advance(HOLD_S)
        outcome = await asyncio.wait_for(play.execute(), 10)
        assert sorted(outcome.done) == sorted([mail.id, comment.id])

    played(story)


def test_what_is_left_when_a_party_has_had_its_time_is_done_at_the_next_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(play: Play) -> None:
        project = await play.project()
        mails = [(await held(play, project, MAIL_DETAIL)).id for _ in range(3)]
        play.clock.advance(HOLD_S)
        monkeypatch.setattr(actions, "SERVICE_TIME_S", -1.0)
        assert await play.execute() == actions.ExecutionReport(later=mails)
        assert play.mailer.asked == []
        monkeypatch.undo()
        assert await play.execute() == actions.ExecutionReport(done=mails)

    played(story)


def test_of_one_party_the_old_lapse_and_the_young_wait() -> None:
    async def story(play: Play) -> None:
        project = await play.project()
        old = await held(play, project, MAIL_DETAIL)
        play.clock.advance(LAPSES_S)
        young = await held(play, project, MAIL_DETAIL)
        del play.parties.there[Integration.resend]
        play.clock.advance(HOLD_S)
        assert await play.execute() == actions.ExecutionReport(refused=[old.id], waiting=[young.id])

    played(story)


# --- what is told of it -------------------------------------------------------------------------------------


def test_the_event_tells_what_went_out_and_not_what_somebody_called_it() -> None:
    async def story(play: Play) -> None:
        project = await play.project()
        mail = await held(play, project, MAIL_DETAIL)
        await ACTION_QUEUE.edit(play.stores, mail, by="somebody", description="Harmless")
        play.clock.advance(HOLD_S)
        await play.execute()
        (event,) = await play.events(project, "action_taken")
        assert event.summary == "Done: Mail a@example.com: R001"

    played(story)


def test_the_event_tells_of_an_edit_that_came_after_the_look_for_what_is_due() -> None:
    async def story(play: Play) -> None:
        project = await play.project()
        mail = await held(play, project, MAIL_DETAIL)
        await ACTION_QUEUE.edit(play.stores, mail, by="somebody", detail=MAIL_DETAIL | {"subject": "R002"})
        play.clock.advance(HOLD_S)
        await actions.execute(play.stores.for_component("executor"), play.parties, mail)
        (event,) = await play.events(project, "action_taken")
        assert event.summary == "Done: Mail a@example.com: R002"

    played(story)


def test_what_was_cancelled_while_it_was_looked_at_is_nobodys_refusal() -> None:
    async def story(play: Play) -> None:
        project = await play.project()
        mail = await held(play, project, MAIL_DETAIL)
        play.clock.advance(HOLD_S + timedelta(minutes=1).total_seconds())
        found = play.parties.get_client

        async def cancelled_first(integration: Integration) -> Any:
            await action_reviews.cancel(play.stores.for_component("api"), project.id, mail.id, by="the lead")
            return await found(integration)

        play.parties.get_client = cancelled_first  # type: ignore[method-assign]
        assert await play.execute() == actions.ExecutionReport()
        assert play.mailer.asked == []

    played(story)
