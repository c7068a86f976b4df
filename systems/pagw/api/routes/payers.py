"""The route of payers' callbacks. A payer authenticates with a signature, not with a token."""

import re
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Path

from holdfast.core.errors import NotFound
from holdfast.web import BytesBody, build_signature_header
from pagw.api.routes.refusal_audit import RefusalAudit
from pagw.api.routes.views import CallbackTaken
from pagw.workers.payer_callbacks import SIGNATURE_HEADER, PayerCallbacks

PAYER_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,50}")
# A decision has some kilobytes. The caller is unauthenticated until the whole body is read.
MAX_BYTES: Final = 1_000_000
SIGNATURE: Final = (
    "t=TIMESTAMP,v1=SIGNATURE: HMAC-SHA256 of TIMESTAMP.BODY, in hex, with the payer's callback secret."
)


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
