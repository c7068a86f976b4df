"""Escalations, which are questions to a person with options: create, decide, expire or supersede them.

A decision, its entry in the decision log and the events are one transaction. An escalation past its expiry
cannot be decided, even before the sweep (`expire_due`) has run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from pydantic import ValidationError

from agenticpm.domain.autonomy import DO_IT, find_refusal
from agenticpm.domain.contents import ArtefactType, Decision, format_time, get_next_id, to_stored
from agenticpm.domain.diff import format_value
from agenticpm.model import patterns
from agenticpm.model.artefacts import build_update, load_content
from agenticpm.model.entities import Escalation, EscalationStatus, EventType, Option, ProjectId, Severity
from agenticpm.model.events import build_event_writes, get_now
from agenticpm.model.transactions import CONFLICTS, commit
from agenticpm.workers.actions import build_approved_hold
from holdfast import Stores, Write
from holdfast.core.errors import Conflict, InvalidRequest, NotFound, RetryLater
from holdfast.core.rng import RNG, make_uuid

# Key in an escalation's context: the ids of the RAID items that the decision is about.
RELATED_KEY: Final = "related_raid_items"

MAX_ATTEMPTS: Final = 8
MAX_PAUSE_S: Final = 0.05
MAX_CONTEXT_CHARS: Final = 2000


# --- create -------------------------------------------------------------------------------------------------


async def build_escalation(  # noqa: PLR0913 - an escalation has this many fields
    stores: Stores,
    project_id: ProjectId,
    *,
    title: str,
    context: Mapping[str, Any],
    options: Sequence[Option | Mapping[str, Any]],
    recommendation: str | None = None,
    rationale: str | None = None,
    subject: str | None = None,
    expires_at: datetime | None = None,
    known: Sequence[Escalation] | None = None,
) -> list[Write[Any]]:
    """Build the writes of a new escalation, for the caller's transaction.

    They also supersede a pending one with the same `subject`. `known` are the project's escalations, if the
    caller has read them already. Raise InvalidRequest if the question is invalid.
    """
    at = get_now(stores.clock)
    _check_question(title, expires_at, at)
    try:
        escalation = Escalation(
            id=str(make_uuid()),
            project_id=project_id,
            title=title,
            context=dict(context),
            options=[_parse_option(each) for each in options],
            agent_recommendation=recommendation,
            agent_rationale=rationale,
            subject=subject,
            expires_at=expires_at,
            created_at=at,
        )
    except ValidationError as error:
        faults = "; ".join(each["msg"].removeprefix("Value error, ") for each in error.errors())
        raise InvalidRequest(f"Invalid escalation: {faults}.") from error
    known = await list_of_project(stores, project_id) if known is None and subject is not None else known
    replaced = [] if subject is None else find_pending(known or (), subject)
    ends = [
        patterns.end_escalation(
            each.model_copy(update={"status": EscalationStatus.superseded, "superseded_by": escalation.id})
        )
        for each in replaced
    ]
    return [
        patterns.create_escalation(escalation),
        *ends,
        *_build_created_event(stores, escalation, replaced),
    ]


def _check_question(title: str, expires_at: datetime | None, at: datetime) -> None:
    """Raise InvalidRequest without a title, or if the expiry is not in the future."""
    if not title.strip():
        raise InvalidRequest("An escalation needs a title. Say what is to be decided.")
    if expires_at is not None and expires_at <= at:
        raise InvalidRequest(
            f"Invalid expires_at {format_time(expires_at)}: expected a future time, or none."
        )


def _parse_option(given: Option | Mapping[str, Any]) -> Option:
    """Return the option. Raise InvalidRequest if it has no name."""
    option = given if isinstance(given, Option) else Option.model_validate(dict(given))
    if not option.option.strip():
        raise InvalidRequest("An option of the escalation has no name. Say what would be done.")
    return option


def find_pending(known: Sequence[Escalation], subject: str) -> list[Escalation]:
    """Return the pending escalations with this subject."""
    return [each for each in known if each.subject == subject and each.status is EscalationStatus.pending]


def _build_created_event(
    stores: Stores, escalation: Escalation, replaced: Sequence[Escalation]
) -> tuple[Write[Any], ...]:
    """Build the writes of the event; `replaced` are the superseded escalations."""
    detail: dict[str, Any] = {
        "escalationId": escalation.id,
        "options": [format_value(each.option) for each in escalation.options],
    }
    if replaced:
        detail["supersedes"] = [each.id for each in replaced]
    summary = f"To be decided: {format_value(escalation.title, 200)}"
    return build_event_writes(
        stores,
        escalation.project_id,
        EventType.escalation_created,
        summary,
        detail,
        severity=Severity.warning,
        at=escalation.created_at,
    )


# --- decide -------------------------------------------------------------------------------------------------


async def decide(
    stores: Stores, project_id: ProjectId, id: str, decision: str, notes: str | None = None, by: str = "user"
) -> Escalation:
    """Decide a pending escalation and update the decision log in one transaction. Return the escalation.

    If the escalation asked for permission and the decision is yes, the same transaction puts the action into
    the queue. Retry if another writer changed the log. Raise Conflict if it can no longer be decided,
    NotFound, InvalidRequest, or RetryLater after eight conflicts.
    """
    if not by.strip():
        raise InvalidRequest("A decision needs `by`: the person who made it.")
    for attempt in range(MAX_ATTEMPTS):
        at = get_now(stores.clock)
        escalation = await _load_decidable(stores, project_id, id, decision, at)
        await _check_permission(stores, escalation, decision)
        ended = escalation.model_copy(
            update={
                "status": EscalationStatus.decided,
                "user_decision": decision,
                "user_notes": (notes or "").strip() or None,
                "decided_at": at,
            }
        )
        try:
            writes = await _build_decision_writes(stores, ended, by, at)
            await commit(stores, *writes, what="The decision")
            return ended
        except CONFLICTS:
            # The next attempt reads the escalation again and sees whether it was decided meanwhile.
            await asyncio.sleep(RNG.uniform(0, MAX_PAUSE_S) * attempt)
    raise RetryLater(
        f"Other writers keep changing the decision log of {project_id}; nothing was decided. Retry in a "
        "moment."
    )


async def _load_decidable(
    stores: Stores, project_id: ProjectId, id: str, decision: str, at: datetime
) -> Escalation:
    """Load a pending escalation that has this option and has not expired.

    Raise NotFound, Conflict or InvalidRequest otherwise.
    """
    escalation = await stores.run(patterns.escalation(project_id, _parse_uuid(id)))
    if escalation is None:
        raise NotFound(f"Escalation {id} of project {project_id} not found. List the project's escalations.")
    if escalation.status is not EscalationStatus.pending:
        raise Conflict(
            f"Escalation {id} is {escalation.status} and cannot be decided{_format_ending(escalation)}."
        )
    if escalation.expires_at is not None and escalation.expires_at <= at:
        raise Conflict(
            f"Escalation {id} expired at {format_time(escalation.expires_at)} and cannot be decided. The "
            "agent asks again within a day if it still matters."
        )
    names = [each.option for each in escalation.options]
    if decision not in names:
        raise InvalidRequest(
            f"Invalid decision {decision!r} for escalation {id}: expected one of {', '.join(names)}."
        )
    return escalation


async def _check_permission(stores: Stores, escalation: Escalation, decision: str) -> None:
    """Raise Conflict if "Do it" was chosen and the project's status or level forbids the action."""
    proposal = escalation.context.get("proposal")
    if decision != DO_IT or not isinstance(proposal, Mapping):
        return
    project = await stores.run(patterns.project(escalation.project_id))
    kind = str(proposal.get("detail", {}).get("kind"))
    why = (
        "The project no longer exists." if project is None else find_refusal(project, kind, is_approved=True)
    )
    if why is not None:
        raise Conflict(f"The action is not allowed: {why} Change the project, or decide otherwise.")


