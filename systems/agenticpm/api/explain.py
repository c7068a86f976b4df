"""Explanations in text: what led to an action, an escalation or an event, and who decided.

Nothing is scanned. An event is found in the index of its day, by the time in its ULID. An action is stored in
its project by time: the events around that time give the candidate projects; after thirty days they are gone,
and the action must be given as PROJECT/ID. An escalation has a UUID without a time: it is searched status by
status, unless its project is given the same way.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from agenticpm.api import action_reviews
from agenticpm.api.serializers import format_outcome, to_json
from agenticpm.domain.diff import format_value as short
from agenticpm.model import patterns
from agenticpm.model.entities import Action, Escalation, EscalationStatus, Event, ProjectId, get_utc_day
from agenticpm.model.projects import parse_project_id
from agenticpm.workers.actions import SITE_KEY
from holdfast import Stores
from holdfast.core.errors import InvalidRequest, NotFound
from holdfast.model.system import Explanation

AROUND: Final = timedelta(minutes=5)
_ULID: Final = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}", re.IGNORECASE)


async def explain(stores: Stores, id: str) -> Explanation:
    """Explain the action, escalation or event with this id, or PROJECT/ID.

    Raise InvalidRequest if the id has another form, NotFound if nothing has it.
    """
    project, _, bare = id.rpartition("/")
    project_id = parse_project_id(project) if project else None
    if _ULID.fullmatch(bare):
        return await _explain_ulid(stores, project_id, bare.upper())
    try:
        wanted = str(UUID(bare))
    except ValueError:
        raise InvalidRequest(
            f"Invalid id {id!r}: expected the ULID of an action or event, or the UUID of an escalation; "
            "PROJECT/ID names the project too."
        ) from None
    return await _explain_uuid(stores, project_id, wanted)


async def _explain_ulid(stores: Stores, project_id: ProjectId | None, id: str) -> Explanation:
    """Find and explain an event or an action."""
    near = await _load_events_around(stores, action_reviews.parse_ulid_time(id))
    for event in near:
        if event.id == id:
            return await _explain_event(stores, event)
    candidates: list[ProjectId | None] = [project_id] if project_id else _list_projects(near)
    for each in candidates:
        if (action := await action_reviews.find_action(stores, each, id)) is not None:
            return explain_action(action)
    raise NotFound(
        f"{id} not found. Give an action older than thirty days as PROJECT/ID; after ninety days it is "
        "deleted."
    )


async def _explain_uuid(stores: Stores, project_id: ProjectId | None, id: str) -> Explanation:
    """Find and explain an escalation."""
    if project_id is not None:
        escalation = await stores.run(patterns.escalation(project_id, id))
        if escalation is not None:
            return explain_escalation(escalation)
    else:
        for status in EscalationStatus:
            async for each in stores.each(patterns.escalations_in(status)):
                if each.id == id:
                    return explain_escalation(each)
    raise NotFound(f"Escalation {id} not found: `escalations list` shows all.")


async def _load_events_around(stores: Stores, at: datetime) -> list[Event]:
    """Load the full events of all projects within five minutes of a time."""
    since, until = at - AROUND, at + AROUND
    return [
        event
        for day in dict.fromkeys((get_utc_day(since), get_utc_day(until)))
        for event in await stores.all(patterns.events_between(day, since, until))
    ]


def _list_projects(events: Sequence[Event]) -> list[ProjectId | None]:
    """List the project ids of the events, and None for actions without a project."""
    return list(dict.fromkeys([*(each.project_id for each in events), None]))


# --- text ---------------------------------------------------------------------------------------------------


async def _explain_event(stores: Stores, event: Event) -> Explanation:
    """Explain an event, with the action or escalation that it refers to."""
    detail = event.detail or {}
    lines = [f"{_format_time(event.created_at)} {event.event_type} ({event.severity}): {event.summary}"]
    lines += _format_evidence(detail)
    data: dict[str, Any] = {"event": to_json(event)}
    if isinstance(detail.get("action"), str):
        action = await action_reviews.find_action(stores, event.project_id, detail["action"])
        about = None if action is None else explain_action(action)
    elif isinstance(detail.get("escalationId"), str) and event.project_id is not None:
        escalation = await stores.run(patterns.escalation(event.project_id, detail["escalationId"]))
        about = None if escalation is None else explain_escalation(escalation)
    else:
        about = None
    if about is None:
        return Explanation(lines, data)
    return Explanation([*lines, *about.lines], {**data, **about.data})


def explain_action(action: Action) -> Explanation:
    """Explain an action: its reason, confidence, site, review and outcome."""
    lines = [
        f"{_format_time(action.created_at)} proposed: {action.description} [{action.action_type} {action.id}]"
    ]
    because = (action.detail or {}).get("because")
    lines += _format_evidence(because) if isinstance(because, Mapping) else ["No signal caused this action."]
    lines.append(_format_confidence(action))
    if held_for := (action.detail or {}).get(SITE_KEY):
        lines.append(f"It may be executed only at {held_for}.")
    if action.reviewed_by is not None and action.reviewed_at is not None:
        lines.append(f"{_format_time(action.reviewed_at)} reviewed by {action.reviewed_by}: {action.review}.")
    lines.append(format_outcome(action))
    return Explanation(lines, {"action": to_json(action)})


def explain_escalation(escalation: Escalation) -> Explanation:
    """Explain an escalation: its reason, options, recommendation and ending."""
    lines = [
        f"{_format_time(escalation.created_at)} asked: {escalation.title} [{escalation.id}]",
        *_format_evidence(escalation.context),
    ]
    for option in escalation.options:
        for_, against = "; ".join(option.pros) or "none", "; ".join(option.cons) or "none"
        lines.append(f"  {option.option}: pros: {for_}; cons: {against}.")
    if escalation.agent_recommendation is not None:
        lines.append(
            f"The agent recommends {escalation.agent_recommendation}: "
            f"{escalation.agent_rationale or 'no reason given'}."
        )
    lines.append(_format_ending(escalation))
    return Explanation(lines, {"escalation": to_json(escalation)})


def _format_evidence(detail: Mapping[str, Any]) -> list[str]:
    """Format the signal in a detail, and its evidence: field and ticket, before and after; or no lines."""
    if "signal" not in detail:
        return []
    lines = [f"Because of {detail['signal']} ({detail.get('subject')}): {detail.get('summary')}"]
    for each in detail.get("evidence") or ():
        ticket = f"{each['ticket']} " if each.get("ticket") else ""
        # A ticket's field without a value was empty before; anything else was not measured.
        before = f"{short(each.get('before'))} → " if ticket or each.get("before") is not None else ""
        lines.append(f"  {ticket}{each.get('field')}: {before}{short(each.get('after'))}")
    return lines


def _format_confidence(action: Action) -> str:
    if action.confidence is None:
        return "No confidence score: none was needed."
    scores = ", ".join(f"{name} {value}" for name, value in action.confidence)
    return f"Confidence: {scores}."


def _format_ending(escalation: Escalation) -> str:
    """Say how the escalation ended, or until when it waits."""
    if escalation.decided_at is not None:
        notes = f" ({escalation.user_notes})" if escalation.user_notes else ""
        return f"{_format_time(escalation.decided_at)} decided: {escalation.user_decision}{notes}."
    if escalation.superseded_by is not None:
        return f"It is superseded by {escalation.superseded_by}."
    if escalation.status is EscalationStatus.pending:
        until = "" if escalation.expires_at is None else f", until {_format_time(escalation.expires_at)}"
        return f"It waits for a person's decision{until}."
    return f"It is {escalation.status}."


def _format_time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S}"
