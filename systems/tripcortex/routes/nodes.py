"""Where other processes of ours hand over what is for a connection that this one holds (`live/node_gateway.py`)."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from holdfast import open_secrets
from holdfast.web import problem_of_status, verify
from tripcortex.live.hub import Hub
from tripcortex.live.node_gateway import SECRET, SIGNATURE_HEADER, signed_bytes
from tripcortex.live.ports import ConnectionGone
from tripcortex.routes.asking import body_of
from tripcortex.routes.describing import CONNECTION_ID, SIGNATURE, described
from tripcortex.routes.guarding import Gate, told

# As much as API Gateway takes.
FRAME_BYTES_MAX: Final = 128 * 1024
GONE: Final = 410


def node_routes(gate: Gate, hub: Hub) -> APIRouter:
    router = APIRouter(tags=["live"])
    secrets = open_secrets()

    @router.post(
        "/@connections/{connection_id}",
        **described(
            "postToConnection",
            "Hand over what is for an open connection (between processes of the service)",
            parameters=[CONNECTION_ID, SIGNATURE],
            proofs=(),
            told={200: "It is sent.", GONE: "The connection is not open here."},
        ),
    )
    async def post_to_connection(request: Request) -> Response:
        async def route() -> Response:
            # Read no further than a frame can be: whoever calls has proved nothing yet.
            connection_id, body = (
                request.path_params["connection_id"],
                await body_of(request, FRAME_BYTES_MAX),
            )
            given = request.headers.get(SIGNATURE_HEADER)
            live = secrets.get(SECRET).live
            verify(given, signed_bytes(connection_id, body), live, now=gate.stores.clock.now())
            try:
                await hub.post(connection_id, body.decode())
            except ConnectionGone as gone:
                return problem_of_status(GONE, gone.message)
            return Response(status_code=200)

        return await told(request, route)

    return router
