"""Serializers for the API, commands and MCP tools: entities and values as JSON, with the document's names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, Final

from pydantic import BaseModel

from agenticpm.domain.plain_text import format_count
from agenticpm.model.entities import Action, Event
from holdfast.guarantees import OnceStatus

# The public fields of an action; the others are internals of the action queue.
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
# Explanations of our own refusal codes.
REFUSALS: Final[Mapping[str, str]] = {
    "another_party": "the integration points to another site than it was held for, and nothing was sent",
}
HIDDEN_EVENT_FIELDS: Final = {"scope", "day"}


def to_json(value: Any) -> Any:
    """Convert a value to JSON types.

    An action gets its outcome as a sentence; an event has no scope and day.
    """
    if isinstance(value, Action):
        return _to_members(value, ACTION_FIELDS) | {"outcome": format_outcome(value)}
    if isinstance(value, Event):
        return _to_members(
            value, [name for name in type(value).model_fields if name not in HIDDEN_EVENT_FIELDS]
        )
    if isinstance(value, BaseModel):
        return _to_members(value, type(value).model_fields)
    if isinstance(value, Mapping):
        return {str(name): to_json(each) for name, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_json(each) for each in value]
    return _to_json_value(value)


def format_outcome(action: Action) -> str:
    """Describe the past or expected outcome of an action in one sentence."""
    if action.executed_at is not None:
        return f"Done at {_format_time(action.executed_at)}."
    if action.status is OnceStatus.CANCELLED:
        return "It was cancelled and is never executed."
    if action.refused is not None:
        why = REFUSALS.get(action.refused, f"{action.error}; `events list` has the details")
        return f"It was refused permanently ({action.refused}): {why}."
    if action.held_until is None:
        return f"It is {action.status}."
    if action.status is OnceStatus.HELD and not action.attempts:
        return f"It is held; it is executed at {_format_time(action.held_until)} unless it is cancelled."
    return _format_unfinished(action)


def _format_unfinished(action: Action) -> str:
    """Describe an action that was started and is not done.

    While its outcome is open, it is looked up or retried under the same key, and only after the external
    service can no longer be executing it.
    """
    error = "" if action.error is None else f", the last error: {action.error.removesuffix('.')}"
    tries = f"{format_count(action.attempts, 'attempt')}{error}"
    until = max(action.act_until or 0.0, action.in_progress_expires_at or 0.0)
    at = f"at {_format_time(datetime.fromtimestamp(until, UTC))}, or soon after" if until else "in a moment"
    if action.asked_since is None:
        return f"It is not done yet ({tries}); it is retried {at}."
    since = _format_time(datetime.fromtimestamp(action.asked_since, UTC))
    return (
        f"It is being executed, or may have been executed since {since} ({tries}); it is looked up before it "
        f"is retried, {at}."
    )


def _format_time(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def _to_members(value: BaseModel, names: Iterable[str]) -> dict[str, Any]:
    """Return the named fields under their aliases, as JSON."""
    fields = type(value).model_fields
    return {
        fields[name].serialization_alias or fields[name].alias or name: to_json(getattr(value, name))
        for name in names
    }


def _to_json_value(value: Any) -> Any:
    """Convert a single value: times and days to ISO 8601, enums to their value, Decimal to int or float."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return value
