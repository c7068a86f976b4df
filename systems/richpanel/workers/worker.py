"""The worker: process each event from the queue exactly once.

    resolve the message → feature flags → claim → facts (the text, fetched) → decision, stored as the plan
    → actions, each under its own key → state, audit of what was not done, and completion in one transaction

The worker may be killed after any of these steps. The queue then delivers the event again, and processing
resumes where it stopped.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final

from holdfast import Put, ReceivedMessage, Stores, Write
from holdfast.ai import Classifier
from holdfast.core.errors import (
    IdempotencyMismatch,
    NotFound,
    RetryLater,
    SettingsError,
    TransactionCancelled,
)
from holdfast.guarantees import Claim, OnceStatus
from holdfast.model.components import Handler
from holdfast.runtime import open_secrets
from richpanel.domain.feature_flags import FeatureFlags
from richpanel.domain.idempotency_keys import KeySource, parse_key
from richpanel.domain.inbound_events import EventMessage
from richpanel.domain.intents import get_intent_classifier
from richpanel.domain.plans import Plan, encode_plan, resume_plan
from richpanel.domain.rules import Decision, Facts, HelpDeskAction, decide
from richpanel.integrations.clients import HelpDeskClient, ShopClient, make_client
from richpanel.integrations.rate_limits import CallPacer
from richpanel.model import patterns
from richpanel.model.entities import MAX_RECEIVES, ConversationState, IdempotencyRecord, Mode, RecordKind
from richpanel.model.replay_archive import archive_event
from richpanel.settings import API_KEY_SECRET, HELPDESK_VARIABLE, RichpanelSettings
from richpanel.workers.actions import ActionRunner
from richpanel.workers.context import ContextLoader, ResolvedEvent
from richpanel.workers.feature_flags import FeatureFlagReader
from richpanel.workers.reply_quality import ReplyQualityReader
from richpanel.workers.state_updates import (
    build_customer_link,
    build_next_state,
    build_quality_counts,
)

MAX_STATE_ATTEMPTS: Final = 5

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Worker:
    """Processes events; one per process. Several workers may process the same event safely."""

    stores: Stores
    flag_reader: FeatureFlagReader
    quality_reader: ReplyQualityReader
    context_loader: ContextLoader
    action_runner: ActionRunner
    settings: RichpanelSettings

    async def handle(self, received: ReceivedMessage[EventMessage]) -> None:
        """Process one queue message: the event it names, or every recent message of its conversation.

        Raise `RetryLater` while the help desk does not have the message. On the last two deliveries before
        the dead-letter queue (`is_last`) give up waiting for it.
        """
        message, is_last = received.message, received.receive_count >= MAX_RECEIVES - 1
        if message.key_source is KeySource.message_id:
            await self._process_once(ResolvedEvent(message), is_last)
            return
        for event in await self._resolve_events(message, is_last):
            await self._process_once(
                event, is_last, duplicate_kind=None if message.is_without_message else "copy"
            )
        # Counted last, so that an event counts once however often it is attempted.
        self.stores.count("fallback_keys_used", source=message.key_source)

    # --- resolving events -----------------------------------------------------------------------------------

    async def _resolve_events(self, message: EventMessage, is_last: bool) -> list[ResolvedEvent]:
        """Return the messages that a webhook without a message id is about: the one with its text, or all
        recent ones. Raise `RetryLater` while no message has the text, unless `is_last`. Empty for a
        webhook that the middleware's own tag triggered.
        """
        if message.is_without_message:
            return [] if message.is_echo else await self.context_loader.find_recent_messages(message)
        if matched := await self.context_loader.match_by_text(message):
            return [matched]
        if not is_last:
            raise RetryLater(f"No message at the help desk matches the text of {message.event_id} yet.")
        # The API may return the text in another form than the webhook had, so process every new message.
        log.warning("No message matches the text of %s. Processing all new messages.", message.event_id)
        return await self.context_loader.find_recent_messages(message)

    async def _process_once(
        self, event: ResolvedEvent, is_last: bool, *, duplicate_kind: str | None = "changed"
    ) -> None:
        """Process an event unless it is already done.

        `duplicate_kind` is the metric label for a message that was done before under another hash. None: the
        message was only looked at again, and no duplicate is reported.
        """
        event = replace(event, message=await self._use_neighbour_key(event.message))
        flags = await self.flag_reader.read()
        record = self._build_record(event.message, flags)

        async def process(claim: Claim[IdempotencyRecord]) -> None:
            await self._process(claim, event, flags, is_last)

        try:
            done = await patterns.EVENTS.do(self.stores, record, process)
        except IdempotencyMismatch:
            seen = await self.stores.run(patterns.record(record.event_id))
            if seen is not None and seen.status is OnceStatus.PROCESSED:
                # The first copy counts. Other content under its id is neither processed nor retried.
                self._report_duplicate(event.message, duplicate_kind)
                return
            # Another webhook claimed the same message, and no worker has completed it.
            sha256 = record.payload_sha256 if seen is None else seen.payload_sha256
            done = await patterns.EVENTS.do(
                self.stores, record.model_copy(update={"payload_sha256": sha256}), process
            )
        if done.replayed:
            self._report_duplicate(event.message, "copy" if duplicate_kind == "changed" else duplicate_kind)

    async def _use_neighbour_key(self, message: EventMessage) -> EventMessage:
        """Return the message under the key of an earlier copy in a neighbouring time bucket, if there is one.
        Only fallback keys have neighbours.
        """
        for key in filter(None, (message.previous_event_id, message.next_event_id)):
            seen = await self.stores.run(patterns.record(key))
            if seen is not None and not seen.has_expired(self.stores.clock.now()):
                first = {"event_id": key, "message_key": parse_key(key).components[-1]}
                return message.model_copy(update=first | {"payload_sha256": seen.payload_sha256})
        return message

    # --- one event ------------------------------------------------------------------------------------------

    async def _process(
        self, claim: Claim[IdempotencyRecord], event: ResolvedEvent, flags: FeatureFlags, is_last: bool
    ) -> None:
        """Decide and act on a claimed event, then complete it."""
        stopped = await self.quality_reader.read()
        facts = await self.context_loader.load_facts(event, flags, stopped)
        if facts is None:
            await self._complete_missing(claim, event.message, is_last)
            return
        if (link := build_customer_link(facts)) is not None:
            await self.stores.run(link)
        if self.settings.archive:
            await archive_event(self.stores, event.message, facts.event)
        plan = await self._load_plan(claim, facts)
        done = list(plan.decision.actions)
        withdrawn: list[HelpDeskAction] = []
        for action in done:
            await self.action_runner.run(claim.key, facts, plan.decision, action)
        for action in plan.withdrawn:
            was_done = await self.action_runner.check_done(claim.key, facts, plan.decision, action)
            (done if was_done else withdrawn).append(action)
        await self._complete(claim, facts, replace(plan.decision, actions=tuple(done)), withdrawn)
        self._report_processed(event.message, facts, plan.decision)

    async def _complete_missing(
        self, claim: Claim[IdempotencyRecord], message: EventMessage, is_last: bool
    ) -> None:
        """Complete an event whose ticket exists and whose message does not. The message may appear later, so
        raise `RetryLater` until `is_last`.
        """
        if not is_last:
            raise RetryLater(f"The help desk has the ticket of {message.event_id}, but not the message.")
        log.warning("The help desk no longer has the message of %s. Nothing to do.", message.event_id)
        reason = "the help desk no longer has the message"
        entry = self.action_runner.build_no_action_entry(
            message.conversation_id, claim.key, reason, failure="gone"
        )
        await claim.complete(*entry, result={"gone": True})
        self.stores.count("events_gone")

    async def _load_plan(self, claim: Claim[IdempotencyRecord], facts: Facts) -> Plan:
        """Return the stored plan of an earlier attempt, or decide and store a new one."""
        fresh = decide(facts)
        if claim.record.plan is not None:
            return resume_plan(claim.record.plan, fresh)
        await claim.save(plan=encode_plan(fresh), intent=facts.classification.label, mode=fresh.mode)
        return Plan(fresh)

    async def _complete(
        self,
        claim: Claim[IdempotencyRecord],
        facts: Facts,
        decision: Decision,
        withdrawn: Sequence[HelpDeskAction],
    ) -> None:
        """Complete the event and write state and audit in one transaction. After a conflict, read the state
        again: the actions are already done. Raise `RetryLater` after `MAX_STATE_ATTEMPTS` conflicts.
        """
        entries = self._build_audit_entries(claim.key, facts, decision, withdrawn)
        for _ in range(MAX_STATE_ATTEMPTS):
            try:
                await claim.complete(
                    _build_state_write(facts, decision),
                    *build_quality_counts(facts, decision),
                    *entries,
                    result={"actions": len(decision.actions)},
                )
                return
            except TransactionCancelled:
                facts = replace(
                    facts, state=await self.context_loader.load_state(facts.event.conversation_id)
                )
        raise RetryLater(
            f"The conversation's state changed during {MAX_STATE_ATTEMPTS} attempts to write it."
        )

    def _build_audit_entries(
        self, key: str, facts: Facts, decision: Decision, withdrawn: Sequence[HelpDeskAction]
    ) -> list[Write[Any]]:
        """Build the audit entries of shadow actions, withdrawn actions, and events without an action."""
        entries: list[Write[Any]] = []
        for each in decision.shadow_actions:
            entries += self.action_runner.build_audit_entry(facts, decision, each, shadow=True)
        for each in withdrawn:
            entries += self.action_runner.build_audit_entry(facts, decision, each, failure="withdrawn")
        if decision.is_ignored:
            entries += self.action_runner.build_no_action_entry(
                facts.event.conversation_id, key, "; ".join(decision.reasons)
            )
        return entries

    # --- records and reports --------------------------------------------------------------------------------

    def _build_record(self, message: EventMessage, flags: FeatureFlags) -> IdempotencyRecord:
        """Build the idempotency record that claims the event."""
        received = message.received_at.replace(microsecond=0)
        return IdempotencyRecord(
            event_id=message.event_id,
            kind=RecordKind.event,
            conversation_id=message.conversation_id,
            payload_sha256=message.payload_sha256,
            payload_bytes=message.payload_bytes,
            mode=Mode.route_only,
            safe_mode=flags.safe_mode,
            automation_enabled=flags.automation_enabled,
            received_at=message.received_at,
            source_message_id=message.source_message_id,
            expires_at=received + timedelta(days=self.settings.idempotency_days),
        )

    def _report_duplicate(self, message: EventMessage, kind: str | None) -> None:
        """Count and log a duplicate; nothing if `kind` is None."""
        if kind is None:
            return
        self.stores.count("duplicates_dropped", kind=kind)
        log.info("Dropped duplicate of %s (%s).", message.event_id, kind)

    def _report_processed(self, message: EventMessage, facts: Facts, decision: Decision) -> None:
        """Count, measure and log a processed event."""
        automated = (
            "yes" if decision.mode is Mode.automation_candidate and not decision.shadow_actions else "no"
        )
        self.stores.count("events_processed", mode=decision.mode, automated=automated)
        taken_s = self.stores.clock.now() - message.received_at.timestamp()
        self.stores.measure("time_to_route_seconds", max(0.0, taken_s))
        log.info("%s: %s", message.event_id, "; ".join(decision.reasons))


def _build_state_write(facts: Facts, decision: Decision) -> Put[ConversationState]:
    """Build the write of the next state: a create, or a put over the version that was read."""
    new = build_next_state(facts, decision)
    if facts.state is None:
        return patterns.create_state(new)
    return patterns.put_state(new, facts.state.version)


@asynccontextmanager
async def open_handler(stores: Stores) -> AsyncIterator[Handler]:
    """Open the worker and its HTTP client, and yield the queue handler. Raise `SettingsError` without the
    help desk's address.
    """
    settings = RichpanelSettings.load()
    if not settings.helpdesk_url:
        raise SettingsError(
            f"{HELPDESK_VARIABLE} is not set. Set it to the address of the help desk or of the sandbox "
            "(holdfast run richpanel --sandbox helpdesk)."
        )
    async with make_client(settings.helpdesk_url, _load_api_key()) as http:
        pacing = build_pacer(stores, settings)
        desk, shop = HelpDeskClient(http, pacing), ShopClient(http, pacing)
        worker = build_worker(stores, desk, shop, get_intent_classifier(), settings)
        yield worker.handle


def build_pacer(stores: Stores, settings: RichpanelSettings) -> CallPacer:
    """Build the call pacer of a process: it obeys the help desk's 429s, and the budget shared by all workers
    if one is set.
    """

    def count_refusal() -> None:
        stores.count("too_many_requests")

    if not settings.calls_max:
        return CallPacer(on_refused=count_refusal)
    return CallPacer(lambda: patterns.CALLS.take(stores, patterns.HELP_DESK), count_refusal)


def build_worker(
    stores: Stores,
    desk: HelpDeskClient,
    shop: ShopClient,
    classifier: Classifier,
    settings: RichpanelSettings,
) -> Worker:
    """Build a worker from its clients."""
    return Worker(
        stores,
        FeatureFlagReader(stores),
        ReplyQualityReader(stores, settings),
        ContextLoader(stores, desk, shop, classifier, settings),
        ActionRunner(stores, desk, settings),
        settings,
    )


def _load_api_key() -> str:
    """Return the help desk's API key; empty if no secret is set, as for the sandbox."""
    try:
        return open_secrets().get(API_KEY_SECRET).current
    except NotFound:
        return ""
