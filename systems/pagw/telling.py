"""Telling a client something at an address that it named: what is sent, how it is signed, and what its answer means.

A native client is told where its answer is and nothing of it. A subscriber is told the answer itself, as it asked to be.
Every call has an id, which is the same however often it is made, and a signature over time and body by the secret of the
tenant (`pagw/webhooks/{tenant}`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import httpx2

from holdfast import Secrets, Stores
from holdfast.web import sign
from holdfast.web.targets import Delivery, checked_target, deliver
from pagw import files
from pagw.auditing import Actor
from pagw.fhir.notifications import notification
from pagw.fhir.subscriptions import Subscribed
from pagw.model import FHIR_JSON, JSON, DeliveryRow, Tracked
from pagw.settings import PagwSettings
from pagw.statuses import Status
from pagw.waiting import Answers

ID_HEADER: Final = "x-pagw-delivery-id"
SIGNATURE_HEADER: Final = "x-pagw-signature"
NOTIFIER: Final = "passubscriptionhandler"


@dataclass(frozen=True)
class Call:
    """One thing to tell: the same bytes under the same id, however often it is told."""

    id: str
    target: str
    body: bytes
    headers: Mapping[str, str]


@dataclass(frozen=True)
class Teller:
    stores: Stores
    http: httpx2.AsyncClient
    secrets: Secrets
    settings: PagwSettings

    async def tell(self, tenant: str, call: Call) -> Delivery:
        """One attempt. Raises `TargetRefused` for an address that is never called, `SecretMissing` without a secret."""
        target = checked_target(call.target, allow_private=self.settings.private_targets)
        secret = self.secrets.get(f"pagw/webhooks/{tenant}")
        signature = sign(secret.current, call.body, self.stores.clock.now())
        headers = {**call.headers, ID_HEADER: call.id, SIGNATURE_HEADER: signature}
        return await deliver(self.http, target, call.body, headers)

    async def call_of(self, row: DeliveryRow, request: Tracked) -> Call:
        if row.subscription_id is None:
            return Call(row.delivery_id, row.target, self._pointer(row, request), {"content-type": JSON})
        kept = await self.stores.run(files.kept_subscription(row.tenant, row.subscription_id))
        asked = Subscribed.model_validate_json(kept.body)
        return Call(
            row.delivery_id, row.target, await self._notification(row, request), headers_of(asked.headers)
        )

    def _pointer(self, row: DeliveryRow, request: Tracked) -> bytes:
        told = as_told(row, request)
        return json.dumps(
            {
                "pagwId": request.pagw_id,
                "status": told.status,
                "decision": told.decision,
                "errorCode": told.error_code,
                "response": f"{self.settings.public_url}/pas/requests/{request.pagw_id}/response",
            },
            sort_keys=True,
        ).encode()

    async def _notification(self, row: DeliveryRow, request: Tracked) -> bytes:
        """Its time is that of the event, so that every attempt sends the same."""
        answer = await Answers(self.stores).bundle(as_told(row, request), Actor.service(NOTIFIER))
        told = notification(
            answer,
            subscription_url=f"{self.settings.public_url}/fhir/Subscription/{row.subscription_id}",
            event_number=row.event_number,
            at=row.created_at,
            id=row.delivery_id.replace("#", "-"),
        )
        return json.dumps(told, sort_keys=True, separators=(",", ":")).encode()


def as_told(row: DeliveryRow, request: Tracked) -> Tracked:
    """The request as it stood when it was decided to tell of it. It may have been brought on since, or cancelled: what is
    told under one id is the same from the first attempt to the last."""
    told = row.told
    status = Status(told.get("status", request.status))
    changes: dict[str, Any] = {
        "status": status,
        "decision": told.get("decision"),
        "error_code": told.get("error_code"),
        "error_message": told.get("error_message"),
    }
    if "at" in told:
        changes["completed_at"] = changes["updated_at"] = datetime.fromisoformat(told["at"])
    return request.model_copy(update=changes)


def headers_of(asked: tuple[str, ...]) -> dict[str, str]:
    """The headers that a subscriber wants on every call."""
    pairs = (each.partition(":") for each in asked)
    return {name.strip(): value.strip() for name, _, value in pairs} | {"content-type": FHIR_JSON}


def moment(stores: Stores) -> datetime:
    return datetime.fromtimestamp(stores.clock.now(), UTC)


def told_in_short(delivery: Delivery) -> dict[str, Any]:
    return {"outcome": delivery.outcome, "status": delivery.status, "detail": delivery.detail}
