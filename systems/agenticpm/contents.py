"""The contents of artefacts: their schemas, and what must hold between their fields."""

from __future__ import annotations

from enum import StrEnum
from typing import Any


class ArtefactType(StrEnum):
    delivery_state = "delivery_state"
    raid_log = "raid_log"
    backlog_summary = "backlog_summary"
    decision_log = "decision_log"


def checked_content(type: ArtefactType, content: dict[str, Any]) -> None:
    """Raises ValueError where a content breaks its schema. Being written."""
