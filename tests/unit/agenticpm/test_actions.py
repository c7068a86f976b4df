"""Actions: held, reviewed by people, and done once when they are due; or refused, and nobody was bothered."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from agenticpm.api import action_reviews
from agenticpm.domain.autonomy import COMMENT, MAIL, MOVE
from agenticpm.integrations.resend.mailer import KEY_LIFETIME_S
from agenticpm.model import patterns
from agenticpm.model.entities import Action, ActionType, Integration, Project, table
from agenticpm.model.events import get_now
from agenticpm.model.patterns import ACTION_QUEUE
from agenticpm.workers import actions
from holdfast import restore_in_place
from holdfast.core.errors import ExternalServiceFailed, ExternalServiceRefused, InvalidRequest, NotPending
from holdfast.guarantees import OUTCOME_UNKNOWN, OnceStatus
from tests.unit.agenticpm.loop_play import Play, played

HOLD_S = 30 * 60.0
MAIL_DETAIL: dict[str, Any] = {
    "kind": MAIL,
    "to": ["sponsor@example.com"],
    "subject": "R001 is overdue",
    "text": "Please update its state.",
}
COMMENT_DETAIL: dict[str, Any] = {"kind": COMMENT, "ticket": "MCU-1", "text": "Any news?"}


async def held(play: Play, project: Project | None, detail: dict[str, Any] = MAIL_DETAIL) -> Action:
    """One that waits for half an hour. Each is of a moment of its own."""
    play.clock.advance(1)
    stores = play.stores.for_component("loop")
    type = ActionType.email_sent if detail["kind"] == MAIL else ActionType.jira_update
    id = None if project is None else project.id
    await stores.transact(*actions.hold(stores, id, type, "Ask", detail, hold_s=HOLD_S))
    return (await play.actions(project))[0]


async def now_of(play: Play, project: Project | None, action: Action) -> Action:
    return next(each for each in await play.actions(project) if each.id == action.id)


async def due(play: Play) -> list[str]:
    found = await play.stores.all(ACTION_QUEUE.due(get_now(play.clock), 100))
    return [each.id for each in found]


# --- once, when it is due -----------------------------------------------------------------------------------


@pytest.mark.proves("AP-22")
@pytest.mark.proves("AP-23")
@pytest.mark.proves("AP-X7")
def test_an_action_is_found_when_its_hold_is_over_done_once_and_found_no_more() -> None:
    async def story(play: Play) -> None:
        project = await play.project()
        action = await held(play, project)
        assert action.held_until == action.created_at + timedelta(minutes=30)
        play.clock.advance(HOLD_S - 0.001)
        assert await due(play) == []
        assert await play.execute() == actions.ExecutionReport()
        play.clock.advance(0.001)
        assert await due(play) == [action.id]
        assert (await play.execute()).done == [action.id]
        assert await due(play) == []
        assert await play.execute() == actions.ExecutionReport()
        assert [mail.subject for mail in play.mailer.ledger.values()] == ["R001 is overdue"]

        done = await now_of(play, project, action)
        assert (done.executed, done.executed_at, done.queue) == (True, get_now(play.clock), None)
        assert done.to_item()["TTL"] == int(action.created_at.timestamp()) + 90 * 86400
        (event,) = await play.events(project, "action_taken")
        assert (event.detail or {})["action"] == action.id

    played(story)


@pytest.mark.proves("AP-23")
def test_the_loop_holds_an_action_for_the_documents_half_hour() -> None:
    async def story(play: Play) -> None:
        project = await play.project()
        play.tracker.block("MCU-1")
        await play.cycle()
        (action,) = await play.actions(project)
        assert action.held_until == action.created_at + timedelta(minutes=30)
        play.clock.advance(HOLD_S)
        await play.execute()
        assert [each["ticket"] for each in play.tracker.ledger] == ["MCU-1"]

    played(story)


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
def test_what_was_done_at_the_tracker_without_an_answer_is_looked_up_and_not_repeated(
    detail: dict[str, Any], effect: dict[str, Any]
) -> None:
    async def story(play: Play) -> None:
        project = await play.project()
        action = await held(play, project, detail)
        await action_reviews.approve(play.stores.for_component("api"), project.id, action.id, by="the lead")
        play.tracker.lost = ExternalServiceFailed("no answer", may_be_done=True)
        assert (await play.execute()).later == [action.id]
        play.tracker.lost = None
        play.clock.advance(patterns.LEASE_S + 1)
        assert (await play.execute()).done == [action.id]
        (done,) = play.tracker.ledger
        assert done | effect == done
        assert done["reference"].endswith(action.id)
        assert len(await play.events(project, "action_taken")) == 1

    played(story)


def test_a_mail_without_an_answer_is_asked_again_under_the_same_key() -> None:
    async def story(play: Play) -> None:
        action = await held(play, None)
        play.clock.advance(HOLD_S)
        play.mailer.lost = ExternalServiceFailed("no answer", may_be_done=True)
        assert (await play.execute()).later == [action.id]
        play.mailer.lost = None
        play.clock.advance(KEY_LIFETIME_S / 2)
        assert (await play.execute()).done == [action.id]
        assert len(play.mailer.asked) == 2 and len(play.mailer.ledger) == 1

    played(story)


def test_a_mail_that_may_be_out_is_not_repeated_after_its_key_was_forgotten() -> None:
    async def story(play: Play) -> None:
        project = await play.project()
        action = await held(play, project)
        play.clock.advance(HOLD_S)
        play.mailer.lost = ExternalServiceFailed("no answer", may_be_done=True)
        await play.execute()
        play.mailer.lost = None
        play.clock.advance(KEY_LIFETIME_S)
        assert (await play.execute()).refused == [action.id]
        assert len(play.mailer.asked) == 1
        assert (await now_of(play, project, action)).refused == OUTCOME_UNKNOWN
        (error,) = await play.events(project, "error")
        assert (error.detail or {})["code"] == OUTCOME_UNKNOWN
        assert await due(play) == []

    played(story)


def test_a_mail_that_is_out_is_not_called_undone_because_its_repeat_was_refused() -> None:
    async def story(play: Play) -> None:
        project = await play.project()
        action = await held(play, project)
        play.clock.advance(HOLD_S)
        play.mailer.lost = ExternalServiceFailed("no answer", may_be_done=True)
        await play.execute()
        play.mailer.lost = None
        play.mailer.fails = ExternalServiceRefused("invalid_idempotent_request", "The body is another.")
        play.clock.advance(patterns.LEASE_S + 1)
        assert (await play.execute()).refused == [action.id]
        (error,) = await play.events(project, "error")
        assert "An earlier attempt may have succeeded" in (error.detail or {})["reason"]

        play.mailer.fails = None
        play.clock.advance(KEY_LIFETIME_S)
        asked = len(play.mailer.asked)
        await action_reviews.reopen(play.stores.for_component("api"), project.id, action.id, by="the lead")
        assert (await play.execute()).refused == [action.id]
        assert (await now_of(play, project, action)).refused == OUTCOME_UNKNOWN
        assert len(play.mailer.asked) == asked

    played(story)


@pytest.mark.proves("AP-23")
def test_what_was_done_is_not_done_again_after_the_table_was_restored_to_before_it() -> None:
    async def story(play: Play) -> None:
        project = await play.project()
        mail, comment = await held(play, project), await held(play, project, COMMENT_DETAIL)
        before = play.clock.now()
        play.clock.advance(HOLD_S)
        assert len((await play.execute()).done) == 2
        play.clock.advance(2 * KEY_LIFETIME_S)
        play.mailer.ledger.clear()  # by now the party has forgotten the key
        await restore_in_place(play.stores, play.stores.physical_name(table), before)
        assert set(await due(play)) == {mail.id, comment.id}
        outcome = await play.execute()
        assert (outcome.done, outcome.refused) == ([comment.id], [mail.id])
        assert len(play.tracker.ledger) == 1 and play.mailer.ledger == {}
        (error,) = await play.events(project, "error")
        assert "restored" in (error.detail or {})["reason"]

        await action_reviews.reopen(play.stores.for_component("api"), project.id, mail.id, by="the lead")
        assert (await play.execute()).done == [mail.id]
        assert len(play.mailer.ledger) == 1

    played(story)


# --- what people do -----------------------------------------------------------------------------------------


def test_what_was_edited_goes_out_as_it_was_edited() -> None:
    async def story(play: Play) -> None:
        project = await play.project()
        action = await held(play, project)
        api = play.stores.for_component("api")
        await action_reviews.edit(
            api, project.id, action.id, by="the lead", detail={"subject": "R001, please"}
        )
        play.clock.advance(HOLD_S)
        assert (await play.execute()).done == [action.id]
        (mail,) = play.mailer.ledger.values()
        assert (mail.subject, mail.text) == ("R001, please", "Please update its state.")
        (event,) = await play.events(project, "action_edited")
        assert (event.detail or {})["by"] == "the lead"

    played(story)


@pytest.mark.proves("AP-X7")
def test_what_was_approved_is_done_at_once_and_what_was_cancelled_never() -> None:
    async def story(play: Play) -> None:
        project = await play.project()
        first, second = await held(play, project), await held(play, project, COMMENT_DETAIL)
        api = play.stores.for_component("api")
        await action_reviews.approve(api, project.id, first.id, by="the lead")
        await action_reviews.cancel(api, project.id, second.id, by="the lead", reason="I have asked")
        assert await due(play) == [first.id]
        assert (await play.execute()).done == [first.id]
        play.clock.advance(HOLD_S * 2)
        assert await play.execute() == actions.ExecutionReport()
        assert len(play.mailer.ledger) == 1 and play.tracker.ledger == []
        for ended in (first, second):
            with pytest.raises(NotPending):
                await action_reviews.cancel(api, project.id, ended.id, by="the lead")
        assert (await now_of(play, project, second)).status is OnceStatus.CANCELLED

    played(story)


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
def test_a_mail_that_is_none_is_refused_nobody_is_mailed_and_the_others_are_done(
    nonsense: dict[str, Any],
) -> None:
    async def story(play: Play) -> None:
        project = await play.project()
        broken, good = await held(play, project), await held(play, project)
        api = play.stores.for_component("api")
        with pytest.raises(InvalidRequest):
            await action_reviews.edit(api, project.id, broken.id, by="the lead", detail=nonsense)
        # As if it had come past the door all the same.
        await ACTION_QUEUE.edit(play.stores, broken, by="nobody", detail=MAIL_DETAIL | nonsense)
        play.clock.advance(HOLD_S)
        outcome = await play.execute()
        assert (outcome.refused, outcome.done) == ([broken.id], [good.id])
        assert len(play.mailer.asked) == 1
        assert (await now_of(play, project, broken)).refused == "unsendable"
        (error,) = await play.events(project, "error")
        assert "Invalid mail" in (error.detail or {})["reason"]
        assert await play.execute() == actions.ExecutionReport()

    played(story)


# --- what goes wrong ----------------------------------------------------------------------------------------


def test_what_the_party_refuses_is_told_as_an_error_and_not_asked_again() -> None:
    async def story(play: Play) -> None:
        project = await play.project()
        action = await held(play, project, COMMENT_DETAIL)
        play.clock.advance(HOLD_S)
        play.tracker.fails = ExternalServiceRefused("404", "The issue does not exist.")
        assert (await play.execute()).refused == [action.id]
        play.tracker.fails = None
        play.clock.advance(HOLD_S)
        assert await play.execute() == actions.ExecutionReport()
        assert play.tracker.ledger == []
        refused = await now_of(play, project, action)
        assert (refused.refused, refused.executed, refused.queue) == ("404", False, None)
        (error,) = await play.events(project, "error")
        assert error.detail == {"action": action.id, "code": "404", "reason": "The issue does not exist."}

    played(story)


@pytest.mark.parametrize(
    "failure", [ExternalServiceFailed("down", may_be_done=False), RuntimeError("nobody thought of it")]
)
def test_while_the_party_is_down_it_stays_and_is_done_later(failure: Exception) -> None:
    async def story(play: Play) -> None:
        project = await play.project()
        mail, comment = await held(play, project), await held(play, project, COMMENT_DETAIL)
        play.clock.advance(HOLD_S)
        play.mailer.fails = failure
        outcome = await play.execute()
        assert (outcome.later, outcome.done) == ([mail.id], [comment.id])
        assert await play.events(project, "error") == []
        play.mailer.fails = None
        play.clock.advance(patterns.LEASE_S + 1)
        assert (await play.execute()).done == [mail.id]
        assert len(play.mailer.ledger) == 1

    played(story)


def test_what_waits_for_a_party_that_is_not_configured_hides_nothing_behind_it() -> None:
    async def story(play: Play) -> None:
        project = await play.project()
        del play.parties.there[Integration.resend]
        mails = [(await held(play, project)).id for _ in range(actions.DUE_PAGE + 5)]
        comment = await held(play, project, COMMENT_DETAIL)
        play.clock.advance(HOLD_S)
        outcome = await play.execute()
        assert outcome == actions.ExecutionReport(done=[comment.id], waiting=mails)
        assert await due(play) == mails
        play.parties.there[Integration.resend] = play.mailer
        assert (await play.execute()).done == mails

    played(story)


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
def test_what_the_agent_does_not_know_how_to_do_is_refused_for_good(detail: dict[str, Any]) -> None:
    async def story(play: Play) -> None:
        project = await play.project()
        action = await held(play, project, detail)
        play.clock.advance(HOLD_S)
        assert (await play.execute()).refused == [action.id]
        assert play.tracker.ledger == []
        assert len(await play.events(project, "error")) == 1
        assert await due(play) == []

    played(story)


# --- precedents ---------------------------------------------------------------------------------------------


def test_precedents_are_what_became_of_the_last_ones_of_a_kind() -> None:
    async def story(play: Play) -> None:
        project = await play.project()
        done, stopped = await held(play, project), await held(play, project)
        await held(play, project, COMMENT_DETAIL)
        await action_reviews.approve(play.stores, project.id, done.id, by="the lead")
        await play.execute()
        await action_reviews.cancel(play.stores, project.id, stopped.id, by="the lead")
        found = await actions.count_precedents(play.stores, project.id, ActionType.email_sent, pending=2)
        assert (found.executed, found.cancelled, found.today) == (1, 1, 5)
        play.clock.advance(24 * 3600)
        found = await actions.count_precedents(play.stores, project.id, ActionType.email_sent)
        assert (found.executed, found.cancelled, found.today) == (1, 1, 0)

    played(story)
