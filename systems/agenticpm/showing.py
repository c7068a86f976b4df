"""What is kept, as people and programs are shown it: plain JSON, with the document's names, numbers as numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, Final

from pydantic import BaseModel

from agenticpm.model import Action, Event

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
    "executed_at",
    "reviewed_by",
    "reviewed_at",
    "review",
    "refused",
    "error",
    "created_at",
)
EVENT_HIDDEN: Final = {"scope", "day"}


def shown(value: Any) -> Any:
    """Maps, lists, texts, numbers and nothing else."""
    if isinstance(value, Action):
        return _members(value, ACTION_FIELDS)
    if isinstance(value, Event):
        return _members(value, [name for name in type(value).model_fields if name not in EVENT_HIDDEN])
    if isinstance(value, BaseModel):
        return _members(value, type(value).model_fields)
    if isinstance(value, Mapping):
        return {str(name): shown(each) for name, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [shown(each) for each in value]
    return _plain(value)


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
