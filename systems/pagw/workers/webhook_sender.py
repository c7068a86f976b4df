"""Send signed webhooks to the addresses that clients registered.

Native clients receive a link to their result; FHIR subscribers receive the notification itself. A delivery
keeps its id across attempts and is signed, over time and body, with the tenant's secret
(`pagw/webhooks/{tenant}`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import httpx2

from holdfast import Stores
from holdfast.runtime import Secrets
from holdfast.web import sign
from holdfast.web.webhook_targets import DeliveryAttempt, check_target, deliver
from pagw.domain.fhir.exact_json import dump_exact
from pagw.domain.fhir.responses.notifications import build_handshake, build_notification
from pagw.domain.fhir.subscriptions import SubscriptionRequest
from pagw.domain.statuses import Status
from pagw.model import files
from pagw.model.audit import Actor
from pagw.model.entities import FHIR_JSON, JSON, DeliveryRow, RequestRow, SubscriptionRow
from pagw.settings import PagwSettings
from pagw.workers.responses import ResponseReader

ID_HEADER: Final = "x-pagw-delivery-id"
SIGNATURE_HEADER: Final = "x-pagw-signature"
NOTIFIER: Final = "passubscriptionhandler"


@dataclass(frozen=True)
class Webhook:
    """One delivery: the same id and the same bytes on every attempt."""

    id: str
    target: str
    body: bytes
    headers: Mapping[str, str]


@dataclass(frozen=True)
class WebhookSender:
    """Builds and sends webhooks."""

    stores: Stores
    http: httpx2.AsyncClient
    secrets: Secrets
    settings: PagwSettings

    async def send(self, tenant: str, webhook: Webhook) -> DeliveryAttempt:
        """Make one attempt. Raise `TargetRefused` for a forbidden address, `SecretMissing` without secret."""
        target = check_target(webhook.target, allow_private=self.settings.private_targets)
        secret = self.secrets.get(f"pagw/webhooks/{tenant}")
        signature = sign(secret.current, webhook.body, self.stores.clock.now())
        headers = {**webhook.headers, ID_HEADER: webhook.id, SIGNATURE_HEADER: signature}
        return await deliver(self.http, target, webhook.body, headers)

    async def build_webhook(self, row: DeliveryRow, request: RequestRow) -> Webhook:
        """Return the webhook of a delivery: a result link, or the notification of a subscription."""
        if row.subscription_id is None:
            return Webhook(
                row.delivery_id, row.target, self._build_result_link(row, request), {"content-type": JSON}
            )
        stored = await self.stores.run(files.kept_subscription(row.tenant, row.subscription_id))
        subscription = SubscriptionRequest.model_validate_json(stored.body)
        return Webhook(
            row.delivery_id,
            row.target,
            await self._build_notification(row, request),
            parse_headers(subscription.headers),
        )

    def _build_result_link(self, row: DeliveryRow, request: RequestRow) -> bytes:
        """Build the JSON body with the announced status and the link to the response."""
        announced = restore_announced_state(row, request)
        return json.dumps(
            {
                "pagwId": request.pagw_id,
                "status": announced.status,
                "decision": announced.decision,
                "errorCode": announced.error_code,
                "response": f"{self.settings.public_url}/pas/requests/{request.pagw_id}/response",
            },
            sort_keys=True,
        ).encode()

    async def _build_notification(self, row: DeliveryRow, request: RequestRow) -> bytes:
        """Return the FHIR notification. Its timestamp is that of the event, so that every attempt sends the
        same bytes.
        """
        answer = await ResponseReader(self.stores).read_response(
            restore_announced_state(row, request), Actor.service(NOTIFIER)
        )
        bundle = build_notification(
            answer,
            subscription_url=f"{self.settings.public_url}/fhir/Subscription/{row.subscription_id}",
            event_number=row.event_number,
            at=row.created_at,
            id=row.delivery_id.replace("#", "-"),
        )
        return dump_exact(bundle)


def build_handshake_webhook(
    row: SubscriptionRow, subscription: SubscriptionRequest, settings: PagwSettings
) -> Webhook:
    """Build the handshake webhook of a subscription, with the client's own headers."""
    id = f"handshake-{row.subscription_id}"
    url = f"{settings.public_url}/fhir/Subscription/{row.subscription_id}"
    body = json.dumps(build_handshake(subscription_url=url, at=row.created_at, id=id), sort_keys=True)
    return Webhook(id, subscription.endpoint, body.encode(), parse_headers(subscription.headers))


def restore_announced_state(row: DeliveryRow, request: RequestRow) -> RequestRow:
    """Return the request in the state that the delivery announces.

    The request may have advanced or been cancelled since, but all attempts of a delivery send the same
    content.
    """
    announced = row.told
    status = Status(announced.get("status", request.status))
    changes: dict[str, Any] = {
        "status": status,
        "decision": announced.get("decision"),
        "error_code": announced.get("error_code"),
        "error_message": announced.get("error_message"),
        "metadata": {**request.metadata, "laterCallback": announced.get("callback")},
    }
    if "at" in announced:
        changes["completed_at"] = changes["updated_at"] = datetime.fromisoformat(announced["at"])
    return request.model_copy(update=changes)


def parse_headers(lines: tuple[str, ...]) -> dict[str, str]:
    """Return the headers that a subscriber wants on every webhook (`Name: value` lines), and the content
    type.
    """
    pairs = (each.partition(":") for each in lines)
    return {name.strip(): value.strip() for name, _, value in pairs} | {"content-type": FHIR_JSON}


def get_now(stores: Stores) -> datetime:
    """Return the current time of the stores' clock."""
    return stores.now()


def summarize_delivery(delivery: DeliveryAttempt) -> dict[str, Any]:
    """Return the outcome of an attempt for the audit log."""
    return {"outcome": delivery.outcome, "status": delivery.status, "detail": delivery.detail}
