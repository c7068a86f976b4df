"""Reviews of actions by people: list, find, approve, edit or cancel held actions; reopen refused ones.

Each review is one transaction with its event. An action is found by its id without a scan: a ULID contains
its creation time, and a project's actions are sorted by time.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from agenticpm.domain.addresses import is_address
from agenticpm.domain.autonomy import COMMENT, MAIL, MOVE
from agenticpm.domain.tickets import OutgoingMail
from agenticpm.model import patterns
from agenticpm.model.entities import Action, EventType, ProjectId
from agenticpm.model.events import build_event_writes
from agenticpm.model.patterns import ACTION_QUEUE
from agenticpm.model.projects import parse_project_id
from holdfast import Page, Put, Stores
from holdfast.core.errors import InvalidRequest, NotFound
from holdfast.model.ulids import parse_ulid

# The time in an id may differ slightly from the time in the item's key.
AROUND: Final = timedelta(minutes=1)
_ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_TIME_CHARS: Final = 10
# A ULID may contain a time beyond datetime's range.
_MAX_YEAR: Final = 9998

# The fields of the detail that an edit may change, by kind of action.
EDITABLE: Final[Mapping[str, tuple[str, ...]]] = {
    MAIL: ("to", "subject", "text"),
    COMMENT: ("text",),
    MOVE: ("status",),
}


def parse_ulid_time(id: str) -> datetime:
    """Return the creation time in a ULID. Raise InvalidRequest if the ULID is invalid."""
    milliseconds = 0
    for character in parse_ulid(id)[:_TIME_CHARS]:
        milliseconds = milliseconds * 32 + _ALPHABET.index(character)
    seconds, rest = divmod(milliseconds, 1000)
    if seconds >= datetime(_MAX_YEAR, 1, 1, tzinfo=UTC).timestamp():
        raise InvalidRequest(f"Invalid id {id!r}: its time is beyond the year {_MAX_YEAR}.")
    return datetime.fromtimestamp(seconds, UTC) + timedelta(milliseconds=rest)


async def list_of_project(
    stores: Stores, project_id: str | None, limit: int = patterns.PAGE, cursor: str | None = None
) -> Page[Action]:
    """Return one page of a project's actions, newest first; with None, of the actions without a project."""
    checked = None if project_id is None else parse_project_id(project_id)
    return await stores.run(patterns.project_actions(checked, limit, cursor))


async def list_held(stores: Stores, limit: int = patterns.PAGE, cursor: str | None = None) -> Page[Action]:
    """Return one page of the held actions of all projects, by due time."""
    return await stores.run(patterns.held_actions(limit, cursor))


async def get_action(stores: Stores, project_id: str | None, id: str) -> Action:
    """Return an action by its id; with None, one without a project. Raise NotFound if there is none."""
    action = await find_action(stores, None if project_id is None else parse_project_id(project_id), id)
    if action is None:
        whose = "no project" if project_id is None else f"the project {project_id}"
        raise NotFound(f"Action {id} of {whose} not found: it never existed, or its ninety days are over.")
    return action


async def find_action(stores: Stores, project_id: ProjectId | None, id: str) -> Action | None:
    """Return an action by its id, or None. Raise InvalidRequest if the id is not a ULID."""
    at = parse_ulid_time(id)
    near = await stores.all(patterns.actions_between(project_id, at - AROUND, at + AROUND))
    return next((each for each in near if each.id == id.upper()), None)


async def approve(stores: Stores, project_id: str | None, id: str, *, by: str) -> Action:
    """Approve a held action: it is due at once. `by` is the reviewer."""
    seen = await get_action(stores, project_id, id)
    return await ACTION_QUEUE.approve(
        stores,
        seen,
        *_build_review_event(stores, seen, EventType.action_approved, by),
        by=_check_reviewer(by),
    )


