"""What people do about actions that wait: approve, edit, cancel; and about those that were refused: reopen. Each with its
event, in one transaction.

An action is found by its id without reading all there are: a ULID holds the time it was made at, and actions stand in
their project by that time.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from agenticpm import patterns
from agenticpm.addresses import is_address
from agenticpm.autonomy import COMMENT, MAIL, MOVE
from agenticpm.events import recorded
from agenticpm.model import Action, EventType, ProjectId
from agenticpm.patterns import HOLD
from agenticpm.projects import checked_id
from agenticpm.tickets import OutgoingMail
from holdfast import Page, Put, Stores, ulid
from holdfast.errors import InvalidRequest, NotFound

# An id is made a little before or after the moment that its item is kept under.
AROUND: Final = timedelta(minutes=1)
_ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_TIME_CHARS: Final = 10
# A ULID could be of a time that no calendar here has.
_YEAR_MAX: Final = 9998

# What an edit may change of an action, by its kind, and what all of it must be.
EDITABLE: Final[Mapping[str, tuple[str, ...]]] = {
    MAIL: ("to", "subject", "text"),
    COMMENT: ("text",),
    MOVE: ("status",),
}


def made_at(id: str) -> datetime:
    """When a ULID was made."""
    milliseconds = 0
    for character in ulid(id)[:_TIME_CHARS]:
        milliseconds = milliseconds * 32 + _ALPHABET.index(character)
    seconds, rest = divmod(milliseconds, 1000)
    if seconds >= datetime(_YEAR_MAX, 1, 1, tzinfo=UTC).timestamp():
        raise InvalidRequest(f"{id!r} is of a time that is not to come: it is no id of ours.")
    return datetime.fromtimestamp(seconds, UTC) + timedelta(milliseconds=rest)


async def of_project(
    stores: Stores, project_id: str | None, limit: int = patterns.PAGE, cursor: str | None = None
) -> Page[Action]:
    """Newest first. Of no project: those that belong to none."""
    checked = None if project_id is None else checked_id(project_id)
    return await stores.run(patterns.project_actions(checked, limit, cursor))


async def held(stores: Stores, limit: int = patterns.PAGE, cursor: str | None = None) -> Page[Action]:
    """Those that wait, of all projects, by when they are due."""
    return await stores.run(patterns.held_actions(limit, cursor))


async def found(stores: Stores, project_id: str | None, id: str) -> Action:
    action = await looked_up(stores, None if project_id is None else checked_id(project_id), id)
    if action is None:
        whose = "no project" if project_id is None else f"the project {project_id}"
        raise NotFound(
            f"There is no action {id} of {whose}: it was never there, or its ninety days are over."
        )
    return action


async def looked_up(stores: Stores, project_id: ProjectId | None, id: str) -> Action | None:
    at = made_at(id)
    near = await stores.all(patterns.actions_between(project_id, at - AROUND, at + AROUND))
    return next((each for each in near if each.id == id.upper()), None)


async def approve(stores: Stores, project_id: str | None, id: str, *, by: str) -> Action:
    """It is due at once."""
    seen = await found(stores, project_id, id)
    return await HOLD.approve(stores, seen, *_told(stores, seen, EventType.action_approved, by), by=_who(by))


async def edit(
    stores: Stores,
    project_id: str | None,
    id: str,
    *,
    by: str,
    detail: Mapping[str, Any] | None = None,
    description: str | None = None,
) -> Action:
    """Its content is another, and the hold goes on. What is given of `detail` takes the place of what was there."""
    seen = await found(stores, project_id, id)
    changes: dict[str, Any] = {}
    if detail:
        changes["detail"] = _edited(seen, detail)
    if description is not None:
        changes["description"] = _text("description", description)
    told = _told(stores, seen, EventType.action_edited, by, changed=sorted(detail or changes))
    return await HOLD.edit(stores, seen, *told, by=_who(by), **changes)


async def cancel(
    stores: Stores, project_id: str | None, id: str, *, by: str, reason: str | None = None
) -> Action:
    """It is never done."""
    seen = await found(stores, project_id, id)
    told = _told(stores, seen, EventType.action_cancelled, by, reason=reason or "")
    return await HOLD.cancel(stores, seen, *told, by=_who(by), reason=reason)


async def reopen(stores: Stores, project_id: str | None, id: str, *, by: str) -> Action:
    """One that was refused is due again. Of one that may have been done, who reopens it says that it was not."""
    seen = await found(stores, project_id, id)
    told = _told(stores, seen, EventType.action_reopened, by, refused=seen.refused or "")
    return await HOLD.reopen(stores, seen, *told, by=_who(by))


def _told(stores: Stores, action: Action, type: EventType, by: str, **more: Any) -> tuple[Put[Any], ...]:
    verb = type.removeprefix("action_").capitalize()
    detail = {"action": action.id, "action_type": action.action_type, "by": by, **more}
    return recorded(stores, action.project_id, type, f"{verb} by {by}: {action.description}", detail)


def _who(by: str) -> str:
    return _text("by", by)


def _text(what: str, value: str) -> str:
    if not value.strip():
        raise InvalidRequest(f"{what} is empty: say it.")
    return value.strip()


def _edited(action: Action, detail: Mapping[str, Any]) -> dict[str, Any]:
    """The whole detail after the edit: what it is about stays, and what would go out is still something to send."""
    before = dict(action.detail or {})
    may = EDITABLE.get(str(before.get("kind")), ())
    if strangers := sorted(set(detail) - set(may)):
        raise InvalidRequest(
            f"{', '.join(strangers)} of this action cannot be edited: {', '.join(may) or 'nothing'} can. Cancel it where "
            "it should be another."
        )
    after = before | dict(detail)
    if before.get("kind") == MAIL:
        _refuse_unsendable(after)
    elif wrong := [name for name in may if not isinstance(after.get(name), str) or not after[name].strip()]:
        raise InvalidRequest(f"{', '.join(wrong)} must be a text, and not empty.")
    return after


def _refuse_unsendable(detail: Mapping[str, Any]) -> None:
    to, subject = detail.get("to"), detail.get("subject")
    if not isinstance(to, list | tuple) or not all(is_address(each) for each in to):
        raise InvalidRequest("to must be a list of mail addresses.")
    if isinstance(subject, str) and not subject.isprintable():
        raise InvalidRequest("subject must be one line of text.")
    try:
        OutgoingMail(to=tuple(to), subject=detail.get("subject", ""), text=detail.get("text", ""))
    except ValueError:
        raise InvalidRequest("A mail needs someone to go to, a subject and a text.") from None
