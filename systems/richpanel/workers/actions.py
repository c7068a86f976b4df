"""Actions at the help desk, each done once under its own key: intent, call, outcome and audit.

The help desk does not support idempotency. It stores the reference that comes with a call; an action with an
unknown outcome is looked up by that reference before it is repeated.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from holdfast import Stores, Write
from holdfast.core.errors import ExternalServiceFailed, IdempotencyMismatch, InternalError
from holdfast.guarantees import fingerprint
from richpanel.domain.rules import Decision, Facts, HelpDeskAction
from richpanel.integrations.clients import HelpDeskClient
from richpanel.model import patterns
from richpanel.model.entities import ActionType, IdempotencyRecord, RecordKind
from richpanel.settings import RichpanelSettings

# The time limit of a help desk call. The client's timeout is shorter, and the record's lease is longer.
ACT_S: Final = 6.0
MAX_REASONS_CHARS: Final = 600

Outcome = dict[str, Any]
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ActionRunner:
    """Runs actions at the help desk."""

    stores: Stores
    desk: HelpDeskClient
    settings: RichpanelSettings

    async def run(self, event_id: str, facts: Facts, decision: Decision, action: HelpDeskAction) -> None:
        """Run an action, unless it was already done. Wait and repeat it after a 429. Count it if it was done
        now.
        """

        async def act(reference: str) -> Outcome:
            return await self._call_help_desk(facts.event.conversation_id, action, reference)

        done = await self.desk.pacer.call(lambda: self._run_once(event_id, facts, decision, action, act))
        if not done:
            self.stores.count("actions_done", type=action.type)

    async def check_done(
        self, event_id: str, facts: Facts, decision: Decision, action: HelpDeskAction
    ) -> bool:
        """Return whether an earlier attempt did an action that may no longer be started. If so, record it as
        done.
        """
        if await self.stores.run(patterns.record(action.key)) is None:
            return False

        async def refuse(_: str) -> Outcome:
            raise Withdrawn(
                "An operator changed the switches before this action was started.", may_be_done=False
            )

        try:
            await self._run_once(event_id, facts, decision, action, refuse)
        except Withdrawn:
            return False
        return True

    def build_audit_entry(
        self,
        facts: Facts,
        decision: Decision,
        action: HelpDeskAction,
        *,
        shadow: bool = False,
        failure: str | None = None,
    ) -> Sequence[Write[Any]]:
        """Build the write of an action's audit entry; an empty sequence if the audit is off.

        `shadow` marks an action that was only recorded, `failure` says why it was not done.
        """
        return self._build_entry(
            build_audit_payload(facts, decision, action),
            conversation_id=facts.event.conversation_id,
            action_type=action.type,
            idempotency_key=action.key,
            shadow=shadow,
            result={"ok": failure is None, "reason": failure},
        )

    def build_no_action_entry(
        self, conversation_id: str, event_id: str, reason: str, *, failure: str | None = None
    ) -> Sequence[Write[Any]]:
        """Build the audit write of an event without an action, under the event's key; empty if the audit is
        off. `failure` says why nothing was done, if that is a failure.
        """
        return self._build_entry(
            {"reasons": reason[:MAX_REASONS_CHARS]},
            conversation_id=conversation_id,
            action_type=ActionType.ignore,
            idempotency_key=event_id,
            result={"ok": failure is None, "reason": failure},
        )

    def _build_entry(self, payload: dict[str, Any], **attributes: Any) -> Sequence[Write[Any]]:
        """Build the write of an audit entry; an empty sequence if the audit is off."""
        if not self.settings.audit:
            return ()
        now = self.stores.now()
        ends = now + timedelta(days=self.settings.audit_days)
        return (patterns.AUDIT.record(self.stores, payload, expires_at=ends, **attributes),)

    async def _run_once(
        self,
        event_id: str,
        facts: Facts,
        decision: Decision,
        action: HelpDeskAction,
        act: Callable[[str], Awaitable[Outcome]],
    ) -> bool:
        """Run `act` once under the action's key, and write its audit entry with the outcome.

        Look an unknown outcome up at the help desk first. Return whether the action had been done before.
        Raise `ExternalServiceFailed` if the call fails, `InternalError` if the key has another action.
        """

        async def look_up(reference: str) -> Outcome | None:
            found = await self.desk.find_activity(facts.event.conversation_id, reference)
            return None if found is None else _build_outcome(found)

        try:
            done = await patterns.ACTIONS.call_external(
                self.stores,
                self._build_record(event_id, facts, action),
                act=act,
                look_up=look_up,
                act_s=ACT_S,
                writes=lambda _: self.build_audit_entry(facts, decision, action),
            )
        except Withdrawn:
            raise
        except ExternalServiceFailed as failed:
            self.stores.count("party_failures", may_be_done=str(failed.may_be_done).lower())
            raise
        except IdempotencyMismatch as error:
            # Events may share an id by the sender's fault; two actions under one key are a bug.
            raise InternalError(
                f"The key {action.key} was used for another action: an event must not plan two under one key."
            ) from error
        return done.replayed

    def _build_record(self, event_id: str, facts: Facts, action: HelpDeskAction) -> IdempotencyRecord:
        """Build the idempotency record of an action."""
        return IdempotencyRecord(
            event_id=action.key,
            kind=RecordKind.action,
            conversation_id=facts.event.conversation_id,
            payload_sha256=fingerprint({"type": action.type, "target": action.target}),
            action_type=action.type,
            of_event=event_id,
            expires_at=facts.now.replace(microsecond=0) + timedelta(days=self.settings.idempotency_days),
        )

    async def _call_help_desk(self, ticket: str, action: HelpDeskAction, reference: str) -> Outcome:
        """Make the help desk call of an action. Return what is stored of the response."""
        match action.type:
            case ActionType.route | ActionType.escalate:
                return _build_outcome(await self.desk.assign(ticket, action.target, reference))
            case ActionType.tag:
                return _build_outcome(await self.desk.add_tag(ticket, action.target, reference))
            case ActionType.auto_reply:
                return _build_outcome(await self.desk.reply(ticket, action.text, reference))
            case ActionType.suggest:
                return _build_outcome(await self.desk.add_note(ticket, action.text, reference))
        raise InternalError(f"Invalid action type {action.type} in a plan: the help desk has no such effect.")


class Withdrawn(ExternalServiceFailed, label="Withdrawn"):
    """A planned action that may no longer be started. The help desk was not called, and the action stays
    open.
    """


def build_audit_payload(facts: Facts, decision: Decision, action: HelpDeskAction) -> dict[str, Any]:
    """Build the audit payload of an action: names, numbers and reasons of the middleware, and no text of a
    customer.
    """
    return {
        "target": action.target,
        "intent": facts.classification.label,
        "confidence": round(facts.classification.confidence, 3),
        "mode": decision.mode,
        "reasons": "; ".join(decision.reasons)[:MAX_REASONS_CHARS],
    }


def _build_outcome(activity: dict[str, Any]) -> Outcome:
    """Return what is stored of the help desk's response: the activity's number, without its text."""
    return {"activity": activity.get("number")}