async def edit(
    stores: Stores,
    project_id: str | None,
    id: str,
    *,
    by: str,
    detail: Mapping[str, Any] | None = None,
    description: str | None = None,
) -> Action:
    """Edit a held action; the hold continues. The given fields of `detail` replace the present ones."""
    seen = await get_action(stores, project_id, id)
    changes: dict[str, Any] = {}
    if detail:
        changes["detail"] = _apply_edit(seen, detail)
    if description is not None:
        changes["description"] = _check_text("description", description)
    event = _build_review_event(stores, seen, EventType.action_edited, by, changed=sorted(detail or changes))
    return await ACTION_QUEUE.edit(stores, seen, *event, by=_check_reviewer(by), **changes)


async def cancel(
    stores: Stores, project_id: str | None, id: str, *, by: str, reason: str | None = None
) -> Action:
    """Cancel a held action: it is never executed. `by` is the reviewer."""
    seen = await get_action(stores, project_id, id)
    event = _build_review_event(stores, seen, EventType.action_cancelled, by, reason=reason or "")
    return await ACTION_QUEUE.cancel(stores, seen, *event, by=_check_reviewer(by), reason=reason)


async def reopen(stores: Stores, project_id: str | None, id: str, *, by: str) -> Action:
    """Reopen a refused action: it is due again.

    If its outcome is unknown, the reviewer states that it was not done.
    """
    seen = await get_action(stores, project_id, id)
    event = _build_review_event(stores, seen, EventType.action_reopened, by, refused=seen.refused or "")
    return await ACTION_QUEUE.reopen(stores, seen, *event, by=_check_reviewer(by))


def _build_review_event(
    stores: Stores, action: Action, type: EventType, by: str, **more: Any
) -> tuple[Put[Any], ...]:
    """Build the writes of the event of a review. `more` is added to its detail."""
    verb = type.removeprefix("action_").capitalize()
    detail = {"action": action.id, "action_type": action.action_type, "by": by, **more}
    return build_event_writes(
        stores, action.project_id, type, f"{verb} by {by}: {action.description}", detail
    )


def _check_reviewer(by: str) -> str:
    return _check_text("by", by)


def _check_text(what: str, value: str) -> str:
    """Return the text without surrounding blanks. Raise InvalidRequest if it is empty; `what` names it."""
    if not value.strip():
        raise InvalidRequest(f"{what} is empty. Give a value.")
    return value.strip()


def _apply_edit(action: Action, detail: Mapping[str, Any]) -> dict[str, Any]:
    """Return the whole detail after the edit.

    Raise InvalidRequest if a field is fixed or the result is not sendable.
    """
    before = dict(action.detail or {})
    may = EDITABLE.get(str(before.get("kind")), ())
    if strangers := sorted(set(detail) - set(may)):
        raise InvalidRequest(
            f"Cannot edit {', '.join(strangers)} of this action. Editable: {', '.join(may) or 'nothing'}. "
            "Cancel the action if it is wrong."
        )
    after = before | dict(detail)
    if before.get("kind") == MAIL:
        _refuse_unsendable(after)
    elif wrong := [name for name in may if not isinstance(after.get(name), str) or not after[name].strip()]:
        raise InvalidRequest(f"Invalid {', '.join(wrong)}: expected a text that is not empty.")
    return after


def _refuse_unsendable(detail: Mapping[str, Any]) -> None:
    """Raise InvalidRequest if the detail is not a valid mail."""
    to, subject = detail.get("to"), detail.get("subject")
    if not isinstance(to, list | tuple) or not all(is_address(each) for each in to):
        raise InvalidRequest("to must be a list of mail addresses.")
    if isinstance(subject, str) and not subject.isprintable():
        raise InvalidRequest("subject must be one line of text.")
    try:
        OutgoingMail(to=tuple(to), subject=detail.get("subject", ""), text=detail.get("text", ""))
    except ValueError:
        raise InvalidRequest("A mail needs a recipient, a subject and a text.") from None
