"""Actions: held where they go outward, and done once when they are due.

A mail goes out under the action's key, which the party takes as an idempotency key for a day. A comment or a move at a
tracker is looked up by the same key before it is repeated. What came of it is written with its event.

When it is due it is looked at once more (`due.py`), and where it may not be done any more nobody is asked. Where its party
is not configured it waits, and that is told once.

An action is bound to the site it was held for (`party` in its detail): where the integration leads elsewhere when it is
due, it is refused for good. Other credentials for the same site make no difference.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from agenticpm import patterns
from agenticpm.autonomy import (
    COMMENT,
    DO_IT,
    MAIL,
    MOVE,
    PRECEDENTS,
    Precedents,
    Proposal,
    described,
    sendable,
    told,
)
from agenticpm.connectors.resend import KEY_KEPT_S
from agenticpm.due import Due, due_of, is_late
from agenticpm.events import moment, recorded, ulid
from agenticpm.model import (
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
    scope_of,
)
from agenticpm.parties import Parties
from agenticpm.patterns import HOLD
from agenticpm.tickets import OutgoingMail, Tracker
from holdfast import Stores, Write
from holdfast.errors import HoldfastError, NotFound, NotHeld, PartyRefused, error_label
from holdfast.guarantees import OnceStatus

# How long a party has to act.
ACT_S: Final = 20.0
DUE_PAGE: Final = 25
# How long one look stays with one party: what is left is done at the next.
PARTY_S: Final = 20.0
# Why an action is not done yet is logged when it is another reason than before, and once in so many seconds.
LOGGED_EVERY_S: Final = 3600.0
# In an action's detail: the site that it is for.
PARTY: Final = "party"
ANOTHER_PARTY: Final = "another_party"
_ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

log = logging.getLogger(__name__)


@dataclass
class Executed:
    """What became of the actions that were due: done; to be tried again later, for it failed or there was no time;
    refused for good; or waiting for a party that is not configured, or switched off."""

    done: list[str] = field(default_factory=list)
    later: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)


# --- holding -----------------------------------------------------------------------------------------------------


def held(
    stores: Stores,
    project_id: ProjectId | None,
    action_type: ActionType,
    description: str,
    detail: Mapping[str, Any],
    *,
    hold_s: float,
    confidence: Confidence | None = None,
    because: Mapping[str, Any] | None = None,
    party: str | None = None,
) -> list[Write[Any]]:
    """The writes of a new action that waits, with its event; for a transaction with what it follows from.

    `party` is the site that it is for (`Parties.site`). Without one, it goes to the first that is configured.
    """
    at = moment(stores.clock)
    bound = {} if party is None else {PARTY: party}
    action = Action(
        scope=scope_of(project_id),
        id=ulid(stores.clock),
        project_id=project_id,
        action_type=str(action_type),
        description=description,
        detail=dict(detail) | bound | ({"because": dict(because)} if because else {}),
        confidence=confidence,
        payload_sha256="",  # the hold queue writes it
        created_at=at,
        expires_at=at + timedelta(days=ACTION_DAYS),
    )
    event = recorded(
        stores,
        project_id,
        EventType.action_held,
        f"Held for {hold_s / 60:g} minutes: {description}",
        {"action": action.id, "action_type": str(action_type)},
        at=at,
    )
    return [HOLD.held(stores, action, for_s=hold_s), *event]


def held_proposal(
    stores: Stores,
    project_id: ProjectId,
    proposal: Proposal,
    confidence: Confidence,
    *,
    hold_s: float,
    party: str | None = None,
) -> list[Write[Any]]:
    return held(
        stores,
        project_id,
        proposal.action_type,
        proposal.description,
        proposal.detail,
        hold_s=hold_s,
        confidence=confidence,
        because=told(proposal.signal),
        party=party,
    )


def integration_of(kind: str, source: Source) -> Integration:
    """The party that does it."""
    return Integration.resend if kind == MAIL else Integration(source)


def approved(stores: Stores, escalation: Escalation) -> list[Write[Any]]:
    """The writes of an action that a person has let the agent do: it is due at once. None where it was no such question.

    "Do it" is a permission for this one action, whatever the allow-list says, and for nothing against the project's level
    or status: `autonomy.refusal_of` tells who decides, and is asked again when it is done.
    """
    proposal = escalation.context.get("proposal")
    if escalation.user_decision != DO_IT or not isinstance(proposal, Mapping):
        return []
    because = {name: value for name, value in escalation.context.items() if name != "proposal"}
    return held(
        stores,
        escalation.project_id,
        ActionType(proposal["action_type"]),
        str(proposal["description"]),
        proposal["detail"],
        hold_s=0,
        confidence=Confidence.model_validate(proposal["confidence"]),
        because=because | {"escalation": escalation.id},
        party=proposal.get("party"),
    )


async def precedents(
    stores: Stores, project_id: ProjectId, action_type: ActionType, *, begun: int = 0
) -> Precedents:
    """Of the newest actions of a project: what became of those of a type, and how many of all are of the last day.

    `begun` are those that are on their way into the table.
    """
    page = await stores.run(patterns.project_actions(project_id, PRECEDENTS * 2))
    day_ago = moment(stores.clock) - timedelta(days=1)
    alike = [each for each in page.items if each.action_type == action_type][:PRECEDENTS]
    return Precedents(
        executed=sum(each.executed for each in alike),
        cancelled=sum(each.status is OnceStatus.CANCELLED for each in alike),
        today=begun + sum(each.created_at > day_ago for each in page.items),
    )


# --- doing -------------------------------------------------------------------------------------------------------


async def execute_due(stores: Stores, parties: Parties) -> Executed:
    """Does what is due: of one party one after the other, of several at once. So one that hangs keeps no other waiting."""
    outcome = Executed()
    by_party: dict[str, list[Action]] = {}
    # All of them, and not one page: those that cannot be done for now must not hide what comes after them.
    for action in await stores.all(HOLD.due(moment(stores.clock), DUE_PAGE)):
        is_mail = (action.detail or {}).get("kind") == MAIL
        by_party.setdefault(MAIL if is_mail else action.action_type, []).append(action)
    async with asyncio.TaskGroup() as at_once:
        for each in by_party.values():
            at_once.create_task(_execute_all(stores, parties, each, outcome))
    _forget(outcome)
    return outcome


async def _execute_all(
    stores: Stores, parties: Parties, of_party: Sequence[Action], outcome: Executed
) -> None:
    """Those of one party, oldest first: so those that lapse come before one that waits. A party that is not there is not
    asked for again at this look."""
    time = asyncio.get_running_loop().time
    until, absent = time() + PARTY_S, None
    for action in of_party:
        if time() > until:
            outcome.later.append(action.id)
        elif absent is not None:
            await _wait(stores, action, outcome, absent)
        else:
            absent = await _execute_one(stores, parties, action, outcome)


async def _execute_one(
    stores: Stores, parties: Parties, action: Action, outcome: Executed
) -> NotFound | None:
    """What fails for now stays. Gives why its party is not there, where it is not."""
    try:
        await execute(stores, parties, action)
        outcome.done.append(action.id)
    except NotFound as absent:
        await _wait(stores, action, outcome, absent)
        return absent
    except PartyRefused as error:
        outcome.refused.append(action.id)
        log.warning("the action %s was refused: %s", action.id, error)
    except NotHeld as error:
        log.info("the action %s is not due any more: %s", action.id, error)
    except Exception as error:
        outcome.later.append(action.id)
        if _is_news(stores, action, error_label(error)):
            is_ours = isinstance(error, HoldfastError)
            log.warning("the action %s is not done yet: %s", action.id, error, exc_info=not is_ours)
    return None


async def _wait(stores: Stores, action: Action, outcome: Executed, absent: NotFound) -> None:
    outcome.waiting.append(action.id)
    if not _is_news(stores, action, "waits"):
        return
    log.warning("the action %s waits: %s", action.id, absent)
    due_at = action.held_until or action.created_at
    event = recorded(
        stores,
        action.project_id,
        EventType.error,
        f"Waits: {described(action.detail or {})}",
        {"action": action.id, "reason": absent.message},
        severity=Severity.warning,
        at=due_at,
        id=_id_at(due_at, action),
    )
    try:
        await stores.transact(*event)
    except HoldfastError as error:
        log.debug("that the action %s waits was told before, or is told later: %s", action.id, error)


def _id_at(at: datetime, action: Action) -> str:
    """An id that is always the same for an action and a time: so whoever tells that it waits tells it once."""
    milliseconds = round(at.timestamp() * 1000)
    time = "".join(_ALPHABET[(milliseconds >> shift) & 31] for shift in range(45, -1, -5))
    return time + action.id[:9:-1]


# What this process has logged of actions that are due and not done: the reason, and when.
_LOGGED: Final[dict[str, tuple[str, float]]] = {}


def _is_news(stores: Stores, action: Action, reason: str) -> bool:
    """By the kind of the reason: its text may count seconds."""
    now = stores.clock.now()
    before, at = _LOGGED.get(action.id, ("", 0.0))
    if before == reason and now - at < LOGGED_EVERY_S:
        return False
    _LOGGED[action.id] = (reason, now)
    return True


def _forget(outcome: Executed) -> None:
    for id in _LOGGED.keys() - {*outcome.later, *outcome.waiting}:
        del _LOGGED[id]


async def execute(stores: Stores, parties: Parties, action: Action) -> Action:
    """Does one, once; or finds that it was done. What is refused for good is told as an event.

    Raises NotFound where its party is not configured, until it has been due for too long.
    """
    due = await due_of(stores, action)
    is_mail = (action.detail or {}).get("kind") == MAIL
    try:
        if is_mail and not (is_late(stores, action) and action.asked_since is None):
            how = await _by_mail(parties, due)
        elif due.project is not None and not is_mail:
            how = await _at_tracker(parties, due.project, due)
        else:
            how = {"act": due.refuse, "takes_key": True}
    except NotFound:
        if not is_late(stores, action):
            raise
        how = {"act": due.refuse, "takes_key": True}
    done = await HOLD.execute(stores, action, act_s=ACT_S, writes=due.done, refused=due.refused, **how)
    return done.record


# --- at the party ------------------------------------------------------------------------------------------------


async def _by_mail(parties: Parties, due: Due) -> dict[str, Any]:
    mailer = await parties.mailer()
    leads_to = parties.site_open(Integration.resend)

    async def send(fresh: Action, key: str) -> dict[str, Any]:
        due.look(fresh)
        refuse_elsewhere(fresh, leads_to)
        return await mailer.send(mail_of(fresh), key)

    return {"act": send, "takes_key": True, "key_kept_s": KEY_KEPT_S}


async def _at_tracker(parties: Parties, project: Project, due: Due) -> dict[str, Any]:
    tracker = await parties.tracker(project.source)
    at = _AtTracker(due, tracker, parties.site_open(Integration(project.source)))
    return {"act": at.act, "look_up": at.look_up}


def is_elsewhere(action: Action, leads_to: str | None) -> bool:
    held_for = (action.detail or {}).get(PARTY)
    return held_for is not None and leads_to is not None and held_for != leads_to


def refuse_elsewhere(action: Action, leads_to: str | None) -> None:
    if is_elsewhere(action, leads_to):
        before = " An attempt before may have been done there." if action.attempts > 1 else ""
        raise PartyRefused(
            ANOTHER_PARTY,
            f"It was held for {(action.detail or {})[PARTY]}, and the integration leads to {leads_to} now: nothing was "
            f"sent.{before} Where it still matters, the agent proposes it anew.",
        )


def mail_of(action: Action) -> OutgoingMail:
    """The mail that an action is of. One that a person has edited into nonsense is refused, and nobody is mailed."""
    try:
        return sendable(action.detail or {})
    except ValueError as error:
        raise PartyRefused("unsendable", f"This is no mail that could be sent: {error}") from error


@dataclass(frozen=True)
class _AtTracker:
    """A comment, or a move. Under which reference it is known there: the action's key."""

    due: Due
    tracker: Tracker
    leads_to: str | None

    async def act(self, fresh: Action, key: str) -> dict[str, Any]:
        self.due.look(fresh)
        refuse_elsewhere(fresh, self.leads_to)
        try:
            return await self._asked(fresh, key)
        except NotFound as error:
            raise PartyRefused("not_found", error.message) from error

    async def _asked(self, fresh: Action, key: str) -> dict[str, Any]:
        detail = fresh.detail or {}
        kind, ticket = detail.get("kind"), detail.get("ticket")
        if not isinstance(ticket, str) or not ticket:
            raise PartyRefused("incomplete", "The action names no ticket.")
        if kind == COMMENT and isinstance(detail.get("text"), str):
            return await self.tracker.comment(ticket, detail["text"], key)
        if kind == MOVE and isinstance(detail.get("status"), str):
            return await self.tracker.move(ticket, detail["status"], key)
        raise PartyRefused(
            "unknown", f"The agent does not know how to do a {kind!r}, or lacks what it needs for it."
        )

    async def look_up(self, fresh: Action, key: str) -> dict[str, Any] | None:
        if is_elsewhere(fresh, self.leads_to):
            return None  # what another site tells of it says nothing; `act` refuses it
        self.due.fresh = fresh
        detail = fresh.detail or {}
        try:
            if detail.get("kind") == MOVE:
                return await self.tracker.moved(str(detail.get("ticket")), key)
            return await self.tracker.commented(str(detail.get("ticket")), key)
        except NotFound:
            return None  # the ticket is gone, and what was written there with it; `act` is told so
