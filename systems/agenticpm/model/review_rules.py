"""The rules of a review of an action: which edits are valid, and the event that each review writes.

They apply to every review, whoever makes it: the API, an agent or the console.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from agenticpm.domain.addresses import is_address
from agenticpm.domain.autonomy import COMMENT, MAIL, MOVE
from agenticpm.domain.tickets import OutgoingMail
from agenticpm.model.entities import Action, EventType
from agenticpm.model.events import build_event_writes
from holdfast import Stores
from holdfast.core.errors import InvalidRequest
from holdfast.guarantees import Review, ReviewDecision
from holdfast.model.operations import Write

# The fields of the detail that an edit may change, by kind of action.
EDITABLE_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    MAIL: ("to", "subject", "text"),
    COMMENT: ("text",),
    MOVE: ("status",),
}
EDITABLE: Final = ("description", "detail")
_EVENTS: Final = {
    ReviewDecision.APPROVED: EventType.action_approved,
    ReviewDecision.EDITED: EventType.action_edited,
    ReviewDecision.CANCELLED: EventType.action_cancelled,
    ReviewDecision.REOPENED: EventType.action_reopened,
}


def build_review_writes(stores: Stores, review: Review[Action]) -> Sequence[Write[Any]]:
    """Return the writes of the review's event. Raise InvalidRequest for an invalid edit or reviewer."""
    action, by = review.seen, check_text("by", review.by)
    details: dict[str, Any] = {}
    if review.decision is ReviewDecision.EDITED:
        details["changed"] = _check_edit(action, review.changes)
    elif review.decision is ReviewDecision.CANCELLED:
        details["reason"] = review.reason or ""
    elif review.decision is ReviewDecision.REOPENED:
        details["refused"] = action.refused or ""
    type = _EVENTS[review.decision]
    verb = type.removeprefix("action_").capitalize()
    detail = {"action": action.id, "action_type": action.action_type, "by": by, **details}
    return build_event_writes(
        stores, action.project_id, type, f"{verb} by {by}: {action.description}", detail
    )


def check_text(what: str, value: Any) -> str:
    """Return the text without surrounding blanks. Raise InvalidRequest if it is empty; `what` names it."""
    if not isinstance(value, str) or not value.strip():
        raise InvalidRequest(f"{what} is empty. Give a value.")
    return value.strip()


def _check_edit(action: Action, changes: Mapping[str, Any]) -> list[str]:
    """Return the names of what the edit changes. Raise InvalidRequest if it changes something fixed."""
    _refuse_fixed(changes.keys() - set(EDITABLE), EDITABLE)
    if "description" in changes:
        check_text("description", changes["description"])
    if "detail" not in changes:
        return sorted(changes)
    before, after = dict(action.detail or {}), dict(changes["detail"] or {})
    names = before.keys() | after.keys()
    changed = {name for name in names if before.get(name) != after.get(name)}
    may = EDITABLE_FIELDS.get(str(before.get("kind")), ())
    _refuse_fixed(changed - set(may), may)
    if before.get("kind") == MAIL:
        _refuse_unsendable(after)
    elif wrong := [name for name in may if not isinstance(after.get(name), str) or not after[name].strip()]:
        raise InvalidRequest(f"Invalid {', '.join(wrong)}: expected a text that is not empty.")
    return sorted(changed | (changes.keys() - {"detail"}))


def _refuse_fixed(names: set[str], may: Sequence[str]) -> None:
    """Raise InvalidRequest if there are names of what an edit may not change."""
    if names:
        raise InvalidRequest(
            f"Cannot edit {', '.join(sorted(names))} of this action. Editable: "
            f"{', '.join(may) or 'nothing'}. Cancel the action if it is wrong."
        )


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
