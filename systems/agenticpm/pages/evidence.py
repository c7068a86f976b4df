"""The evidence of a question or an action, as rows for a page: the signal, and what changed where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agenticpm.domain.diff import format_value

_SIGNAL_KEYS = ("signal", "subject", "summary", "severity", "evidence", "proposal", "related_raid_items")


@dataclass(frozen=True)
class Change:
    """One observation: a field, of a ticket if it is one's, before and after."""

    ticket: str
    field: str
    before: str
    after: str


@dataclass(frozen=True)
class Evidence:
    """Why the agent asks or acts."""

    signal: str = ""
    subject: str = ""
    summary: str = ""
    changes: tuple[Change, ...] = ()
    # Other facts of the context, by name.
    facts: tuple[tuple[str, str], ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to show."""
        return not (self.signal or self.summary or self.changes or self.facts)


def read_evidence(context: Mapping[str, Any] | None) -> Evidence:
    """Return the evidence in the context of an escalation, or in the cause of an action."""
    if not context:
        return Evidence()
    return Evidence(
        signal=str(context.get("signal") or "").replace("_", " "),
        subject=str(context.get("subject") or ""),
        summary=str(context.get("summary") or ""),
        changes=tuple(
            _read_change(each) for each in context.get("evidence") or () if isinstance(each, Mapping)
        ),
        facts=tuple(
            (str(name).replace("_", " "), format_value(value))
            for name, value in context.items()
            if name not in _SIGNAL_KEYS
        ),
    )


def _read_change(given: Mapping[str, Any]) -> Change:
    before = given.get("before")
    return Change(
        ticket=str(given.get("ticket") or ""),
        field=str(given.get("field") or "").replace("_", " "),
        before="" if before is None else format_value(before),
        after=format_value(given.get("after")),
    )
