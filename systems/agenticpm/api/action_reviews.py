"""Reviews of actions by people: list, find, approve, edit or cancel held actions; reopen refused ones.

Each review is one transaction with its event (`model/review_rules.py`). An action is found by its id without
a scan: a ULID contains its creation time, and a project's actions are sorted by time.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from agenticpm.model import patterns
from agenticpm.model.entities import Action, ProjectId
from agenticpm.model.patterns import ACTION_QUEUE
from agenticpm.model.projects import parse_project_id
from agenticpm.model.review_rules import check_text
from holdfast import Page, Stores
from holdfast.core.errors import Conflict, InvalidRequest, NotFound
from holdfast.model.ulids import parse_ulid

# The time in an id may differ slightly from the time in the item's key.
AROUND: Final = timedelta(minutes=1)
_ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_TIME_CHARS: Final = 10
# A ULID may contain a time beyond datetime's range.
_MAX_YEAR: Final = 9998


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


async def approve(
    stores: Stores, project_id: str | None, id: str, *, by: str, revision: int | None = None
) -> Action:
    """Approve a held action: it is due at once. `by` is the reviewer.

    With a `revision`, here and in every review, raise Conflict if the action has another one by now: the
    reviewer decided about what they saw.
    """
    seen = await _get_seen(stores, project_id, id, revision)
    return await ACTION_QUEUE.approve(stores, seen, by=check_text("by", by))


async def edit(
    stores: Stores,
    project_id: str | None,
    id: str,
    *,
    by: str,
    detail: Mapping[str, Any] | None = None,
    description: str | None = None,
    revision: int | None = None,
) -> Action:
    """Edit a held action; the hold continues. The given fields of `detail` replace the present ones."""
    seen = await _get_seen(stores, project_id, id, revision)
    changes: dict[str, Any] = {}
    if detail:
        changes["detail"] = {**(seen.detail or {}), **detail}
    if description is not None:
        changes["description"] = check_text("description", description)
    return await ACTION_QUEUE.edit(stores, seen, by=check_text("by", by), **changes)


async def cancel(
    stores: Stores,
    project_id: str | None,
    id: str,
    *,
    by: str,
    reason: str | None = None,
    revision: int | None = None,
) -> Action:
    """Cancel a held action: it is never executed. `by` is the reviewer."""
    seen = await _get_seen(stores, project_id, id, revision)
    return await ACTION_QUEUE.cancel(stores, seen, by=check_text("by", by), reason=reason)


async def reopen(
    stores: Stores, project_id: str | None, id: str, *, by: str, revision: int | None = None
) -> Action:
    """Reopen a refused action: it is due again.

    If its outcome is unknown, the reviewer states that it was not done.
    """
    seen = await _get_seen(stores, project_id, id, revision)
    return await ACTION_QUEUE.reopen(stores, seen, by=check_text("by", by))


async def _get_seen(stores: Stores, project_id: str | None, id: str, revision: int | None) -> Action:
    """Return the action. Raise Conflict if it is not at the revision that the reviewer saw."""
    action = await get_action(stores, project_id, id)
    if revision is not None and action.revision != revision:
        raise Conflict(
            f"Somebody changed action {id} after you saw it, so nothing was done. Read what it says now, and "
            "decide again."
        )
    return action
