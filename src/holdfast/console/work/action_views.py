"""Delayed actions as a page shows them: the list by state, one action's content, and what may be edited."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, Final

from holdfast.console.masking import Masker
from holdfast.console.work.declared import build_url
from holdfast.core.errors import InvalidRequest
from holdfast.guarantees import DelayedAction, DelayedActions, OnceStatus
from holdfast.guarantees.idempotency.record import format_key
from holdfast.model.entities import get_declaration
from holdfast.operations import numbers

__all__ = [
    "STATES",
    "ActionRow",
    "EditField",
    "Fact",
    "build_fields",
    "build_row",
    "describe_state",
    "list_facts",
    "parse_edit",
]

STATES: Final[Mapping[str, str]] = {
    "": "in the queue",
    "held": "waiting",
    "due": "due",
    "running": "running",
    "failed": "failed",
    "ended": "ended",
}
MAX_SUMMARY_CHARS: Final = 160


@dataclass(frozen=True)
class ActionRow:
    """One line of the list."""

    key: str
    url: str
    summary: str
    state: str
    kind: str
    due_at: datetime | None
    created_at: datetime | None
    attempts: int
    reviewed_by: str | None
    error: str | None


@dataclass(frozen=True)
class Fact:
    """An attribute of an action: its name and its value as text."""

    name: str
    value: str
    is_block: bool


@dataclass(frozen=True)
class EditField:
    """An attribute that can be edited: as text, or as JSON. One with masked content cannot."""

    name: str
    text: str
    is_json: bool
    is_masked: bool


def build_row(
    actions: DelayedActions[Any], record: DelayedAction, masker: Masker, system: str, now: datetime
) -> ActionRow:
    """Return an action as a line of the list."""
    state, kind = describe_state(record, now)
    error = record.refused or record.error
    return ActionRow(
        format_key(record),
        build_url("actions", system, actions.name, format_key(record)),
        _summarize(actions, record, masker),
        state,
        kind,
        record.held_until,
        record.created_at,
        record.attempts,
        record.reviewed_by,
        None if error is None else str(masker.mask("error", error)),
    )


def describe_state(record: DelayedAction, now: datetime) -> tuple[str, str]:
    """Return the state of an action in words, and the kind of its badge."""
    if record.refused is not None:
        return f"refused ({record.refused})", "bad"
    if record.status is OnceStatus.HELD:
        is_due = record.held_until is not None and record.held_until <= now
        return ("due", "info") if is_due else ("waiting", "plain")
    return {
        OnceStatus.PROCESSING: ("running", "info"),
        OnceStatus.PROCESSED: ("done", "good"),
        OnceStatus.FAILED: ("failed", "warn"),
        OnceStatus.CANCELLED: ("cancelled", "plain"),
    }[record.status]


def list_facts(actions: DelayedActions[Any], record: DelayedAction, masker: Masker) -> list[Fact]:
    """Return the action's own attributes, masked: its key, and its content."""
    key = get_declaration(actions.entity).primary.attribute_names
    own = [name for name in actions.entity.model_fields if name in key or name in actions.editable]
    found = []
    for name in own:
        value = to_plain(getattr(record, name))
        if value is not None:
            shown = masker.mask(name, value, is_key=name in key)
            is_block = isinstance(shown, dict | list) or "\n" in str(shown)
            found.append(Fact(name, format_text(shown), is_block))
    return found


def build_fields(
    actions: DelayedActions[Any], record: DelayedAction, masker: Masker, names: Sequence[str]
) -> list[EditField]:
    """Return the fields of the form that edits the action."""
    found = []
    for name in names:
        value = to_plain(getattr(record, name))
        is_json = not isinstance(getattr(record, name), str)
        is_masked = masker.mask(name, value) != value
        found.append(EditField(name, "" if is_masked else format_text(value), is_json, is_masked))
    return found


def parse_edit(
    record: DelayedAction, fields: Sequence[EditField], given: Mapping[str, str]
) -> dict[str, Any]:
    """Return the attributes that a form changes, by their Python names.

    Raise `InvalidRequest` for text that is not JSON where JSON is expected, and for no change.
    """
    changes: dict[str, Any] = {}
    for field in fields:
        text = given.get(field.name)
        if text is None or field.is_masked or _normalize(text) == _normalize(field.text):
            continue
        changes[field.name] = _parse_json(field.name, text) if field.is_json else _normalize(text)
    if not changes:
        raise InvalidRequest("Nothing was changed: the form has the same content as the action.")
    return changes


def to_plain(value: Any) -> Any:
    """Return a value as JSON has it; numbers keep their digits."""
    if hasattr(value, "model_dump"):
        return to_plain(value.model_dump())
    if isinstance(value, Mapping):
        return {str(name): to_plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_plain(each) for each in value]
    if isinstance(value, Enum):
        return to_plain(value.value)
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return value.isoformat() if isinstance(value, datetime | date) else value


def format_text(value: Any) -> str:
    """Return text as it is, and anything else as JSON."""
    if isinstance(value, str):
        return value
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def _summarize(actions: DelayedActions[Any], record: DelayedAction, masker: Masker) -> str:
    """Return the action's texts in one line: those of its payload, which say what it would do."""
    texts = (masker.mask(name, getattr(record, name)) for name in actions.payload)
    line = " · ".join(each for each in texts if isinstance(each, str) and each) or record.describe()
    return line if len(line) <= MAX_SUMMARY_CHARS else line[: MAX_SUMMARY_CHARS - 1] + "…"


def _parse_json(name: str, text: str) -> Any:
    if not text.strip():
        return None
    try:
        return json.loads(text, parse_float=numbers.parse)
    except ValueError as error:
        raise InvalidRequest(
            f"Invalid {name}: expected JSON, and {error}. Correct it and save again."
        ) from error


def _normalize(text: str) -> str:
    """Return the text with the line ends that stores have: forms send others."""
    return text.replace("\r\n", "\n")
