"""The routes of payers' callbacks and notifications.

A payer authenticates a callback with a signature, and a notification with the secret of its subscription.
"""

import re
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Header, Path

from holdfast import Stores
from holdfast.core.errors import NotFound
from holdfast.runtime import Secrets
from holdfast.web import BytesBody, build_signature_header
from pagw.api.routes.refusal_audit import RefusalAudit
from pagw.api.routes.views import Bundle, CallbackTaken, KeySet, NotificationTaken
from pagw.domain.fhir.parser import MEDIA_TYPES
from pagw.ops.payers import load_key_set
from pagw.workers.payer_callbacks import SIGNATURE_HEADER, PayerCallbacks
from pagw.workers.payer_notifications import PayerNotifications

PAYER_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,50}")
# A decision has some kilobytes. The caller is unauthenticated until the whole body is read.
MAX_BYTES: Final = 1_000_000
# A notification has whole response Bundles. Its caller is authenticated before the body is read.
MAX_NOTIFICATION_BYTES: Final = 10_000_000
SIGNATURE: Final = (
    "t=TIMESTAMP,v1=SIGNATURE: HMAC-SHA256 of TIMESTAMP.BODY, in hex, with the payer's callback secret."
)
SECRET: Final = "`Bearer` and the payer's callback secret, as the gateway's subscription says."


def build_payer_routes(callbacks: PayerCallbacks) -> APIRouter:
    """Return the route of payers' callbacks."""
    audit = RefusalAudit(callbacks.stores)
    router = APIRouter(tags=["payers"], dependencies=[audit.watch("payer-callback")])

    async def admit(payer_id: Annotated[str, Path(description="The id of a payer.")]) -> str:
        if not PAYER_ID.fullmatch(payer_id):
            raise NotFound("No payer has this id.")
        await callbacks.admit(payer_id)
        return payer_id

    @router.post(
        "/payer-callbacks/{payer_id}",
        operation_id="takePayerCallback",
        summary="Receive a payer's decision on a pended request",
        response_description="The gateway stored the callback. Repeating it has no effect.",
    )
    async def take(
        payer_id: Annotated[str, Depends(admit)],
        body: Annotated[bytes, Depends(BytesBody(MAX_BYTES))],
        signature: Annotated[str | None, build_signature_header(SIGNATURE_HEADER, SIGNATURE)] = None,
    ) -> CallbackTaken:
        return CallbackTaken(pagw_id=await callbacks.receive(payer_id, signature, body))

    return router


def build_notification_routes(notifications: PayerNotifications) -> APIRouter:
    """Return the route of the notifications of payers that speak PAS."""
    audit = RefusalAudit(notifications.stores)
    router = APIRouter(tags=["payers"], dependencies=[audit.watch("payer-notification")])

    async def admit(
        payer_id: Annotated[str, Path(description="The id of a payer.")],
        authorization: Annotated[str | None, Header(description=SECRET)] = None,
    ) -> str:
        if not PAYER_ID.fullmatch(payer_id):
            raise NotFound("No payer has this id.")
        await notifications.admit(payer_id, authorization)
        return payer_id

    @router.post(
        "/payer-callbacks/{payer_id}/notifications",
        operation_id="takePayerNotification",
        summary="Receive a notification of the gateway's subscription at a payer",
        response_description="The gateway stored the responses. Repeating the notification has no effect.",
    )
    async def take(
        payer_id: Annotated[str, Depends(admit)],
        body: Annotated[
            bytes,
            Depends(BytesBody(MAX_NOTIFICATION_BYTES, media_types=sorted(MEDIA_TYPES), model=Bundle)),
        ],
    ) -> NotificationTaken:
        return NotificationTaken(pagw_ids=await notifications.receive(payer_id, body))

    return router


def build_key_set_routes(stores: Stores, secrets: Secrets) -> APIRouter:
    """Return the route of the gateway's public keys, with which payers verify its signed assertions."""
    router = APIRouter(tags=["payers"])

    @router.get(
        "/.well-known/jwks.json",
        operation_id="getKeys",
        summary="Get the gateway's public keys, which verify its assertions at payers",
    )
    async def keys() -> KeySet:
        return KeySet(**await load_key_set(stores, secrets))

    return router
