"""The rules writer: it builds every artefact by rules, without a model, at no cost.

The same facts give the same content. It validates what the rules produce before returning it. The Claude
writer falls back to it when the day's budget is spent or the model's answer is invalid.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from agenticpm.domain.contents import ArtefactType, to_stored, validate_content
from agenticpm.domain.thresholds import Thresholds
from agenticpm.domain.tickets import Draft, Writing
from agenticpm.domain.writers.backlog_summary import build_backlog_summary
from agenticpm.domain.writers.delivery_state import build_delivery_state
from agenticpm.domain.writers.raid_log import build_raid_log
from holdfast.guarantees import fingerprint

# Fields that change although nothing happened.
_SYNC_TIMES: Final = ("last_synced",)
_ALL_TIMES: Final = (*_SYNC_TIMES, "raised_date", "last_reviewed")


class RulesWriter:
    """Writes each artefact by rules. Write the RAID log before the delivery state, which counts its risks."""

    name = "rules"

    def __init__(self, thresholds: Thresholds | None = None) -> None:
        self._thresholds = thresholds or Thresholds()

    async def write(self, writing: Writing) -> Draft:
        """Return the draft of the writing's artefact. A decision log stays as it is: only people decide."""
        type = ArtefactType(writing.type)
        content = to_stored(validate_content(type, self._build_content(type, writing)))
        return Draft(content=content, writer=self.name, facts=compute_facts_hash(content))

    def _build_content(self, type: ArtefactType, writing: Writing) -> Mapping[str, Any]:
        """Build the next content of an artefact; a decision log keeps its previous content."""
        match type:
            case ArtefactType.delivery_state:
                return build_delivery_state(writing, self._thresholds)
            case ArtefactType.raid_log:
                return build_raid_log(writing, self._thresholds)
            case ArtefactType.backlog_summary:
                return build_backlog_summary(writing, self._thresholds)
            case ArtefactType.decision_log:
                # Only decisions of people enter the log.
                return writing.previous or {"decisions": []}


def is_same_except_times(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> bool:
    """Return whether two contents differ at most in `last_synced`; False without an earlier one.

    The caller then stores no version: a quiet cycle changes nothing.
    """
    if before is None:
        return False
    return _remove_sync_times(before) == _remove_sync_times(after)


def compute_facts_hash(content: Mapping[str, Any]) -> str:
    """Return a hash of a content without sync, raise and review times. Equal hashes mean nothing new."""
    return fingerprint(json.dumps(_remove_times(content), sort_keys=True, default=str))


def _remove_times(value: Any) -> Any:
    """Remove the times of raising, reviewing and syncing: they would differ if the item were raised again."""
    if isinstance(value, Mapping):
        return {name: _remove_times(each) for name, each in value.items() if name not in _ALL_TIMES}
    return [_remove_times(each) for each in value] if isinstance(value, list | tuple) else value


def _remove_sync_times(content: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in content.items() if name not in _SYNC_TIMES}
