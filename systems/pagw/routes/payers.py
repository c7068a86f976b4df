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
from pagw.routes.guarding import open_to_all
from pagw.routes.native import answer_of
from pagw.routes.views import CallbackTaken

PAYER: Final = re.compile(r"[A-Za-z0-9._-]{1,50}")
BYTES_MAX: Final = 5_000_000


def payer_routes(callbacks: PayerCallbacks) -> APIRouter:
    router = APIRouter(tags=["payers"])

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
    @open_to_all
    async def take(request: Request) -> Response:
        payer_id = request.path_params["payer_id"]
        if not PAYER.fullmatch(payer_id):
            raise NotFound("No payer of this name calls back here.")
        body = await bounded_body(request, BYTES_MAX)
        return answer_of(CallbackTaken(pagw_id=await callbacks.take(payer_id, request.headers, body)))

    return router
