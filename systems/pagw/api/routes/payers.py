"""The route of payers' callbacks. A payer authenticates with a signature, not with a token."""

from __future__ import annotations

import re
from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from holdfast.core.errors import NotFound
from pagw.api.routes import openapi
from pagw.api.routes.auth import UNAUTHENTICATED, run_route
from pagw.api.routes.errors import Refusal
from pagw.api.routes.native import build_response
from pagw.api.routes.openapi import describe_route
from pagw.api.routes.parameters import read_bounded_body
from pagw.api.routes.refusal_audit import RefusalAudit
from pagw.api.routes.views import CallbackTaken
from pagw.workers.payer_callbacks import PayerCallbacks

PAYER_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,50}")
# A decision has some kilobytes. The caller is unauthenticated until the whole body is read.
MAX_BYTES: Final = 1_000_000


def build_payer_routes(callbacks: PayerCallbacks) -> APIRouter:
    """Return the route of payers' callbacks."""
    router = APIRouter(tags=["payers"])
    refused = RefusalAudit(callbacks.stores)

    @router.post(
        "/payer-callbacks/{payer_id}",
        **describe_route(
            "takePayerCallback",
            "Receive a payer's decision on a pended request",
            parameters=[openapi.PAYER_ID, openapi.SIGNATURE],
            gives=CallbackTaken,
            schemes=(),
            descriptions={200: "The gateway stored the callback. Repeating it has no effect."},
        ),
    )
    async def take(request: Request) -> Response:
        payer_id = request.path_params["payer_id"]

        async def route() -> Response:
            if not PAYER_ID.fullmatch(payer_id):
                raise NotFound("No payer has this id.")
            await callbacks.admit(payer_id)
            body = await read_bounded_body(request, MAX_BYTES)
            return build_response(
                CallbackTaken(pagw_id=await callbacks.receive(payer_id, request.headers, body))
            )

        async def on_refusal(refusal: Refusal) -> None:
            if refusal.status == UNAUTHENTICATED:
                await refused.record_unauthenticated(request, refusal, "payer-callback", payer_id)

        return await run_route(request, route, on_refusal)

    return router
