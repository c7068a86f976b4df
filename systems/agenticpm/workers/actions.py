"""Outgoing actions: build the writes that hold them, and execute each one once when it is due.

A mail is sent under the action's key, which the mail service accepts as an idempotency key for one day. A
comment or a transition in a tracker is looked up by the same key before it is repeated. The outcome is
written together with its event.

A due action is checked again (`due_actions.py`); one that is no longer allowed is refused without calling the
external service. If its integration is not configured the action waits, and one event reports that.

An action is bound to the site it was held for (`party` in its detail): if the integration points to another
site when the action is due, the action is refused permanently. New credentials for the same site make no
difference.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from agenticpm.domain.autonomy import (
    COMMENT,
    DO_IT,
    MAIL,
    MOVE,
    PRECEDENTS,
    Precedents,
    Proposal,
    build_signal_detail,
    describe_action,
    parse_mail,
)
from agenticpm.domain.tickets import OutgoingMail, Tracker
from agenticpm.integrations.clients import IntegrationClients
from agenticpm.integrations.resend.mailer import KEY_LIFETIME_S
from agenticpm.model import patterns
from agenticpm.model.entities import (
    ACTION_DAYS,
    Action,
    ActionType,
    Confidence,
    Escalation,
    EventType,
    Integration,
    Project,
    ProjectId,
    Severity,
    Source,
    get_scope,
)
from agenticpm.model.events import build_event_writes, get_now, new_ulid
from agenticpm.model.patterns import ACTION_QUEUE
from agenticpm.workers.due_actions import DueAction, is_too_late, load_due_action
from holdfast import Stores, Write
from holdfast.core.errors import ExternalServiceRefused, HoldfastError, NotFound, NotPending, error_label
from holdfast.guarantees import OnceStatus

# Timeout of one call to an external service.
ACT_TIMEOUT_S: Final = 20.0
DUE_PAGE: Final = 25
# Time that one run spends on one external service; the remaining actions wait for the next run.
SERVICE_TIME_S: Final = 20.0
# The reason why an action is not done yet is logged when it changes, and at this interval.
LOG_INTERVAL_S: Final = 3600.0
# Key in an action's detail: the site that the action is for.
SITE_KEY: Final = "party"
OTHER_SITE: Final = "another_party"
_ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

log = logging.getLogger(__name__)


@dataclass
class ExecutionReport:
    """Ids of the due actions by result.

    `done` was executed; `later` failed or ran out of time and is retried; `refused` is refused permanently;
    `waiting` needs an integration that is not configured or is switched off.
    """

    done: list[str] = field(default_factory=list)
    later: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)


# --- holding ------------------------------------------------------------------------------------------------


def build_hold(
    stores: Stores,
    project_id: ProjectId | None,
    action_type: ActionType,
    description: str,
    detail: Mapping[str, Any],
    *,
    hold_s: float,
    confidence: Confidence | None = None,
    because: Mapping[str, Any] | None = None,
    site: str | None = None,
) -> list[Write[Any]]:
    """Build the writes that hold a new action for `hold_s` seconds, with its event.

    The caller commits them. `because` is the signal that caused the action. `site` is the site that the
    action is for (`IntegrationClients.get_site`). Without it, the action goes to the first site that is
    configured.
    """
    at = get_now(stores.clock)
    bound = {} if site is None else {SITE_KEY: site}
    action = Action(
        scope=get_scope(project_id),
        id=new_ulid(stores.clock),
        project_id=project_id,
        action_type=str(action_type),
        description=description,
        detail=dict(detail) | bound | ({"because": dict(because)} if because else {}),
        confidence=confidence,
        payload_sha256="",  # the action queue sets it
        created_at=at,
        expires_at=at + timedelta(days=ACTION_DAYS),
    )
    event = build_event_writes(
        stores,
        project_id,
        EventType.action_held,
        f"Held for {hold_s / 60:g} minutes: {description}",
        {"action": action.id, "action_type": str(action_type)},
        at=at,
    )
    return [ACTION_QUEUE.delay(stores, action, for_s=hold_s), *event]


def build_proposal_hold(
    stores: Stores,
    project_id: ProjectId,
    proposal: Proposal,
    confidence: Confidence,
    *,
    hold_s: float,
    site: str | None = None,
) -> list[Write[Any]]:
    """Build the writes that hold the action of a proposal, with its event."""
    return build_hold(
        stores,
        project_id,
        proposal.action_type,
        proposal.description,
        proposal.detail,
        hold_s=hold_s,
        confidence=confidence,
        because=build_signal_detail(proposal.signal),
        site=site,
    )


def get_integration(kind: str, source: Source) -> Integration:
    """Return the integration that performs an action of this kind: Resend for a mail, else the tracker."""
    return Integration.resend if kind == MAIL else Integration(source)


def build_approved_hold(stores: Stores, escalation: Escalation) -> list[Write[Any]]:
    """Build the writes that hold the action which an escalation's decision approved: it is due at once.

    Return an empty list if the escalation did not ask for permission or the decision is not "Do it". "Do it"
    permits this one action regardless of the allow-list, but never against the project's level or status:
    `autonomy.find_refusal` decides, and is called again at execution.
    """
    proposal = escalation.context.get("proposal")
    if escalation.user_decision != DO_IT or not isinstance(proposal, Mapping):
        return []
    because = {name: value for name, value in escalation.context.items() if name != "proposal"}
    return build_hold(
        stores,
        escalation.project_id,
        ActionType(proposal["action_type"]),
        str(proposal["description"]),
        proposal["detail"],
        hold_s=0,
        confidence=Confidence.model_validate(proposal["confidence"]),
        because=because | {"escalation": escalation.id},
        site=proposal.get("party"),
    )


async def count_precedents(
    stores: Stores, project_id: ProjectId, action_type: ActionType, *, pending: int = 0
) -> Precedents:
    """Count the results of a project's last 20 actions of one type, and all its actions of the last day.

    Only its last 40 actions are read. `pending` is the number of actions in the caller's uncommitted
    transaction.
    """
    page = await stores.run(patterns.project_actions(project_id, PRECEDENTS * 2))
    day_ago = get_now(stores.clock) - timedelta(days=1)
    alike = [each for each in page.items if each.action_type == action_type][:PRECEDENTS]
    return Precedents(
        executed=sum(each.executed for each in alike),
        cancelled=sum(each.status is OnceStatus.CANCELLED for each in alike),
        today=pending + sum(each.created_at > day_ago for each in page.items),
    )


# --- doing --------------------------------------------------------------------------------------------------


async def execute_due(stores: Stores, clients: IntegrationClients) -> ExecutionReport:
    """Execute all due actions: those of one service in order, several services concurrently.

    A service that hangs delays no other.
    """
    outcome = ExecutionReport()
    by_service: dict[str, list[Action]] = {}
    # Read all pages: actions that must wait would otherwise hide the actions behind them.
    for action in await ACTION_QUEUE.find_due(stores, DUE_PAGE):
        is_mail = (action.detail or {}).get("kind") == MAIL
        by_service.setdefault(MAIL if is_mail else action.action_type, []).append(action)
    async with asyncio.TaskGroup() as at_once:
        for each in by_service.values():
            at_once.create_task(_execute_all(stores, clients, each, outcome))
    _forget_finished(outcome)
    return outcome


async def _execute_all(
    stores: Stores, clients: IntegrationClients, actions: Sequence[Action], outcome: ExecutionReport
) -> None:
    """Execute the actions of one service, oldest first, for at most `SERVICE_TIME_S` seconds.

    The oldest come first so that expired actions come before one that waits. A service that is not configured
    is not looked up again in this run.
    """
    time = asyncio.get_running_loop().time
    until, absent = time() + SERVICE_TIME_S, None
    for action in actions:
        if time() > until:
            outcome.later.append(action.id)
        elif absent is not None:
            await _record_wait(stores, action, outcome, absent)
        else:
            absent = await _execute_one(stores, clients, action, outcome)


async def _execute_one(
    stores: Stores, clients: IntegrationClients, action: Action, outcome: ExecutionReport
) -> NotFound | None:
    """Execute one action and add its id to the report.

    Return the NotFound error if its integration is missing.

    A transient failure leaves the action in the queue.
    """
    try:
        await execute(stores, clients, action)
        outcome.done.append(action.id)
    except NotFound as absent:
        await _record_wait(stores, action, outcome, absent)
        return absent
    except ExternalServiceRefused as error:
        outcome.refused.append(action.id)
        log.warning("Action %s was refused: %s", action.id, error)
    except NotPending as error:
        log.info("Action %s is no longer due: %s", action.id, error)
    except Exception as error:
        outcome.later.append(action.id)
        if _should_log(stores, action, error_label(error)):
            is_ours = isinstance(error, HoldfastError)
            log.warning("Action %s failed and will be retried: %s", action.id, error, exc_info=not is_ours)
    return None


async def _record_wait(stores: Stores, action: Action, outcome: ExecutionReport, cause: NotFound) -> None:
    """Add a waiting action to the report. If it was not logged recently, log it and record one event."""
    outcome.waiting.append(action.id)
    if not _should_log(stores, action, "waits"):
        return
    log.warning("Action %s is waiting: %s", action.id, cause)
    due_at = action.held_until or action.created_at
    event = build_event_writes(
        stores,
        action.project_id,
        EventType.error,
        f"Waiting: {describe_action(action.detail or {})}",
        {"action": action.id, "reason": cause.message},
        severity=Severity.warning,
        at=due_at,
        id=_make_wait_event_id(due_at, action),
    )
    try:
        await stores.transact(*event)
    except HoldfastError as error:
        log.debug("The waiting event of action %s exists already or is retried: %s", action.id, error)


def _make_wait_event_id(at: datetime, action: Action) -> str:
    """Return an event id that depends only on the time and the action.

    Several processes that report the same wait then write one event.
    """
    milliseconds = round(at.timestamp() * 1000)
    time = "".join(_ALPHABET[(milliseconds >> shift) & 31] for shift in range(45, -1, -5))
    return time + action.id[:9:-1]


# Reason and time of the last log line of each unfinished action in this process.
_LOGGED: Final[dict[str, tuple[str, float]]] = {}


def _should_log(stores: Stores, action: Action, reason: str) -> bool:
    """Return whether to log the reason: it is new, or the log interval has passed.

    Reasons are compared by their kind, because their texts may count seconds.
    """
    now = stores.clock.now()
    before, at = _LOGGED.get(action.id, ("", 0.0))
    if before == reason and now - at < LOG_INTERVAL_S:
        return False
    _LOGGED[action.id] = (reason, now)
    return True


def _forget_finished(outcome: ExecutionReport) -> None:
    """Forget the log lines of actions that neither wait nor are retried."""
    for id in _LOGGED.keys() - {*outcome.later, *outcome.waiting}:
        del _LOGGED[id]


async def execute(stores: Stores, clients: IntegrationClients, action: Action) -> Action:
    """Execute one action once, or find that it was executed, and return its record.

    A permanent refusal is recorded as an event and raised as ExternalServiceRefused. Raise NotFound if its
    integration is not configured, until the action has been due for too long.
    """
    due = await load_due_action(stores, action)
    is_mail = (action.detail or {}).get("kind") == MAIL
    try:
        if is_mail and not (is_too_late(stores, action) and action.asked_since is None):
            how = await _prepare_mail(clients, due)
        elif due.project is not None and not is_mail:
            how = await _prepare_tracker_call(clients, due.project, due)
        else:
            how = {"act": due.refuse, "takes_key": True}
    except NotFound:
        if not is_too_late(stores, action):
            raise
        how = {"act": due.refuse, "takes_key": True}
    done = await ACTION_QUEUE.execute(
        stores,
        action,
        act_s=ACT_TIMEOUT_S,
        writes=due.build_done_event,
        refused=due.build_refusal_event,
        **how,
    )
    return done.record


# --- calls to external services -----------------------------------------------------------------------------


async def _prepare_mail(clients: IntegrationClients, due: DueAction) -> dict[str, Any]:
    """Return the arguments of `ACTION_QUEUE.execute` that send the mail. Raise NotFound without a mailer."""
    mailer = await clients.get_mailer()
    leads_to = clients.get_open_site(Integration.resend)

    async def send(fresh: Action, key: str) -> dict[str, Any]:
        due.check(fresh)
        refuse_other_site(fresh, leads_to)
        return await mailer.send(build_mail(fresh), key)

    return {"act": send, "takes_key": True, "key_kept_s": KEY_LIFETIME_S}


async def _prepare_tracker_call(
    clients: IntegrationClients, project: Project, due: DueAction
) -> dict[str, Any]:
    """Return the arguments of `ACTION_QUEUE.execute` that call the tracker. Raise NotFound without one."""
    tracker = await clients.get_tracker(project.source)
    at = _TrackerAction(due, tracker, clients.get_open_site(Integration(project.source)))
    return {"act": at.act, "look_up": at.look_up}


def is_for_other_site(action: Action, current_site: str | None) -> bool:
    """Return whether the action was held for another site than the current one, if both are known."""
    held_for = (action.detail or {}).get(SITE_KEY)
    return held_for is not None and current_site is not None and held_for != current_site


def refuse_other_site(action: Action, current_site: str | None) -> None:
    """Raise ExternalServiceRefused if the action was held for another site."""
    if is_for_other_site(action, current_site):
        before = " An earlier attempt may have succeeded there." if action.attempts > 1 else ""
        raise ExternalServiceRefused(
            OTHER_SITE,
            f"The action was held for {(action.detail or {})[SITE_KEY]}, but the integration now points to "
            f"{current_site}: nothing was sent.{before} If it is still needed, the agent proposes it again.",
        )


def build_mail(action: Action) -> OutgoingMail:
    """Return the mail of an action.

    Raise ExternalServiceRefused if it is invalid, for example after an edit.
    """
    try:
        return parse_mail(action.detail or {})
    except ValueError as error:
        raise ExternalServiceRefused("unsendable", f"Invalid mail: {error}") from error


@dataclass(frozen=True)
class _TrackerAction:
    """A comment or a transition in a tracker, stored there under the action's key as its reference."""

    due: DueAction
    tracker: Tracker
    current_site: str | None

    async def act(self, action: Action, key: str) -> dict[str, Any]:
        """Check the action again and perform it.

        Raise ExternalServiceRefused if it may not or cannot be done.
        """
        self.due.check(action)
        refuse_other_site(action, self.current_site)
        try:
            return await self._perform(action, key)
        except NotFound as error:
            raise ExternalServiceRefused("not_found", error.message) from error

    async def _perform(self, action: Action, key: str) -> dict[str, Any]:
        """Comment or move, by the kind in the detail."""
        detail = action.detail or {}
        kind, ticket = detail.get("kind"), detail.get("ticket")
        if not isinstance(ticket, str) or not ticket:
            raise ExternalServiceRefused("incomplete", "The action has no ticket.")
        if kind == COMMENT and isinstance(detail.get("text"), str):
            return await self.tracker.comment(ticket, detail["text"], key)
        if kind == MOVE and isinstance(detail.get("status"), str):
            return await self.tracker.move(ticket, detail["status"], key)
        raise ExternalServiceRefused("unknown", f"Unknown action kind {kind!r}, or its detail is incomplete.")

    async def look_up(self, action: Action, key: str) -> dict[str, Any] | None:
        """Return the outcome of an earlier attempt, or None."""
        if is_for_other_site(action, self.current_site):
            return None  # another site cannot know the outcome; `act` refuses the action
        self.due.action = action
        detail = action.detail or {}
        try:
            if detail.get("kind") == MOVE:
                return await self.tracker.find_move(str(detail.get("ticket")), key)
            return await self.tracker.find_comment(str(detail.get("ticket")), key)
        except NotFound:
            return None  # the ticket and its comments are gone; `act` raises for it
