"""The worker: takes an event from the queue and sees it through, once.

    which message → switches → claim → facts (the text, fetched) → decision, kept as the plan → actions, each under its
    own key → state, audit of what was not done, and completion in one transaction

It may be killed after any of these steps. The event then comes again, and goes on where it stood.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final

from holdfast import Handler, Put, Received, Stores, Write, open_secrets
from holdfast.ai import Classifier
from holdfast.errors import (
    IdempotencyMismatch,
    NotFound,
    RetryLater,
    SettingsError,
    TransactionCancelled,
)
from holdfast.guarantees import Claim, OnceStatus
from richpanel import patterns
from richpanel.acting import Actor
from richpanel.archive import archive_event
from richpanel.gathering import Gatherer, Told
from richpanel.intents import intent_classifier
from richpanel.keys import Source, parsed
from richpanel.model import RECEIVES_MAX, ConversationState, IdempotencyRecord, Kind, Mode
from richpanel.pacing import Pacing
from richpanel.parties import HelpDesk, OrderDesk, make_client
from richpanel.payloads import EventMessage
from richpanel.plans import Plan, kept_to, plan_text
from richpanel.progress import customer_link, next_state
from richpanel.rules import Action, Decision, Facts, decide
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
        message, is_last = received.message, received.receives >= RECEIVES_MAX - 1
        if message.key_source is Source.message_id:
            await self._once(Told(message), is_last)
            return
        for told in await self._told(message, is_last):
            await self._once(told, is_last, copy=None if message.names_no_message else "copy")
        # Here at last, so that an event counts once however often it is tried.
        self.stores.count("fallback_keys_used", source=message.key_source)

    # --- which events it is -----------------------------------------------------------------------------------

    async def _told(self, message: EventMessage, is_last: bool) -> list[Told]:
        """Of a webhook without a message's id: the messages it is about."""
        if message.names_no_message:
            return [] if message.is_echo else await self.gatherer.news(message)
        if meant := await self.gatherer.meant(message):
            return [meant]
        if not is_last:
            raise RetryLater(f"The help desk has no message yet whose text is that of {message.event_id}.")
        # It may tell the text in another form than its webhook did: what is new there is done, whatever it was.
        log.warning("No message has the text of %s: all that is new is looked at.", message.event_id)
        return await self.gatherer.news(message)

    async def _once(self, told: Told, is_last: bool, *, copy: str | None = "changed") -> None:
        """`copy` is what a message is called that was done before under another hash. None: it was looked at again,
        and nothing is told of it."""
        told = replace(told, message=await self._first_named(told.message))
        position = await self.switchboard.position()
        record = self._record(told.message, position)

        async def process(claim: Claim[IdempotencyRecord]) -> None:
            await self._process(claim, told, position, is_last)

        try:
            done = await patterns.EVENTS.do(self.stores, record, process)
        except IdempotencyMismatch:
            seen = await self.stores.run(patterns.record(record.event_id))
            if seen is not None and seen.status is OnceStatus.PROCESSED:
                # The first copy counts. What else came under its id is neither done nor tried again.
                self._drop(told.message, copy)
                return
            # Another webhook was about the same message, and nobody has brought it to its end.
            sha256 = record.payload_sha256 if seen is None else seen.payload_sha256
            done = await patterns.EVENTS.do(
                self.stores, record.model_copy(update={"payload_sha256": sha256}), process
            )
        if done.replayed:
            self._drop(told.message, "copy" if copy == "changed" else copy)

    async def _first_named(self, message: EventMessage) -> EventMessage:
        """Of a message that has no id anywhere: under the key of a copy that fell into the bucket beside, if one did."""
        for key in filter(None, (message.previous_event_id, message.next_event_id)):
            seen = await self.stores.run(patterns.record(key))
            if seen is not None and not seen.has_ended(self.stores.clock.now()):
                first = {"event_id": key, "message_key": parsed(key).components[-1]}
                return message.model_copy(update=first | {"payload_sha256": seen.payload_sha256})
        return message

    # --- one event ------------------------------------------------------------------------------------------

    async def _process(
        self, claim: Claim[IdempotencyRecord], told: Told, position: SwitchPosition, is_last: bool
    ) -> None:
        facts = await self.gatherer.facts(told, position)
        if facts is None:
            await self._gone(claim, told.message, is_last)
            return
        if (link := customer_link(facts)) is not None:
            await self.stores.run(link)
        if self.settings.archive:
            await archive_event(self.stores, told.message, facts.event)
        plan = await self._plan(claim, facts)
        done = list(plan.decision.actions)
        left: list[Action] = []
        for action in done:
            await self.actor.do(claim.key, facts, plan.decision, action)
        for action in plan.withdrawn:
            was_done = await self.actor.was_done(claim.key, facts, plan.decision, action)
            (done if was_done else left).append(action)
        await self._complete(claim, facts, replace(plan.decision, actions=tuple(done)), left)
        self._tell(told.message, facts, plan.decision)

    async def _gone(self, claim: Claim[IdempotencyRecord], message: EventMessage, is_last: bool) -> None:
        """The ticket is there and the message is not. That may pass: it is believed at the last."""
        if not is_last:
            raise RetryLater(f"The help desk has the ticket of {message.event_id}, and not the message.")
        log.warning("The help desk no longer has %s: there is nothing to do.", message.event_id)
        reason = "the help desk no longer has the message"
        entry = self.actor.nothing(message.conversation_id, claim.key, reason, failure="gone")
        await claim.complete(*entry, result={"gone": True})
        self.stores.count("events_gone")

    async def _plan(self, claim: Claim[IdempotencyRecord], facts: Facts) -> Plan:
        fresh = decide(facts)
        if claim.record.plan is not None:
            return kept_to(claim.record.plan, fresh)
        await claim.keep(plan=plan_text(fresh), intent=facts.classification.label, mode=fresh.mode)
        return Plan(fresh)

    async def _complete(
        self, claim: Claim[IdempotencyRecord], facts: Facts, decision: Decision, left: Sequence[Action]
    ) -> None:
        """Where the state was changed meanwhile, it is read again: what was done stays done."""
        entries = self._entries(claim.key, facts, decision, left)
        for _ in range(STATE_TRIES_MAX):
            try:
                await claim.complete(
                    _state_write(facts, decision), *entries, result={"actions": len(decision.actions)}
                )
                return
            except TransactionCancelled:
                facts = replace(facts, state=await self.gatherer.state(facts.event.conversation_id))
        raise RetryLater("The conversation's state is being changed by others all the time: come again.")

    def _entries(
        self, key: str, facts: Facts, decision: Decision, left: Sequence[Action]
    ) -> list[Write[Any]]:
        """What the audit says beside what was done: what would have been, what was left, and why nothing was."""
        entries: list[Write[Any]] = []
        for each in decision.would:
            entries += self.actor.audit(facts, decision, each, shadow=True)
        for each in left:
            entries += self.actor.audit(facts, decision, each, failure="withdrawn")
        if decision.is_ignored:
            entries += self.actor.nothing(facts.event.conversation_id, key, "; ".join(decision.reasons))
        return entries

    # --- before and after -----------------------------------------------------------------------------------

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

    def _drop(self, message: EventMessage, kind: str | None) -> None:
        if kind is None:
            return
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
