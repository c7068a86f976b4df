"""Clients out of reach: their events are kept, and delivered when they answer again.

A subscription whose endpoint accepts nothing for about twenty minutes is set to `error`. Its events are
numbered and held. The gateway repeats the handshake, with pauses that double from five minutes to an hour,
and the client may request the subscription again at any time: either releases the held events, in order. A
held callback of the native API is tried again every hour. After `PAGW_EVENT_DAYS` days an event expires; the
response itself stays readable as long as its request.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from holdfast import Stores
from holdfast.core.errors import HoldfastError, error_label
from holdfast.model.sql import SqlWrite
from holdfast.runtime import open_secrets
from holdfast.web.webhook_targets import open_target_client
from pagw.domain.fhir.subscriptions import SubscriptionRequest
from pagw.model import delivery_patterns, files, patterns
from pagw.model.audit import Actor, AuditEvent, build_audit_writes
from pagw.model.entities import DeliveryMessage, DeliveryRow, SubscriptionRow, notifications
from pagw.settings import PagwSettings
from pagw.workers.webhook_sender import WebhookSender, build_handshake_webhook

SERVICE: Final = "pasnotifier"
FIRST_PAUSE: Final = timedelta(minutes=5)
LONGEST_PAUSE: Final = timedelta(hours=1)
CALLBACK_PAUSE: Final = timedelta(hours=1)

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ClientRecovery:
    """Tries clients that were out of reach, and releases what was held for them."""

    sender: WebhookSender

    @property
    def stores(self) -> Stores:
        return self.sender.stores

    async def run(self) -> int:
        """Try all subscriptions and callbacks that are due, and expire old events. Return the number of
        released deliveries.
        """
        now = self.stores.now()
        since = compute_event_start(now, self.sender.settings)
        released = 0
        for row in await self.stores.run(delivery_patterns.subscriptions_to_retry(now)):
            released += await self._try(row, now)
        released += await self._release_callbacks(now, since)
        await self.stores.run(delivery_patterns.expire_held(since, now))
        return released

    async def _try(self, row: SubscriptionRow, now: datetime) -> int:
        """Repeat the handshake of a subscription and reactivate it if the client answers. Return the number
        of released deliveries.
        """
        seen = row.retry_at or now
        then = compute_next_try(now, row.updated_at, self.sender.settings)
        taken = await self.stores.run(delivery_patterns.set_retry(row.subscription_id, seen, then))
        if not taken:
            return 0
        try:
            if not await self._shake_hands(row):
                return 0
            return await reactivate(self.stores, row, Actor.service(SERVICE), self.sender.settings)
        except HoldfastError as error:
            log.warning("Trying the subscription %s failed: %s", row.subscription_id, error_label(error))
            return 0

    async def _shake_hands(self, row: SubscriptionRow) -> bool:
        """Send the handshake. Return whether the client accepted it."""
        stored = await self.stores.run(files.kept_subscription(row.tenant, row.subscription_id))
        request = SubscriptionRequest.model_validate_json(stored.body)
        webhook = build_handshake_webhook(row, request, self.sender.settings)
        return (await self.sender.send(row.tenant, webhook)).outcome == "delivered"

    async def _release_callbacks(self, now: datetime, since: datetime) -> int:
        """Release the held callbacks of the native API that are due. Return how many."""
        async with self.stores.sql_transaction() as sql:
            rows = await sql.run(delivery_patterns.release_held_callbacks(now - CALLBACK_PAUSE, since, now))
            for write in build_release_messages(self.stores, rows):
                await sql.run(write)
        return len(rows)


async def reactivate(stores: Stores, row: SubscriptionRow, actor: Actor, settings: PagwSettings) -> int:
    """Set a subscription to active and release its held events. Return how many."""
    now, count = stores.now(), 0
    since = compute_event_start(now, settings)
    activated = delivery_patterns.set_subscription(row.tenant, row.subscription_id, "active", now)
    while True:
        async with stores.sql_transaction() as sql:
            await sql.run(activated)
            rows = await sql.run(delivery_patterns.release_held(row.subscription_id, since, now))
            for write in build_release_messages(stores, rows):
                await sql.run(write)
            if not count:
                for write in build_audit_writes(stores, _build_event(row, actor, len(rows))):
                    await sql.run(write)
        count += len(rows)
        if len(rows) < delivery_patterns.BATCH_SIZE:
            return count


def build_release_messages(stores: Stores, rows: Sequence[DeliveryRow]) -> list[SqlWrite[Any]]:
    """Return the outbox writes that start the next round of each delivery, in the order of the events."""
    return [
        patterns.OUTBOX.enqueue(
            stores,
            each.delivery_id,
            DeliveryMessage(
                delivery_id=each.delivery_id, pagw_id=each.pagw_id, tenant=each.tenant, round=each.round
            ),
            queue=notifications,
        )
        for each in sorted(rows, key=lambda row: row.event_number)
    ]


def compute_first_try(now: datetime) -> datetime:
    """Return when a subscription that is set to error now is tried again."""
    return now + FIRST_PAUSE


def compute_next_try(now: datetime, since: datetime, settings: PagwSettings) -> datetime | None:
    """Return the next try of a subscription that is in error since `since`, or None if its events have
    expired: then only the client can reactivate it.
    """
    if now - since > timedelta(days=settings.event_days):
        return None
    return now + min(max(now - since, FIRST_PAUSE), LONGEST_PAUSE)


def compute_event_start(now: datetime, settings: PagwSettings) -> datetime:
    """Return the time since which events are kept."""
    return now - timedelta(days=settings.event_days)


def _build_event(row: SubscriptionRow, actor: Actor, released: int) -> AuditEvent:
    """Build the audit event of a reactivation."""
    return AuditEvent(
        type="SUBSCRIPTION",
        subtype="reactivated",
        actor=actor,
        service=SERVICE,
        tenant=row.tenant,
        resource_type="Subscription",
        resource_id=row.subscription_id,
        details={"status": "active", "released": released},
    )


@asynccontextmanager
async def open_recovery(stores: Stores) -> AsyncIterator[ClientRecovery]:
    """Open the recovery with its own HTTP client."""
    settings = PagwSettings.load()
    async with open_target_client(allow_private=settings.private_targets) as http:
        yield ClientRecovery(WebhookSender(stores, http, open_secrets(), settings))


async def recover_clients(stores: Stores) -> None:
    """Try the clients that are due, and log how many deliveries were released."""
    async with open_recovery(stores) as recovery:
        released = await recovery.run()
    if released:
        log.info("Released %d held deliveries to clients.", released)
