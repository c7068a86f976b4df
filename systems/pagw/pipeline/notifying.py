"""Deliveries: each is tried until the client's server takes it, says that it is gone, or the tries are over.

At least once, under the same id every time: a server that answered too late is called again and knows the id.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from holdfast import Handler, Received, SqlWrite, open_secrets
from holdfast.errors import RetryLater, SecretMissing, TargetRefused
from holdfast.web.targets import Delivery, target_client
from pagw import notices, patterns
from pagw.auditing import Actor, AuditEvent, audited
from pagw.model import DeliveryMessage, DeliveryRow, notifications
from pagw.settings import PagwSettings
from pagw.telling import Teller, moment, told_in_short

SERVICE = "pasnotifier"
# How long a client without a secret is waited for: somebody has to set it.
SECRET_PAUSE_S = 60.0

UNWANTED = "its subscription is not active any more"

log = logging.getLogger(__name__)


class Notifier:
    def __init__(self, teller: Teller) -> None:
        self.teller, self.stores = teller, teller.stores

    async def handle(self, received: Received[DeliveryMessage]) -> None:
        message = received.message
        row = await self.stores.run(notices.delivery(message.tenant, message.delivery_id))
        if row is None or row.status != "waiting":
            return
        request = await self.stores.run(patterns.request_in_hand(message.tenant, message.pagw_id))
        if request is None:
            return
        if not await self._is_wanted(row):
            await self._note(row, "given_up", Delivery("gone", None, UNWANTED), ends=False)
            return
        is_last = received.receives >= (notifications.receives_max or 1)
        try:
            delivery = await self.teller.tell(row.tenant, await self.teller.call_of(row, request))
        except TargetRefused as refused:
            delivery = Delivery("gone", None, f"not called: {refused.reason}")
        except SecretMissing as error:
            if is_last:
                await self._note(row, "given_up", Delivery("retry", None, "the tenant's secret is not set"))
                return
            raise RetryLater(error.message, retry_after_s=SECRET_PAUSE_S) from error
        await self._record(row, delivery, is_last=is_last)

    async def _is_wanted(self, row: DeliveryRow) -> bool:
        """Whoever has ended its subscription is told nothing more, of what was decided before either: it is about patients."""
        if row.subscription_id is None:
            return True
        found = await self.stores.run(notices.subscription(row.tenant, row.subscription_id))
        if found is None or found.status != "active":
            return False
        return found.ends_at is None or found.ends_at > moment(self.stores)

    async def _record(self, row: DeliveryRow, delivery: Delivery, *, is_last: bool) -> None:
        if delivery.outcome == "delivered":
            await self._note(row, "delivered", delivery)
            return
        if delivery.outcome == "gone" or is_last:
            await self._note(row, "given_up", delivery)
            return
        at = moment(self.stores)
        await self.stores.run(notices.note_delivery(row.delivery_id, "waiting", at, error=delivery.detail))
        raise RetryLater(
            f"The client did not take {row.delivery_id}: {delivery.detail}.",
            retry_after_s=delivery.retry_after_s,
        )

    async def _note(self, row: DeliveryRow, status: str, delivery: Delivery, *, ends: bool = True) -> None:
        """What came of it, with its audit; a subscriber that cannot be told is marked so, and can be asked for."""
        at = moment(self.stores)
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
            details=told_in_short(delivery),
        )
        writes: list[SqlWrite[Any]] = [
            notices.note_delivery(
                row.delivery_id,
                status,
                at,
                delivered_at=at if is_delivered else None,
                error=None if is_delivered else delivery.detail,
            ),
            *audited(self.stores, event),
        ]
        if ends and not is_delivered and row.subscription_id is not None:
            ended = "off" if delivery.outcome == "gone" else "error"
            writes.append(
                notices.set_subscription(row.tenant, row.subscription_id, ended, at, error=delivery.detail)
            )
        await self.stores.transact(*writes)


@asynccontextmanager
async def notifying(stores: Any) -> AsyncIterator[Handler]:
    settings = PagwSettings.load()
    async with target_client(allow_private=settings.private_targets) as http:
        yield Notifier(Teller(stores, http, open_secrets(), settings)).handle
