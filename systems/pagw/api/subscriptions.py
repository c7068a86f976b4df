"""Operations on clients' FHIR subscriptions: create with a handshake, read, list, change, end.

A subscription is a row and an object. The object, which has the client's own headers, is written before the
row. The subscription becomes active when its server answers the handshake; otherwise its status is `error`
with the reason, and the client may request it again.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from holdfast.core.errors import NotFound, SecretMissing
from holdfast.model.sql import SqlWrite
from holdfast.model.ulids import UlidGenerator
from pagw.domain.fhir.outcomes import FhirRefused, build_error
from pagw.domain.fhir.responses.notifications import NotifiedEvent, build_events_response
from pagw.domain.fhir.subscriptions import (
    SubscriptionRequest,
    build_subscription_resource,
    parse_subscription,
)
from pagw.domain.webhook_addresses import check_address
from pagw.model import delivery_patterns, files, patterns
from pagw.model.audit import Actor, AuditEvent, build_audit_writes
from pagw.model.entities import DeliveryRow, SubscriptionRow
from pagw.workers.client_recovery import compute_event_start, compute_first_try, reactivate
from pagw.workers.responses import ResponseReader
from pagw.workers.webhook_sender import (
    WebhookSender,
    build_handshake_webhook,
    get_now,
    restore_announced_state,
)

SERVICE: Final = "passubscriptionhandler"
# Per tenant, without those that are off.
MAX_LIVE: Final = 100
# Events in one answer of $events: each has a whole response.
MAX_EVENTS: Final = 20
# The length of the column.
MAX_ERROR_CHARS: Final = 500

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Subscriptions:
    """Manages the subscriptions of all tenants."""

    sender: WebhookSender

    async def subscribe(self, tenant: str, resource: dict[str, Any], actor: Actor) -> dict[str, Any]:
        """Create a subscription, try its handshake and return it: `active`, or `error` without an answer.

        Raise `FhirRefused` for an invalid or excessive subscription, `TargetRefused` for a forbidden address.
        """
        subscription = parse_subscription(resource)
        settings = self.sender.settings
        endpoint = check_address(subscription.endpoint, allow_private=settings.private_targets)
        stores, at = self.sender.stores, get_now(self.sender.stores)
        row = SubscriptionRow(
            subscription_id=f"sub-{UlidGenerator(stores.clock).new().lower()}",
            tenant=tenant,
            status="requested",
            endpoint=endpoint,
            organization=subscription.organization,
            content=subscription.content,
            secret_name=None,
            created_at=at,
            updated_at=at,
            ends_at=subscription.end,
            events=0,
            error=None,
        )
        await self._check_limit(tenant)
        row = await self._try_handshake(row, subscription)
        body = subscription.model_dump_json().encode()
        await stores.run(files.keep_subscription(body, tenant, row.subscription_id))
        await stores.transact(
            delivery_patterns.create_subscription(row), *self._build_audit_writes(row, actor, "created")
        )
        return self._build_resource(row, subscription)

    async def _check_limit(self, tenant: str) -> None:
        """Refuse a subscription beyond LIVE_MAX: every decision is matched against each of them."""
        live = await self.sender.stores.run(delivery_patterns.live_subscriptions(tenant))
        if live is not None and live.count >= MAX_LIVE:
            wrong = f"Too many subscriptions: the maximum is {MAX_LIVE}. End one that is not needed."
            raise FhirRefused([build_error("business-rule", wrong, "Subscription")])

    async def _try_handshake(
        self, row: SubscriptionRow, subscription: SubscriptionRequest
    ) -> SubscriptionRow:
        """Send the handshake and return the row with the resulting status. Raise `FhirRefused` if the tenant
        has no secret for signatures.
        """
        try:
            webhook = build_handshake_webhook(row, subscription, self.sender.settings)
            delivery = await self.sender.send(row.tenant, webhook)
        except SecretMissing as missing:
            log.error("Tenant %s cannot subscribe without a webhook secret: %s", row.tenant, missing.message)
            problem = "The gateway has no secret to sign your webhooks. Ask its operator to set one."
            raise FhirRefused([build_error("business-rule", problem, "Subscription.channel")]) from missing
        is_active = delivery.outcome == "delivered"
        status, reason = ("active", None) if is_active else ("error", delivery.detail[:MAX_ERROR_CHARS])
        retry_at = None if is_active else compute_first_try(get_now(self.sender.stores))
        return row.model_copy(update={"status": status, "error": reason, "retry_at": retry_at})

    async def read(self, tenant: str, subscription_id: str) -> dict[str, Any]:
        """Return a subscription as a FHIR resource. Raise `NotFound`."""
        row = await self._get_row(tenant, subscription_id)
        return self._build_resource(row, await self._load_request(row))

    async def list_page(
        self, tenant: str, *, after: tuple[datetime, str] | None, limit: int
    ) -> tuple[list[dict[str, Any]], SubscriptionRow | None]:
        """Return a page of the tenant's subscriptions, oldest first, and its last row, or None if no page
        follows. `after` is the time and id of the last one before the page.
        """
        at, id = after or (None, None)
        found = delivery_patterns.subscriptions_of(tenant, after=at, after_id=id, limit=limit + 1)
        rows = await self.sender.stores.run(found)
        resources = [self._build_resource(row, await self._load_request(row)) for row in rows[:limit]]
        return resources, rows[limit - 1] if len(rows) > limit else None

    async def change(
        self, tenant: str, subscription_id: str, resource: dict[str, Any], actor: Actor
    ) -> dict[str, Any]:
        """Turn a subscription off, or on again with a handshake, which releases the events that were held for
        it. Raise `FhirRefused` if any other element differs: a different subscription is a new one.
        """
        subscription, row = parse_subscription(resource), await self._get_row(tenant, subscription_id)
        stored = await self._load_request(row)
        # A read returns no headers, so an update of a read resource has none either.
        same = {"status": stored.status, "headers": subscription.headers or stored.headers}
        if subscription.model_copy(update=same) != stored:
            wrong = "Only the status of a subscription can change. Otherwise, end it and create a new one."
            raise FhirRefused([build_error("not-supported", wrong, "Subscription")])
        if subscription.status == "off":
            row = row.model_copy(update={"status": "off", "error": None})
        else:
            row = await self._try_handshake(row, stored)
        stores, at = self.sender.stores, get_now(self.sender.stores)
        retry_at = compute_first_try(at) if row.status == "error" else None
        await stores.transact(
            delivery_patterns.set_subscription(
                tenant, subscription_id, row.status, at, error=row.error, retry_at=retry_at
            ),
            *self._build_audit_writes(row, actor, "changed"),
        )
        if row.status == "active":
            await reactivate(stores, row, actor, self.sender.settings)
        return self._build_resource(row, stored)

    async def end(self, tenant: str, subscription_id: str, actor: Actor) -> None:
        """Turn a subscription off. Raise `NotFound`."""
        row = await self._get_row(tenant, subscription_id)
        await self.sender.stores.transact(
            delivery_patterns.set_subscription(tenant, subscription_id, "off", get_now(self.sender.stores)),
            *self._build_audit_writes(row, actor, "ended"),
        )

    async def list_events(
        self, tenant: str, subscription_id: str, actor: Actor, *, first: int, last: int | None
    ) -> dict[str, Any]:
        """Return the events with the numbers `first` to `last` as a Bundle (`$events`), at most `MAX_EVENTS`,
        with a link to the next ones. Each response in it is audited as a read. Raise `NotFound`.
        """
        row = await self._get_row(tenant, subscription_id)
        stores, at = self.sender.stores, get_now(self.sender.stores)
        since = compute_event_start(at, self.sender.settings)
        found = await stores.run(
            delivery_patterns.events_of(
                tenant, subscription_id, since, first=first, last=last, limit=MAX_EVENTS + 1
            )
        )
        events = [
            NotifiedEvent(each.event_number, each.created_at, await self._read_response(each, actor))
            for each in found[:MAX_EVENTS]
        ]
        url = f"{self.sender.settings.public_url}/fhir/Subscription/{subscription_id}"
        bundle = build_events_response(
            events, subscription_url=url, status=row.status, total=row.events, at=at
        )
        if len(found) > MAX_EVENTS:
            until = "" if last is None else f"&eventsUntilNumber={last}"
            following = f"{url}/$events?eventsSinceNumber={found[MAX_EVENTS].event_number}{until}"
            bundle["link"] = [{"relation": "next", "url": following}]
        return bundle

    async def _read_response(self, row: DeliveryRow, actor: Actor) -> dict[str, Any]:
        """Return the response that an event announces, and audit the read."""
        request = await self.sender.stores.run(patterns.request(row.tenant, row.pagw_id))
        if request is None:
            raise NotFound("The request of this event was removed.")
        return await ResponseReader(self.sender.stores).read_response(
            restore_announced_state(row, request), actor
        )

    async def get_row(self, tenant: str, subscription_id: str) -> SubscriptionRow:
        """Return the row of a subscription. Raise `NotFound`."""
        return await self._get_row(tenant, subscription_id)

    async def _get_row(self, tenant: str, subscription_id: str) -> SubscriptionRow:
        """Return the row of a tenant's subscription. Raise `NotFound`."""
        found = await self.sender.stores.run(delivery_patterns.subscription(tenant, subscription_id))
        if found is None:
            raise NotFound("Subscription not found: this tenant has no subscription with this id.")
        return found

    async def _load_request(self, row: SubscriptionRow) -> SubscriptionRequest:
        """Load the subscription as the client requested it, headers included."""
        stored = await self.sender.stores.run(files.kept_subscription(row.tenant, row.subscription_id))
        return SubscriptionRequest.model_validate_json(stored.body)

    def _build_resource(self, row: SubscriptionRow, subscription: SubscriptionRequest) -> dict[str, Any]:
        """Build the FHIR Subscription that the client sees, without its headers."""
        return build_subscription_resource(
            subscription, id=row.subscription_id, status=row.status, error=row.error
        )

    def _build_audit_writes(
        self, row: SubscriptionRow, actor: Actor, subtype: str
    ) -> tuple[SqlWrite[Any], ...]:
        """Build the audit writes of a change: `subtype` is created, changed or ended."""
        return build_audit_writes(
            self.sender.stores,
            AuditEvent(
                type="SUBSCRIPTION",
                subtype=subtype,
                actor=actor,
                service=SERVICE,
                tenant=row.tenant,
                resource_type="Subscription",
                resource_id=row.subscription_id,
                details={"status": row.status},
            ),
        )
