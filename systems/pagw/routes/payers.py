"""Where payers call back. They prove with a signature who they are, and are asked for no token."""

from __future__ import annotations

import re
from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from holdfast.errors import NotFound
from pagw.payer_callbacks import PayerCallbacks
from pagw.routes import describing
from pagw.routes.asking import bounded_body
from pagw.routes.describing import described
from pagw.routes.guarding import UNPROVED, told
from pagw.routes.native import answer_of
from pagw.routes.refusals import Refusal
from pagw.routes.refused_calls import RefusedCalls
from pagw.routes.views import CallbackTaken

PAYER: Final = re.compile(r"[A-Za-z0-9._-]{1,50}")
# A decision is some kilobytes. Nothing is proved before it is read whole.
BYTES_MAX: Final = 1_000_000


def payer_routes(callbacks: PayerCallbacks) -> APIRouter:
    router = APIRouter(tags=["payers"])
    refused = RefusedCalls(callbacks.stores)

    @router.post(
        "/payer-callbacks/{payer_id}",
        **described(
            "takePayerCallback",
            "A payer's decision on a pended request",
            parameters=[describing.PAYER_ID, describing.SIGNATURE],
            gives=CallbackTaken,
            proofs=(),
            told={200: "It is stored; the same once more changes nothing."},
        ),
    )
    async def take(request: Request) -> Response:
        payer_id = request.path_params["payer_id"]

        async def route() -> Response:
            if not PAYER.fullmatch(payer_id):
                raise NotFound("No payer of this name calls back here.")
            await callbacks.admit(payer_id)
            body = await bounded_body(request, BYTES_MAX)
            return answer_of(CallbackTaken(pagw_id=await callbacks.take(payer_id, request.headers, body)))

        async def on_refusal(refusal: Refusal) -> None:
            if refusal.status == UNPROVED:
                await refused.unproved(request, refusal, "payer-callback", payer_id)

        return await told(request, route, on_refusal)

    return router
