"""Escalations: questions to a person, with options. Asked, decided, lapsed, or replaced by a newer question.

A decision, its line in the decision log and the events are one transaction: neither is ever without the other. What is
past its time cannot be decided, whether or not the sweep (`expire_due`) has come by.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID, uuid4

from pydantic import ValidationError

from agenticpm import patterns
from agenticpm.actions import approved
from agenticpm.artefacts import content_of, updated
from agenticpm.autonomy import DO_IT, refusal_of
from agenticpm.committing import OVERTAKEN, commit
from agenticpm.contents import ArtefactType, Decision, next_id, plain, stated
from agenticpm.diffing import shown
from agenticpm.events import moment, recorded
from agenticpm.model import (
    Escalation,
    EscalationStatus,
    EventType,
    Option,
    ProjectId,
    Severity,
)
from holdfast import Stores, Write
from holdfast.errors import (
    Conflict,
    InvalidRequest,
    NotFound,
    RetryLater,
)

# In the context of an escalation: ids of the RAID log that the decision will be about.
RELATED: Final = "related_raid_items"

ATTEMPTS_MAX: Final = 8
PAUSE_S_MAX: Final = 0.05
CONTEXT_CHARS_MAX: Final = 2000


# --- asked -------------------------------------------------------------------------------------------------------


async def escalated(  # noqa: PLR0913 - a question has as many parts
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
    """The writes of a new question, for the caller's transaction. One that is pending about the same `subject` ends.

    `known` are the project's escalations, where the caller has read them for several questions.
    """
    at = moment(stores.clock)
    _check_question(title, expires_at, at)
    try:
        asked = Escalation(
            id=str(uuid4()),
            project_id=project_id,
            title=title,
            context=dict(context),
            options=[_option(each) for each in options],
            agent_recommendation=recommendation,
            agent_rationale=rationale,
            subject=subject,
            expires_at=expires_at,
            created_at=at,
        )
    except ValidationError as error:
        faults = "; ".join(each["msg"].removeprefix("Value error, ") for each in error.errors())
        raise InvalidRequest(f"This cannot be asked: {faults}.") from error
    known = await of_project(stores, project_id) if known is None and subject is not None else known
    replaced = [] if subject is None else pending_about(known or (), subject)
    ends = [
        patterns.end_escalation(
            each.model_copy(update={"status": EscalationStatus.superseded, "superseded_by": asked.id})
        )
        for each in replaced
    ]
    return [patterns.create_escalation(asked), *ends, *_told_as_asked(stores, asked, replaced)]


def _check_question(title: str, expires_at: datetime | None, at: datetime) -> None:
    if not title.strip():
        raise InvalidRequest("An escalation needs a title: say what is to be decided.")
    if expires_at is not None and expires_at <= at:
        raise InvalidRequest(
            f"The escalation would have lapsed at {stated(expires_at)}, before it is asked: give it time, or no end."
        )


def _option(given: Option | Mapping[str, Any]) -> Option:
    option = given if isinstance(given, Option) else Option.model_validate(dict(given))
    if not option.option.strip():
        raise InvalidRequest("An option of an escalation has no name: say what would be done.")
    return option


def pending_about(known: Sequence[Escalation], subject: str) -> list[Escalation]:
    return [each for each in known if each.subject == subject and each.status is EscalationStatus.pending]


def _told_as_asked(
    stores: Stores, asked: Escalation, replaced: Sequence[Escalation]
) -> tuple[Write[Any], ...]:
    detail: dict[str, Any] = {
        "escalationId": asked.id,
        "options": [shown(each.option) for each in asked.options],
    }
    if replaced:
        detail["supersedes"] = [each.id for each in replaced]
    summary = f"To be decided: {shown(asked.title, 200)}"
    return recorded(
        stores,
        asked.project_id,
        EventType.escalation_created,
        summary,
        detail,
        severity=Severity.warning,
        at=asked.created_at,
    )


# --- decided -----------------------------------------------------------------------------------------------------


async def decide(
    stores: Stores, project_id: ProjectId, id: str, decision: str, notes: str | None = None, by: str = "user"
) -> Escalation:
    """Decides a pending escalation, and writes the decision log with it. Where another wrote the log, it is tried anew.

    A question whether the agent may do something, decided with yes, puts that into the hold queue with the same writes.
    """
    if not by.strip():
        raise InvalidRequest("A decision is somebody's: say who made it.")
    for attempt in range(ATTEMPTS_MAX):
        at = moment(stores.clock)
        asked = await _decidable(stores, project_id, id, decision, at)
        await _check_permission(stores, asked, decision)
        ended = asked.model_copy(
            update={
                "status": EscalationStatus.decided,
                "user_decision": decision,
                "user_notes": (notes or "").strip() or None,
                "decided_at": at,
            }
        )
        try:
            writes = await _as_decided(stores, ended, by, at)
            await commit(stores, *writes, what="The decision")
            return ended
        except OVERTAKEN:
            # Whether the escalation itself was decided meanwhile is told by the next look at it.
            await asyncio.sleep(random.uniform(0, PAUSE_S_MAX) * attempt)
    raise RetryLater(
        f"Others keep writing the decision log of {project_id}, and nothing was decided: ask again in a moment."
    )


async def _decidable(
    stores: Stores, project_id: ProjectId, id: str, decision: str, at: datetime
) -> Escalation:
    asked = await stores.run(patterns.escalation(project_id, _uuid(id)))
    if asked is None:
        raise NotFound(f"The project {project_id} has no escalation {id}: list those it has.")
    if asked.status is not EscalationStatus.pending:
        raise Conflict(f"The escalation {id} is {asked.status} and cannot be decided{_how_it_ended(asked)}.")
    if asked.expires_at is not None and asked.expires_at <= at:
        raise Conflict(
            f"The escalation {id} lapsed at {stated(asked.expires_at)} and cannot be decided: it is asked anew within "
            "a day where it still matters."
        )
    names = [each.option for each in asked.options]
    if decision not in names:
        raise InvalidRequest(
            f"{decision!r} is none of the options of the escalation {id}: {', '.join(names)}."
        )
    return asked


async def _check_permission(stores: Stores, asked: Escalation, decision: str) -> None:
    """A yes is a permission for one action, and not against the project's status and level."""
    proposal = asked.context.get("proposal")
    if decision != DO_IT or not isinstance(proposal, Mapping):
        return
    project = await stores.run(patterns.project(asked.project_id))
    kind = str(proposal.get("detail", {}).get("kind"))
    why = "The project is gone." if project is None else refusal_of(project, kind, by_person=True)
    if why is not None:
        raise Conflict(f"It cannot be done: {why} Change the project, or decide otherwise.")


