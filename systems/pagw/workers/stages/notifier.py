"""The notifier: sends each webhook until the client's server accepts it, is gone, or attempts run out.

Delivery is at least once, with the same id on every attempt: a server that answered too late is called again
and recognizes the id. A delivery whose attempts run out is held, and its subscription is in error until the
client answers again (`client_recovery`).
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from holdfast import ReceivedMessage
from holdfast.core.errors import RetryLater, SecretMissing, TargetRefused
from holdfast.model.components import Handler
from holdfast.model.sql import SqlWrite
from holdfast.runtime import open_secrets
from holdfast.web.webhook_targets import DeliveryAttempt, open_target_client
from pagw.model import delivery_patterns, patterns
from pagw.model.audit import Actor, AuditEvent, build_audit_writes
from pagw.model.entities import DeliveryMessage, DeliveryRow, notifications
from pagw.settings import PagwSettings
from pagw.workers.client_recovery import compute_first_try
from pagw.workers.webhook_sender import WebhookSender, get_now, summarize_delivery

SERVICE = "pasnotifier"
# The pause before the next attempt while the tenant's secret is missing: an operator has to set it.
SECRET_PAUSE_S = 60.0

INACTIVE_REASON = "the subscription is no longer active"

log = logging.getLogger(__name__)


class Notifier:
    """Delivers webhooks."""

    def __init__(self, sender: WebhookSender) -> None:
        self.sender, self.stores = sender, sender.stores

    async def handle(self, received: ReceivedMessage[DeliveryMessage]) -> None:
        """Make one attempt of a waiting delivery and record its result. Raise `RetryLater` if another attempt
        follows.
        """
        message = received.message
        row = await self.stores.run(delivery_patterns.delivery(message.tenant, message.delivery_id))
        if row is None or row.status != "waiting":
            return
        request = await self.stores.run(patterns.request_in_hand(message.tenant, message.pagw_id))
        if request is None:
            return
        if (kept := await self._get_unsubscribed_status(row)) is not None:
            ended = DeliveryAttempt("gone", None, INACTIVE_REASON)
            await self._finish(row, kept, ended, ends_subscription=False)
            return
        is_last = received.receive_count >= (notifications.max_receives or 1)
        try:
            delivery = await self.sender.send(row.tenant, await self.sender.build_webhook(row, request))
        except TargetRefused as refused:
            delivery = DeliveryAttempt("gone", None, f"not called: {refused.reason}")
        except SecretMissing as error:
            if is_last:
                await self._finish(
                    row, "held", DeliveryAttempt("retry", None, "the tenant's secret is not set")
                )
                return
            raise RetryLater(error.message, retry_after_s=SECRET_PAUSE_S) from error
        await self._record_attempt(row, delivery, is_last=is_last)

    async def _get_unsubscribed_status(self, row: DeliveryRow) -> str | None:
        """Return None if the delivery has an active subscription or needs none. Otherwise return its status:
        `held` while the subscription is in error, `given_up` after its end. Then the client gets nothing
        more, not even about earlier decisions, because they concern patients.
        """
        if row.subscription_id is None:
            return None
        found = await self.stores.run(delivery_patterns.subscription(row.tenant, row.subscription_id))
        if found is None or (found.ends_at is not None and found.ends_at <= get_now(self.stores)):
            return "given_up"
        return {"active": None, "error": "held"}.get(found.status, "given_up")

    async def _record_attempt(self, row: DeliveryRow, delivery: DeliveryAttempt, *, is_last: bool) -> None:
        """Finish the delivery if it was delivered, is impossible or was the last attempt. Otherwise record
        the failure and raise `RetryLater`.
        """
        if delivery.outcome == "delivered":
            await self._finish(row, "delivered", delivery)
            return
        if delivery.outcome == "gone" or is_last:
            await self._finish(row, "given_up" if delivery.outcome == "gone" else "held", delivery)
            return
        at = get_now(self.stores)
        await self.stores.run(
            delivery_patterns.note_delivery(row.delivery_id, "waiting", at, error=delivery.detail)
        )
        raise RetryLater(
            f"The client did not accept {row.delivery_id}: {delivery.detail}.",
            retry_after_s=delivery.retry_after_s,
        )

    async def _finish(
        self, row: DeliveryRow, status: str, delivery: DeliveryAttempt, *, ends_subscription: bool = True
    ) -> None:
        """Record the result with its audit event. A failed delivery sets its subscription to `off` or
        `error`, if `ends_subscription`.
        """
        at = get_now(self.stores)
        is_delivered = status == "delivered"
        event = AuditEvent(
            type="DELIVERY",
            subtype=status,
            actor=Actor.service(SERVICE),
            service=SERVICE,
            tenant=row.tenant,
            pagw_id=row.pagw_id,
            resource_type="delivery",
            resource_id=row.delivery_id,
            details=summarize_delivery(delivery),
        )
        writes: list[SqlWrite[Any]] = [
            delivery_patterns.note_delivery(
                row.delivery_id,
                status,
                at,
                delivered_at=at if is_delivered else None,
                error=None if is_delivered else delivery.detail,
            ),
            *build_audit_writes(self.stores, event),
        ]
        if ends_subscription and not is_delivered and row.subscription_id is not None:
            ended = "off" if delivery.outcome == "gone" else "error"
            retry_at = compute_first_try(at) if ended == "error" else None
            writes.append(
                delivery_patterns.set_subscription(
                    row.tenant, row.subscription_id, ended, at, error=delivery.detail, retry_at=retry_at
                )
            )
        await self.stores.transact(*writes)


@asynccontextmanager
async def open_notifier(stores: Any) -> AsyncIterator[Handler]:
    """Open the notifier's handler with its own HTTP client."""
    settings = PagwSettings.load()
    async with open_target_client(allow_private=settings.private_targets) as http:
        yield Notifier(WebhookSender(stores, http, open_secrets(), settings)).handle
