"""The audit of the console: what a user did, revealed or was refused.

    async with audit_effect(console, user, "redrive", system=system, target=queue.name) as effect:
        effect.note(moved=await redrive(stores, queue))

An effect is recorded before it happens, and its outcome afterwards. If the console dies in between, the
intent has no outcome, which the audit page shows as unknown. Entries are only appended: the outcome is a
second entry, next to its intent.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from holdfast.console.context import Console
from holdfast.console.model import AUDIT, AuditPhase, ConsoleAudit, get_entry
from holdfast.console.users import User
from holdfast.core.errors import HoldfastError, error_label
from holdfast.guarantees import AuditResult
from holdfast.model.entities import Put
from holdfast.runtime.stores import Stores

__all__ = [
    "Effect",
    "ShownEntry",
    "audit",
    "audit_effect",
    "build_audit_entry",
    "follow_effect",
    "pair_entries",
]

# After the id of the intent: the outcome is sorted right behind it.
OUTCOME_SUFFIX: Final = "#outcome"

log = logging.getLogger(__name__)


async def audit(
    console: Console,
    user: User,
    action: str,
    *,
    system: str | None = None,
    target: str | None = None,
    **details: Any,
) -> None:
    """Record what a user did or revealed. `target` and the details contain no personal data.

    For an action with an effect, use `audit_effect`.
    """
    await console.own.run(build_audit_entry(console, user, action, system=system, target=target, **details))


def build_audit_entry(
    console: Console,
    user: User,
    action: str,
    *,
    system: str | None = None,
    target: str | None = None,
    **details: Any,
) -> Put[ConsoleAudit]:
    """Return the write that records an action, for the transaction of the change that it documents."""
    day = console.own.now().date().isoformat()
    return AUDIT.record(
        console.own, details, day=day, user=user.name, action=action, system=system, target=target
    )


# --- effects ------------------------------------------------------------------------------------------------


@dataclass
class Effect:
    """What became of an intent: details for the audit, and why it failed."""

    details: dict[str, Any] = field(default_factory=dict)
    failure: str | None = None

    def note(self, **details: Any) -> None:
        """Add details to the outcome, such as a count. They contain no personal data."""
        self.details |= details

    def fail(self, reason: str) -> None:
        """Record that the effect failed, for code that raises no error."""
        self.failure = reason


@asynccontextmanager
async def audit_effect(
    console: Console,
    user: User,
    action: str,
    *,
    system: str | None = None,
    target: str | None = None,
    **details: Any,
) -> AsyncIterator[Effect]:
    """Record the intent of the user, run the block, and record its outcome. An error is recorded by its name
    and raised. `target` and the details contain no personal data.
    """
    entry = build_audit_entry(console, user, action, system=system, target=target, **details)
    async with follow_effect(console.own, entry.entity) as effect:
        yield effect


@asynccontextmanager
async def follow_effect(own: Stores, entry: ConsoleAudit) -> AsyncIterator[Effect]:
    """Record the entry as an intent, run the block, and record its outcome."""
    intent, effect = entry.model_copy(update={"phase": AuditPhase.INTENT}), Effect()
    await own.run(AUDIT.pattern_set.append(intent))
    try:
        yield effect
    except Exception as error:
        effect.fail(error_label(error))
        await _record_outcome(own, intent, effect)
        raise
    await _record_outcome(own, intent, effect)


async def _record_outcome(own: Stores, intent: ConsoleAudit, effect: Effect) -> None:
    """Record the outcome. If that fails, it stays unknown: the effect has happened all the same."""
    attributes = {name: getattr(intent, name) for name in ("day", "user", "action", "system", "target")}
    try:
        outcome = AUDIT.record(
            own,
            {**intent.parsed_payload, **effect.details},
            at=intent.at,
            id=intent.entry_id + OUTCOME_SUFFIX,
            phase=AuditPhase.OUTCOME,
            result=AuditResult(ok=effect.failure is None, reason=effect.failure),
            **attributes,
        )
        await own.run(outcome)
    except HoldfastError as error:
        log.error("The outcome of the audit entry %s was not recorded.", intent.place, exc_info=error)


# --- reading ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ShownEntry:
    """One action, as the audit page lists it. `failure` says why its effect failed."""

    entry: ConsoleAudit
    is_unknown: bool = False
    failure: str | None = None


async def pair_entries(own: Stores, entries: Sequence[ConsoleAudit]) -> list[ShownEntry]:
    """Return one row for each action of a page of entries, newest first.

    The outcome of the first intent may be on the page before.
    """
    shown: list[ShownEntry] = []
    known: str | None = None
    for number, each in enumerate(entries):
        if each.phase is AuditPhase.INTENT:
            place = each.place + OUTCOME_SUFFIX
            is_before = number == 0 and await own.run(get_entry(each.day, place)) is not None
            if place != known and not is_before:
                shown.append(ShownEntry(each, is_unknown=True))
            continue
        known = each.place
        failure = None if each.result is None or each.result.ok else each.result.reason or "no reason given"
        shown.append(ShownEntry(each, failure=failure))
    return shown
