"""Why did this happen? For an action, an escalation or an event, by its id: what led to it, and who decided.

Nothing is scanned. An event is found in the index of its day, by the time its ULID holds. An action stands in its
project by its time: the events of that moment say which project it may be of; after thirty days they are gone, and then
it must be asked for as PROJECT/ID. An escalation has a UUID, which holds no time: it is looked for status by status,
unless its project is named the same way.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from agenticpm import patterns, reviews
from agenticpm.actions import PARTY
from agenticpm.diffing import shown as short
from agenticpm.model import Action, Escalation, EscalationStatus, Event, ProjectId, day_of
from agenticpm.projects import checked_id
from agenticpm.showing import outcome_of, shown
from holdfast import Explanation, Stores
from holdfast.errors import InvalidRequest, NotFound

AROUND: Final = timedelta(minutes=5)
_ULID: Final = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}", re.IGNORECASE)


async def why(stores: Stores, id: str) -> Explanation:
    """`id` is that of an action, an escalation or an event; with its project before it, as PROJECT/ID."""
    project, _, bare = id.rpartition("/")
    project_id = checked_id(project) if project else None
    if _ULID.fullmatch(bare):
        return await _of_ulid(stores, project_id, bare.upper())
    try:
        wanted = str(UUID(bare))
    except ValueError:
        raise InvalidRequest(
            f"{id!r} is no id: an action or an event has a ULID, an escalation a UUID; PROJECT/ID names the project too."
        ) from None
    return await _of_uuid(stores, project_id, wanted)


async def _of_ulid(stores: Stores, project_id: ProjectId | None, id: str) -> Explanation:
    near = await _events_around(stores, reviews.made_at(id))
    for event in near:
        if event.id == id:
            return await _event_explained(stores, event)
    candidates: list[ProjectId | None] = [project_id] if project_id else _projects_of(near)
    for each in candidates:
        if (action := await reviews.looked_up(stores, each, id)) is not None:
            return explained_action(action)
    raise NotFound(
        f"Nothing is known of {id}. An action older than thirty days is found as PROJECT/ID; after ninety it is gone."
    )


async def _of_uuid(stores: Stores, project_id: ProjectId | None, id: str) -> Explanation:
    if project_id is not None:
        asked = await stores.run(patterns.escalation(project_id, id))
        if asked is not None:
            return explained_escalation(asked)
    else:
        for status in EscalationStatus:
            async for each in stores.each(patterns.escalations_in(status)):
                if each.id == id:
                    return explained_escalation(each)
    raise NotFound(f"There is no escalation {id}: `escalations list` shows those there are.")


async def _events_around(stores: Stores, at: datetime) -> list[Event]:
    since, until = at - AROUND, at + AROUND
    return [
        event
        for day in dict.fromkeys((day_of(since), day_of(until)))
        for event in await stores.all(patterns.events_between(day, since, until))
    ]


def _projects_of(events: Sequence[Event]) -> list[ProjectId | None]:
    """The projects in which something happened; and none, where what belongs to no project is."""
    return list(dict.fromkeys([*(each.project_id for each in events), None]))


# --- in words ----------------------------------------------------------------------------------------------------


async def _event_explained(stores: Stores, event: Event) -> Explanation:
    """The event, and with it the action or the escalation that it tells about."""
    detail = event.detail or {}
    lines = [f"{_at(event.created_at)} {event.event_type} ({event.severity}): {event.summary}"]
    lines += _evidence(detail)
    data: dict[str, Any] = {"event": shown(event)}
    if isinstance(detail.get("action"), str):
        action = await reviews.looked_up(stores, event.project_id, detail["action"])
        about = None if action is None else explained_action(action)
    elif isinstance(detail.get("escalationId"), str) and event.project_id is not None:
        asked = await stores.run(patterns.escalation(event.project_id, detail["escalationId"]))
        about = None if asked is None else explained_escalation(asked)
    else:
        about = None
    if about is None:
        return Explanation(lines, data)
    return Explanation([*lines, *about.lines], {**data, **about.data})


def explained_action(action: Action) -> Explanation:
    lines = [f"{_at(action.created_at)} proposed: {action.description} [{action.action_type} {action.id}]"]
    because = (action.detail or {}).get("because")
    lines += _evidence(because) if isinstance(because, Mapping) else ["It rests on no signal."]
    lines.append(_confidence(action))
    if held_for := (action.detail or {}).get(PARTY):
        lines.append(f"It is for {held_for} and for nobody else.")
    if action.reviewed_by is not None and action.reviewed_at is not None:
        lines.append(f"{_at(action.reviewed_at)} reviewed by {action.reviewed_by}: {action.review}.")
    lines.append(outcome_of(action))
    return Explanation(lines, {"action": shown(action)})


def explained_escalation(asked: Escalation) -> Explanation:
    lines = [f"{_at(asked.created_at)} asked: {asked.title} [{asked.id}]", *_evidence(asked.context)]
    for option in asked.options:
        for_, against = "; ".join(option.pros) or "nothing", "; ".join(option.cons) or "nothing"
        lines.append(f"  {option.option}: for it {for_}; against it {against}.")
    if asked.agent_recommendation is not None:
        lines.append(
            f"The agent recommends {asked.agent_recommendation}: {asked.agent_rationale or 'no reason given'}."
        )
    lines.append(_ending(asked))
    return Explanation(lines, {"escalation": shown(asked)})


def _evidence(told: Mapping[str, Any]) -> list[str]:
    """The signal that something rests on, and its evidence: which field of which ticket, before and after."""
    if "signal" not in told:
        return []
    lines = [f"Because of {told['signal']} ({told.get('subject')}): {told.get('summary')}"]
    for each in told.get("evidence") or ():
        ticket = f"{each['ticket']} " if each.get("ticket") else ""
        # Of a ticket, nothing is what its field held before; of the rest, it was not measured.
        before = f"{short(each.get('before'))} → " if ticket or each.get("before") is not None else ""
        lines.append(f"  {ticket}{each.get('field')}: {before}{short(each.get('after'))}")
    return lines


def _confidence(action: Action) -> str:
    if action.confidence is None:
        return "No confidence was stated: nobody had to be sure."
    scores = ", ".join(f"{name} {value}" for name, value in action.confidence)
    return f"Confidence: {scores}."


def _ending(asked: Escalation) -> str:
    if asked.decided_at is not None:
        notes = f" ({asked.user_notes})" if asked.user_notes else ""
        return f"{_at(asked.decided_at)} decided: {asked.user_decision}{notes}."
    if asked.superseded_by is not None:
        return f"{asked.superseded_by} is asked in its place."
    if asked.status is EscalationStatus.pending:
        until = "" if asked.expires_at is None else f", until {_at(asked.expires_at)}"
        return f"It waits for a person{until}."
    return f"It is {asked.status}."


def _at(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S}"
