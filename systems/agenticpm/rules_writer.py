"""The writer that needs no model: artefacts by rules, the same from the same facts, for nothing.

It writes what `writing/` says and lets it pass its schema before anybody sees it. Where Claude writes, this is what is
fallen back on when the day's budget is spent or what came back does not hold.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from agenticpm.contents import ArtefactType, checked_content, plain
from agenticpm.thresholds import Thresholds
from agenticpm.tickets import Draft, Writing
from agenticpm.writing.backlog_summary import backlog_summary
from agenticpm.writing.delivery_state import delivery_state
from agenticpm.writing.raid_log import raid_log
from holdfast.guarantees import fingerprint

# What changes though nothing has happened.
_TIMES: Final = ("last_synced",)
_TIMES_OF_FACTS: Final = (*_TIMES, "raised_date", "last_reviewed")


class RulesWriter:
    """Writes each artefact by rules. The RAID log goes before the delivery state, which counts its risks."""

    name = "rules"

    def __init__(self, thresholds: Thresholds | None = None) -> None:
        self._thresholds = thresholds or Thresholds()

    async def write(self, writing: Writing) -> Draft:
        type = ArtefactType(writing.type)
        content = plain(checked_content(type, self._content(type, writing)))
        return Draft(content=content, writer=self.name, facts=facts_of(content))

    def _content(self, type: ArtefactType, writing: Writing) -> Mapping[str, Any]:
        match type:
            case ArtefactType.delivery_state:
                return delivery_state(writing, self._thresholds)
            case ArtefactType.raid_log:
                return raid_log(writing, self._thresholds)
            case ArtefactType.backlog_summary:
                return backlog_summary(writing, self._thresholds)
            case ArtefactType.decision_log:
                # Only what people decide comes into it.
                return writing.previous or {"decisions": []}


def same_but_for_time(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> bool:
    """Whether a content says nothing new. Who keeps it then stores no version: a quiet cycle changes nothing."""
    if before is None:
        return False
    return _lasting(before) == _lasting(after)


def facts_of(content: Mapping[str, Any]) -> str:
    """What a content says, but for times, as one text: by it a writer's next draft is found to say nothing new."""
    return fingerprint(json.dumps(_timeless(content), sort_keys=True, default=str))


def _timeless(value: Any) -> Any:
    """Without the times at which something was raised, looked at or read: raised once more, they would be others."""
    if isinstance(value, Mapping):
        return {name: _timeless(each) for name, each in value.items() if name not in _TIMES_OF_FACTS}
    return [_timeless(each) for each in value] if isinstance(value, list | tuple) else value


def _lasting(content: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in content.items() if name not in _TIMES}