def _parse_uuid(id: str) -> str:
    """Return the escalation id in its canonical form. Raise InvalidRequest if it is not a UUID."""
    try:
        return str(UUID(id))
    except ValueError:
        raise InvalidRequest(f"Invalid escalation id {id!r}: expected a UUID.") from None


def _format_ending(escalation: Escalation) -> str:
    """Format how the escalation ended, for the end of an error message; empty if it expired."""
    if escalation.status is EscalationStatus.decided and escalation.decided_at is not None:
        return f": {escalation.user_decision!r} was chosen at {format_time(escalation.decided_at)}"
    if escalation.superseded_by is not None:
        return f": it is superseded by {escalation.superseded_by}"
    return ""


async def _build_decision_writes(
    stores: Stores, ended: Escalation, by: str, at: datetime
) -> list[Write[Any]]:
    """Build the writes of a decision: escalation, log, event, check of the RAID log, hold of its action."""
    log = await stores.run(patterns.artefact(ended.project_id, ArtefactType.decision_log))
    decisions = [] if log is None else (await load_content(stores, log))["decisions"]
    related, unchanged = await _load_related_items(stores, ended)
    decision = _build_decision(ended, _get_next_decision_id(decisions), related, by, at)
    content = {"decisions": [*decisions, to_stored(decision)]}
    why = f"the escalation {ended.id} was decided"
    log_writes = await build_update(
        stores, ended.project_id, ArtefactType.decision_log, content, seen=log, at=at, reason=why
    )
    summary = f"Decided: {format_value(ended.title, 120)}: {format_value(ended.user_decision, 120)}"
    detail = {"escalationId": ended.id, "decisionId": decision.id, "decision": ended.user_decision, "by": by}
    event = build_event_writes(stores, ended.project_id, EventType.escalation_decided, summary, detail, at=at)
    return [
        patterns.end_escalation(ended),
        *log_writes,
        *unchanged,
        *event,
        *build_approved_hold(stores, ended),
    ]


