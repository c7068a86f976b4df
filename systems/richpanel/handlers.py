"""The worker: takes an event from the queue and sees it through, once.

    switches → claim → facts (the text, fetched by id) → decision, kept as the plan → actions, each under its own key →
    state, shadow audit and completion in one transaction

It may be killed after any of these steps. The event then comes again, and goes on where it stood.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from holdfast import Handler, Put, Received, Stores, open_secrets
from holdfast.ai import Classifier
from holdfast.errors import (
    IdempotencyMismatch,
    NotFound,
    RetryLater,
    SettingsError,
    TransactionCancelled,
)
from holdfast.guarantees import Claim
from richpanel import patterns
from richpanel.acting import Actor
from richpanel.archive import archive_event
from richpanel.gathering import Gatherer
from richpanel.intents import intent_classifier
from richpanel.model import ConversationState, IdempotencyRecord, Kind, Mode
from richpanel.pacing import Pacing
from richpanel.parties import HelpDesk, OrderDesk, make_client
from richpanel.payloads import EventMessage
from richpanel.plans import Plan, kept_to, plan_text
from richpanel.progress import next_state
from richpanel.rules import Decision, Facts, decide
from richpanel.settings import HELPDESK_VARIABLE, RichpanelSettings
from richpanel.switchboard import Switchboard
from richpanel.switches import SwitchPosition

STATE_TRIES_MAX: Final = 5
API_KEY: Final = "richpanel_api_key"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Worker:
    """One per process. Everything it does is safe to be done by several at once."""

    stores: Stores
    switchboard: Switchboard
    gatherer: Gatherer
    actor: Actor
    settings: RichpanelSettings

    async def handle(self, received: Received[EventMessage]) -> None:
        message = received.message
        if not message.names_no_message:
            await self._once(message)
            return
        self.stores.count("fallback_keys_used", source=message.key_source)
        for each in await self.gatherer.named(message):
            # What came with its text before has another hash, and is the same message all the same.
            await self._once(each, changed="copy")

    async def _once(self, message: EventMessage, *, changed: str = "changed") -> None:
        if await self._came_before(message):
            self._drop(message, "fallback")
            return
        position = await self.switchboard.position()
        try:
            done = await patterns.EVENTS.do(
                self.stores,
                self._record(message, position),
                lambda claim: self._process(claim, message, position),
            )
        except IdempotencyMismatch:
            # The first copy counts. What else came under its id is neither done nor tried again.
            self._drop(message, changed)
            return
        if done.replayed:
            self._drop(message, "copy")

    # --- one event ------------------------------------------------------------------------------------------

    async def _process(
        self, claim: Claim[IdempotencyRecord], message: EventMessage, position: SwitchPosition
    ) -> None:
        facts = await self.gatherer.facts(message, position)
        if facts is None:
            log.warning("The help desk no longer has %s: there is nothing to do.", message.event_id)
            await claim.complete(result={"gone": True})
            return
        if self.settings.archive:
            await archive_event(self.stores, message, facts.event)
        plan = await self._plan(claim, facts)
        done = list(plan.decision.actions)
        for action in done:
            await self.actor.do(claim.key, facts, plan.decision, action)
        for action in plan.withdrawn:
            if await self.actor.was_done(claim.key, facts, plan.decision, action):
                done.append(action)
        await self._complete(claim, facts, replace(plan.decision, actions=tuple(done)))
        self._tell(message, facts, plan.decision)

    async def _plan(self, claim: Claim[IdempotencyRecord], facts: Facts) -> Plan:
        fresh = decide(facts)
        if claim.record.plan is not None:
            return kept_to(claim.record.plan, fresh)
        await claim.keep(plan=plan_text(fresh), intent=facts.classification.label, mode=fresh.mode)
        return Plan(fresh)

    async def _complete(self, claim: Claim[IdempotencyRecord], facts: Facts, decision: Decision) -> None:
        """Where the state was changed meanwhile, it is read again: what was done stays done."""
        shadows = [
            write for each in decision.would for write in self.actor.audit(facts, decision, each, shadow=True)
        ]
        for _ in range(STATE_TRIES_MAX):
            try:
                await claim.complete(
                    _state_write(facts, decision), *shadows, result={"actions": len(decision.actions)}
                )
                return
            except TransactionCancelled:
                facts = replace(facts, state=await self.gatherer.state(facts.event.conversation_id))
        raise RetryLater("The conversation's state is being changed by others all the time: come again.")

    # --- before and after -----------------------------------------------------------------------------------

    async def _came_before(self, message: EventMessage) -> bool:
        """Of a message without an id: whether a copy fell into the bucket before."""
        if message.previous_event_id is None:
            return False
        self.stores.count("fallback_keys_used", source=message.key_source)
        seen = await self.stores.run(patterns.record(message.previous_event_id))
        return (
            seen is not None
            and seen.payload_sha256 == message.payload_sha256
            and not seen.has_ended(self.stores.clock.now())
        )

    def _record(self, message: EventMessage, position: SwitchPosition) -> IdempotencyRecord:
        received = message.received_at.replace(microsecond=0)
        return IdempotencyRecord(
            event_id=message.event_id,
            kind=Kind.event,
            conversation_id=message.conversation_id,
            payload_sha256=message.payload_sha256,
            payload_bytes=message.payload_bytes,
            mode=Mode.route_only,
            safe_mode=position.safe_mode,
            automation_enabled=position.automation_enabled,
            received_at=message.received_at,
            source_message_id=message.source_message_id,
            expires_at=received + timedelta(days=self.settings.idempotency_days),
        )

    def _drop(self, message: EventMessage, kind: str) -> None:
        self.stores.count("duplicates_dropped", kind=kind)
        log.info("%s came again (%s) and is dropped.", message.event_id, kind)

    def _tell(self, message: EventMessage, facts: Facts, decision: Decision) -> None:
        automated = "yes" if decision.mode is Mode.automation_candidate and not decision.would else "no"
        self.stores.count("events_processed", mode=decision.mode, automated=automated)
        taken_s = self.stores.clock.now() - message.received_at.timestamp()
        self.stores.measure("seconds_to_route", max(0.0, taken_s))
        log.info("%s: %s", message.event_id, "; ".join(decision.reasons))


def _state_write(facts: Facts, decision: Decision) -> Put[ConversationState]:
    wanted = next_state(facts, decision)
    if facts.state is None:
        return patterns.create_state(wanted)
    return patterns.put_state(wanted, facts.state.version)


@asynccontextmanager
async def handling(stores: Stores) -> AsyncIterator[Handler]:
    """A worker with its clients open, for as long as it is entered."""
    settings = RichpanelSettings.load()
    if not settings.helpdesk_url:
        raise SettingsError(
            f"Nobody says where the help desk is: set {HELPDESK_VARIABLE} to its address, or to that of the sandbox "
            "(holdfast run richpanel --sandbox helpdesk)."
        )
    async with make_client(settings.helpdesk_url, _api_key()) as http:
        pacing = made_pacing(stores, settings)
        desk, shop = HelpDesk(http, pacing), OrderDesk(http, pacing)
        worker = made_worker(stores, desk, shop, intent_classifier(), settings)
        yield worker.handle


def made_pacing(stores: Stores, settings: RichpanelSettings) -> Pacing:
    """The pace of a process: what the help desk says, and the budget of all workers where one is set."""

    def refused() -> None:
        stores.count("too_many_requests")

    if not settings.calls_max:
        return Pacing(refused=refused)
    return Pacing(lambda: patterns.CALLS.take(stores, patterns.HELP_DESK), refused)


def made_worker(
    stores: Stores, desk: HelpDesk, shop: OrderDesk, classifier: Classifier, settings: RichpanelSettings
) -> Worker:
    return Worker(
        stores,
        Switchboard(stores),
        Gatherer(stores, desk, shop, classifier, settings),
        Actor(stores, desk, settings),
        settings,
    )


def _api_key() -> str:
    """A sandbox asks for none."""
    try:
        return open_secrets().get(API_KEY).current
    except NotFound:
        return ""