def _uuid(id: str) -> str:
    try:
        return str(UUID(id))
    except ValueError:
        raise InvalidRequest(f"{id!r} is no id of an escalation: it is a UUID.") from None


def _how_it_ended(asked: Escalation) -> str:
    if asked.status is EscalationStatus.decided and asked.decided_at is not None:
        return f": {asked.user_decision!r} was chosen at {stated(asked.decided_at)}"
    if asked.superseded_by is not None:
        return f": {asked.superseded_by} is asked in its place"
    return ""


async def _as_decided(stores: Stores, ended: Escalation, by: str, at: datetime) -> list[Write[Any]]:
    log = await stores.run(patterns.artefact(ended.project_id, ArtefactType.decision_log))
    decisions = [] if log is None else (await content_of(stores, log))["decisions"]
    related, unchanged = await _related(stores, ended)
    made = _decision(ended, _next_id(decisions), related, by, at)
    content = {"decisions": [*decisions, plain(made)]}
    why = f"the escalation {ended.id} was decided"
    log_writes = await updated(
        stores, ended.project_id, ArtefactType.decision_log, content, seen=log, at=at, why=why
    )
    summary = f"Decided: {shown(ended.title, 120)}: {shown(ended.user_decision, 120)}"
    detail = {"escalationId": ended.id, "decisionId": made.id, "decision": ended.user_decision, "by": by}
    event = recorded(stores, ended.project_id, EventType.escalation_decided, summary, detail, at=at)
    return [patterns.end_escalation(ended), *log_writes, *unchanged, *event, *approved(stores, ended)]


def _decision(ended: Escalation, id: str, related: Sequence[str], by: str, at: datetime) -> Decision:
    chosen = str(ended.user_decision)
    agrees = chosen == ended.agent_recommendation
    return Decision.model_validate(
        {
            "id": id,
            "title": ended.title,
            "context": _context(ended.context),
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


def _next_id(decisions: Sequence[Mapping[str, Any]]) -> str:
    return next_id("D", [each["id"] for each in decisions])


def _context(context: Mapping[str, Any]) -> str:
    """What was known, as a text: its summary where it has one."""
    if isinstance(context.get("summary"), str):
        return shown(context["summary"], CONTEXT_CHARS_MAX)
    told = "; ".join(f"{name}: {shown(value)}" for name, value in context.items() if name != RELATED)
    return shown(told, CONTEXT_CHARS_MAX)


async def _related(stores: Stores, ended: Escalation) -> tuple[list[str], tuple[Write[Any], ...]]:
    """Those items that it names and that the RAID log has; and that the log still is so when this is written."""
    named = ended.context.get(RELATED)
    if not isinstance(named, list) or not named:
        return [], ()
    log = await stores.run(patterns.artefact(ended.project_id, ArtefactType.raid_log))
    if log is None:
        return [], ()
    items = (await content_of(stores, log))["items"]
    return [each["id"] for each in items if each["id"] in named], (patterns.check_artefact(log),)


# --- lapsed, listed ----------------------------------------------------------------------------------------------


async def expire_due(stores: Stores) -> int:
    """Ends those that are past their time, in all projects. How many it were."""
    at = moment(stores.clock)
    pending = (await stores.all(patterns.escalations_in(EscalationStatus.pending))).items
    due = [each for each in pending if each.expires_at is not None and each.expires_at <= at]
    return sum([await _expired(stores, each, at) for each in due])


async def _expired(stores: Stores, asked: Escalation, at: datetime) -> bool:
    summary = f"Nobody decided in time: {shown(asked.title, 200)}"
    event = recorded(
        stores,
        asked.project_id,
        EventType.escalation_expired,
        summary,
        {"escalationId": asked.id},
        severity=Severity.warning,
        at=at,
    )
    ended = asked.model_copy(update={"status": EscalationStatus.expired})
    try:
        await stores.transact(patterns.end_escalation(ended), *event)
    except OVERTAKEN:
        return False  # decided or replaced since the index saw it
    return True


async def of_project(stores: Stores, project_id: ProjectId) -> list[Escalation]:
    """All of a project, oldest first: their ids tell nothing of time."""
    found = await stores.all(patterns.project_escalations(project_id))
    return sorted(found.items, key=lambda each: (each.created_at, each.id))