def _build_decision(ended: Escalation, id: str, related: Sequence[str], by: str, at: datetime) -> Decision:
    """Build the entry of the decision log. The rationale is the person's, or the agent's if they agree."""
    chosen = str(ended.user_decision)
    agrees = chosen == ended.agent_recommendation
    return Decision.model_validate(
        {
            "id": id,
            "title": ended.title,
            "context": _format_context(ended.context),
            "options_considered": [
                {"option": each.option, "pros": each.pros, "cons": each.cons} for each in ended.options
            ],
            "decision": chosen,
            "rationale": ended.user_notes or (ended.agent_rationale if agrees else None) or "",
            "made_by": by,
            "date": at,
            "status": "active",
            "related_raid_items": list(related),
        }
    )


def _get_next_decision_id(decisions: Sequence[Mapping[str, Any]]) -> str:
    return get_next_id("D", [each["id"] for each in decisions])


def _format_context(context: Mapping[str, Any]) -> str:
    """Format the context as one line: its summary if it has one, otherwise all its values."""
    if isinstance(context.get("summary"), str):
        return format_value(context["summary"], MAX_CONTEXT_CHARS)
    text = "; ".join(
        f"{name}: {format_value(value)}" for name, value in context.items() if name != RELATED_KEY
    )
    return format_value(text, MAX_CONTEXT_CHARS)


async def _load_related_items(stores: Stores, ended: Escalation) -> tuple[list[str], tuple[Write[Any], ...]]:
    """Return the ids of the RAID items that the escalation names and the RAID log has.

    Also return the check that the RAID log stays unchanged until the commit.
    """
    named = ended.context.get(RELATED_KEY)
    if not isinstance(named, list) or not named:
        return [], ()
    log = await stores.run(patterns.artefact(ended.project_id, ArtefactType.raid_log))
    if log is None:
        return [], ()
    items = (await load_content(stores, log))["items"]
    return [each["id"] for each in items if each["id"] in named], (patterns.check_artefact(log),)


# --- expire and list ----------------------------------------------------------------------------------------


async def expire_due(stores: Stores) -> int:
    """Expire the pending escalations of all projects that are past their time. Return their number."""
    at = get_now(stores.clock)
    pending = (await stores.all(patterns.escalations_in(EscalationStatus.pending))).items
    due = [each for each in pending if each.expires_at is not None and each.expires_at <= at]
    return sum([await _expire(stores, each, at) for each in due])


async def _expire(stores: Stores, escalation: Escalation, at: datetime) -> bool:
    """Expire one escalation with its event. Return False if it was decided or superseded meanwhile."""
    summary = f"Expired without a decision: {format_value(escalation.title, 200)}"
    event = build_event_writes(
        stores,
        escalation.project_id,
        EventType.escalation_expired,
        summary,
        {"escalationId": escalation.id},
        severity=Severity.warning,
        at=at,
    )
    ended = escalation.model_copy(update={"status": EscalationStatus.expired})
    try:
        await stores.transact(patterns.end_escalation(ended), *event)
    except CONFLICTS:
        return False  # decided or superseded since the index was read
    return True


async def list_of_project(stores: Stores, project_id: ProjectId) -> list[Escalation]:
    """List the escalations of a project, oldest first; their ids are not ordered by time."""
    found = await stores.all(patterns.project_escalations(project_id))
    return sorted(found.items, key=lambda each: (each.created_at, each.id))
