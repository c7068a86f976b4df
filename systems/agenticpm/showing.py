"""What is kept, as people and programs are shown it: plain JSON, with the document's names, numbers as numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, Final

from pydantic import BaseModel

from agenticpm.model import Action, Event
from agenticpm.plain_text import many
from holdfast.guarantees import OnceStatus

# Of an action: what the guarantee needs to do it once is nobody's business.
ACTION_FIELDS: Final = (
    "id",
    "project_id",
    "action_type",
    "description",
    "detail",
    "confidence",
    "status",
    "executed",
    "held_until",
    "attempts",
    "executed_at",
    "reviewed_by",
    "reviewed_at",
    "review",
    "refused",
    "error",
    "created_at",
)
# What refusals of ours mean.
REFUSALS: Final[Mapping[str, str]] = {
    "another_party": "the integration leads to another site than it was held for, and nothing was sent",
}
EVENT_HIDDEN: Final = {"scope", "day"}


def shown(value: Any) -> Any:
    """Maps, lists, texts, numbers and nothing else."""
    if isinstance(value, Action):
        return _members(value, ACTION_FIELDS) | {"outcome": outcome_of(value)}
    if isinstance(value, Event):
        return _members(value, [name for name in type(value).model_fields if name not in EVENT_HIDDEN])
    if isinstance(value, BaseModel):
        return _members(value, type(value).model_fields)
    if isinstance(value, Mapping):
        return {str(name): shown(each) for name, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [shown(each) for each in value]
    return _plain(value)


def outcome_of(action: Action) -> str:
    """What became of an action, or will: in a sentence."""
    if action.executed_at is not None:
        return f"Done at {_at(action.executed_at)}."
    if action.status is OnceStatus.CANCELLED:
        return "It was cancelled and is never done."
    if action.refused is not None:
        why = REFUSALS.get(action.refused, f"{action.error}; `events list` says more")
        return f"It was refused for good ({action.refused}): {why}."
    if action.held_until is None:
        return f"It is {action.status}."
    if action.status is OnceStatus.HELD and not action.attempts:
        return f"It waits; it is done at {_at(action.held_until)} unless somebody stops it."
    return _unfinished(action)


def _unfinished(action: Action) -> str:
    """One that was begun. While its outcome is open, it is looked up, or asked for under the same key, and not before
    the party can no longer be at it."""
    error = "" if action.error is None else f", the last error: {action.error.removesuffix('.')}"
    tries = f"{many(action.attempts, 'attempt')}{error}"
    until = max(action.act_until or 0.0, action.in_progress_expires_at or 0.0)
    at = f"at {_at(datetime.fromtimestamp(until, UTC))}, or soon after" if until else "in a moment"
    if action.asked_since is None:
        return f"It is not done yet ({tries}); it is tried again {at}."
    since = _at(datetime.fromtimestamp(action.asked_since, UTC))
    return f"It is being executed, or may have been since {since} ({tries}); it is looked up before it is tried again, {at}."


def _at(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def _members(value: BaseModel, names: Iterable[str]) -> dict[str, Any]:
    fields = type(value).model_fields
    return {
        fields[name].serialization_alias or fields[name].alias or name: shown(getattr(value, name))
        for name in names
    }


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return value
