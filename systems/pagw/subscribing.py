"""A client's subscriptions: asked for, tried with a handshake, kept, ended.

A subscription is a row and an object; the object, which has the client's own headers, is there before the row. It becomes
active when its server answers the handshake, and stands as `error` with the reason otherwise: it may be asked for anew.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from holdfast import SqlWrite, Ulids
from holdfast.errors import NotFound, SecretMissing
from pagw import files, notices
from pagw.auditing import Actor, AuditEvent, audited
from pagw.callable_addresses import checked_address
from pagw.fhir.notifications import handshake
from pagw.fhir.outcomes import FhirRefused, error
from pagw.fhir.subscriptions import Subscribed, read_subscription, subscription_resource
from pagw.model import SubscriptionRow
from pagw.telling import Call, Teller, headers_of, moment

SERVICE: Final = "passubscriptionhandler"
# Of one tenant, that are not turned off.
LIVE_MAX: Final = 100
# That of the column.
ERROR_CHARS_MAX: Final = 500

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Subscriptions:
    teller: Teller

    async def subscribe(self, tenant: str, resource: dict[str, Any], actor: Actor) -> dict[str, Any]:
        """The subscription as it stands after its handshake. Raises `FhirRefused`, `TargetRefused`."""
        asked = read_subscription(resource)
        settings = self.teller.settings
        endpoint = checked_address(asked.endpoint, allow_private=settings.private_targets)
        stores, at = self.teller.stores, moment(self.teller.stores)
        row = SubscriptionRow(
            subscription_id=f"sub-{Ulids(stores.clock).new().lower()}",
            tenant=tenant,
            status="requested",
            endpoint=endpoint,
            organization=asked.organization,
            content=asked.content,
            secret_name=None,
            created_at=at,
            updated_at=at,
            ends_at=asked.end,
            events=0,
            error=None,
        )
        await self._refuse_more(tenant)
        row = await self._tried(row, asked)
        body = asked.model_dump_json().encode()
        await stores.run(files.keep_subscription(body, tenant, row.subscription_id))
        await stores.transact(notices.create_subscription(row), *self._audited(row, actor, "created"))
        return self._resource(row, asked)

    async def _refuse_more(self, tenant: str) -> None:
        """Every decision is looked at for each: a tenant has as many as it needs, and not without end."""
        live = await self.teller.stores.run(notices.live_subscriptions(tenant))
        if live is not None and live.count >= LIVE_MAX:
            wrong = f"There are {LIVE_MAX} subscriptions already: end one that is not needed."
            raise FhirRefused([error("business-rule", wrong, "Subscription")])

    async def _tried(self, row: SubscriptionRow, asked: Subscribed) -> SubscriptionRow:
        try:
            delivery = await self.teller.tell(row.tenant, self._handshake(row, asked))
        except SecretMissing as missing:
            log.error("The tenant %s cannot subscribe: %s", row.tenant, missing.message)
            wrong = "The gateway has no secret yet to sign what it tells you with: ask its operator to set one for you."
            raise FhirRefused([error("business-rule", wrong, "Subscription.channel")]) from missing
        is_active = delivery.outcome == "delivered"
        status, reason = ("active", None) if is_active else ("error", delivery.detail[:ERROR_CHARS_MAX])
        return row.model_copy(update={"status": status, "error": reason})

    async def read(self, tenant: str, subscription_id: str) -> dict[str, Any]:
        row = await self._row(tenant, subscription_id)
        return self._resource(row, await self._asked(row))

    async def page(
        self, tenant: str, *, after: tuple[datetime, str] | None, limit: int
    ) -> tuple[list[dict[str, Any]], SubscriptionRow | None]:
        """Some of them, oldest first, and the last of these where there are more."""
        at, id = after or (None, None)
        found = notices.subscriptions_of(tenant, after=at, after_id=id, limit=limit + 1)
        rows = await self.teller.stores.run(found)
        told = [self._resource(row, await self._asked(row)) for row in rows[:limit]]
        return told, rows[limit - 1] if len(rows) > limit else None

    async def change(
        self, tenant: str, subscription_id: str, resource: dict[str, Any], actor: Actor
    ) -> dict[str, Any]:
        """Turns a subscription off, or on again with a handshake. What it asks for stays: another is another one."""
        asked, row = read_subscription(resource), await self._row(tenant, subscription_id)
        kept = await self._asked(row)
        # Headers are not told by a read, so that whoever changes what it has read has none.
        same = {"status": kept.status, "headers": asked.headers or kept.headers}
        if asked.model_copy(update=same) != kept:
            wrong = "A subscription is turned on and off, and else stays as it is: end it and create another."
            raise FhirRefused([error("not-supported", wrong, "Subscription")])
        if asked.status == "off":
            row = row.model_copy(update={"status": "off", "error": None})
        else:
            row = await self._tried(row, kept)
        at = moment(self.teller.stores)
        await self.teller.stores.transact(
            notices.set_subscription(tenant, subscription_id, row.status, at, error=row.error),
            *self._audited(row, actor, "changed"),
        )
        return self._resource(row, kept)

    async def end(self, tenant: str, subscription_id: str, actor: Actor) -> None:
        row = await self._row(tenant, subscription_id)
        await self.teller.stores.transact(
            notices.set_subscription(tenant, subscription_id, "off", moment(self.teller.stores)),
            *self._audited(row, actor, "ended"),
        )

    async def row(self, tenant: str, subscription_id: str) -> SubscriptionRow:
        return await self._row(tenant, subscription_id)

    async def _row(self, tenant: str, subscription_id: str) -> SubscriptionRow:
        found = await self.teller.stores.run(notices.subscription(tenant, subscription_id))
        if found is None:
            raise NotFound("There is no subscription of this id.")
        return found

    async def _asked(self, row: SubscriptionRow) -> Subscribed:
        kept = await self.teller.stores.run(files.kept_subscription(row.tenant, row.subscription_id))
        return Subscribed.model_validate_json(kept.body)

    def _resource(self, row: SubscriptionRow, asked: Subscribed) -> dict[str, Any]:
        return subscription_resource(asked, id=row.subscription_id, status=row.status, error=row.error)

    def _handshake(self, row: SubscriptionRow, asked: Subscribed) -> Call:
        id = f"handshake-{row.subscription_id}"
        url = f"{self.teller.settings.public_url}/fhir/Subscription/{row.subscription_id}"
        body = json.dumps(handshake(subscription_url=url, at=row.created_at, id=id), sort_keys=True).encode()
        return Call(id, asked.endpoint, body, headers_of(asked.headers))

    def _audited(self, row: SubscriptionRow, actor: Actor, what: str) -> tuple[SqlWrite[Any], ...]:
        return audited(
            self.teller.stores,
            AuditEvent(
                type="SUBSCRIPTION",
                subtype=what,
                actor=actor,
                service=SERVICE,
                tenant=row.tenant,
                resource_type="Subscription",
                resource_id=row.subscription_id,
                details={"status": row.status},
            ),
        )
