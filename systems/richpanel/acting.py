"""Actions at the help desk, each once and under its own key: intent, act, outcome and audit.

The help desk knows no idempotency. It keeps the reference that comes with a call, and by that reference an action whose
outcome nobody knows is looked up before it is repeated.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from holdfast import Stores, Write
from holdfast.errors import Defect, IdempotencyMismatch, PartyFailed
from holdfast.guarantees import fingerprint
from richpanel import patterns
from richpanel.model import ActionType, IdempotencyRecord, Kind
from richpanel.parties import HelpDesk
from richpanel.rules import Action, Decision, Facts
from richpanel.settings import RichpanelSettings

# How long the help desk has to act. Its client gives up before that, and the lease of a record ends after it.
ACT_S: Final = 6.0
REASONS_CHARS_MAX: Final = 600

Outcome = dict[str, Any]
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Actor:
    stores: Stores
    desk: HelpDesk
    settings: RichpanelSettings

    async def do(self, event_id: str, facts: Facts, decision: Decision, action: Action) -> None:
        """Does it, or finds that it was done."""

        async def act(reference: str) -> Outcome:
            return await self._at_desk(facts.event.conversation_id, action, reference)

        done = await self.desk.pacing.paced(lambda: self._once(event_id, facts, decision, action, act))
        if not done:
            self.stores.count("actions_done", type=action.type)

    async def was_done(self, event_id: str, facts: Facts, decision: Decision, action: Action) -> bool:
        """Of an action that may no longer be begun: whether an earlier attempt has done it. Then it is recorded so."""
        if await self.stores.run(patterns.record(action.key)) is None:
            return False

        async def refuse(_: str) -> Outcome:
            raise Withdrawn("A switch was turned before this could be done.", may_be_done=False)

        try:
            await self._once(event_id, facts, decision, action, refuse)
        except Withdrawn:
            return False
        return True

    def audit(
        self,
        facts: Facts,
        decision: Decision,
        action: Action,
        *,
        shadow: bool = False,
        failure: str | None = None,
    ) -> Sequence[Write[Any]]:
        """The entry of an action, where this environment keeps an audit."""
        return self._entry(
            told(facts, decision, action),
            conversation_id=facts.event.conversation_id,
            action_type=action.type,
            idempotency_key=action.key,
            shadow=shadow,
            result={"ok": failure is None, "reason": failure},
        )

    def nothing(
        self, conversation_id: str, event_id: str, reason: str, *, failure: str | None = None
    ) -> Sequence[Write[Any]]:
        """The entry of an event for which nothing was done. Its key is the event's."""
        return self._entry(
            {"reasons": reason[:REASONS_CHARS_MAX]},
            conversation_id=conversation_id,
            action_type=ActionType.ignore,
            idempotency_key=event_id,
            result={"ok": failure is None, "reason": failure},
        )

    def _entry(self, told: dict[str, Any], **attributes: Any) -> Sequence[Write[Any]]:
        if not self.settings.audit:
            return ()
        now = datetime.fromtimestamp(self.stores.clock.now(), UTC)
        ends = now + timedelta(days=self.settings.audit_days)
        return (patterns.AUDIT.entry(self.stores, told, expires_at=ends, **attributes),)

    async def _once(
        self,
        event_id: str,
        facts: Facts,
        decision: Decision,
        action: Action,
        act: Callable[[str], Awaitable[Outcome]],
    ) -> bool:
        """Whether it had been done before."""

        async def look_up(reference: str) -> Outcome | None:
            found = await self.desk.done(facts.event.conversation_id, reference)
            return None if found is None else _outcome(found)

        try:
            done = await patterns.ACTIONS.outside(
                self.stores,
                self._record(event_id, facts, action),
                act=act,
                look_up=look_up,
                act_s=ACT_S,
                writes=lambda _: self.audit(facts, decision, action),
            )
        except Withdrawn:
            raise
        except PartyFailed as failed:
            self.stores.count("party_failures", may_be_done=str(failed.may_be_done).lower())
            raise
        except IdempotencyMismatch as error:
            # Of the event it would say that another came under its id; of an action it is a mistake of ours.
            raise Defect(
                f"{action.key} was used for another action: an event must not plan two under one key."
            ) from error
        return done.replayed

    def _record(self, event_id: str, facts: Facts, action: Action) -> IdempotencyRecord:
        return IdempotencyRecord(
            event_id=action.key,
            kind=Kind.action,
            conversation_id=facts.event.conversation_id,
            payload_sha256=fingerprint({"type": action.type, "target": action.target}),
            action_type=action.type,
            of_event=event_id,
            expires_at=facts.now.replace(microsecond=0) + timedelta(days=self.settings.idempotency_days),
        )

    async def _at_desk(self, ticket: str, action: Action, reference: str) -> Outcome:
        match action.type:
            case ActionType.route | ActionType.escalate:
                return _outcome(await self.desk.assign(ticket, action.target, reference))
            case ActionType.tag:
                return _outcome(await self.desk.tag(ticket, action.target, reference))
            case ActionType.auto_reply:
                return _outcome(await self.desk.reply(ticket, action.text, reference))
            case ActionType.suggest:
                return _outcome(await self.desk.note(ticket, action.text, reference))
        raise Defect(f"A {action.type} is no effect at the help desk: no plan may hold one.")


class Withdrawn(PartyFailed, label="Withdrawn"):
    """An action that was planned and may no longer be begun. Nobody was asked, and it stays open to be done."""


def told(facts: Facts, decision: Decision, action: Action) -> dict[str, Any]:
    """What the audit says of an action: names, numbers and reasons of ours, and nothing that a customer wrote."""
    return {
        "target": action.target,
        "intent": facts.classification.label,
        "confidence": round(facts.classification.confidence, 3),
        "mode": decision.mode,
        "reasons": "; ".join(decision.reasons)[:REASONS_CHARS_MAX],
    }


def _outcome(activity: dict[str, Any]) -> Outcome:
    """What is kept of the party's answer: its number, and not what was said."""
    return {"activity": activity.get("number")}
