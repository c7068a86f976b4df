"""Route where other processes of the service post a frame to a WebSocket that this process holds.

Calls are signed with a shared secret. The sender is `api.websocket.node_gateway`.
"""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from holdfast import open_secrets
from holdfast.web import build_status_response, verify
from tripcortex.api.routes.auth import Gate, respond
from tripcortex.api.routes.openapi import CONNECTION_ID, SIGNATURE, describe
from tripcortex.api.routes.request_params import read_body
from tripcortex.api.websocket.hub import Hub
from tripcortex.api.websocket.node_gateway import SECRET, SIGNATURE_HEADER, build_signed_bytes
from tripcortex.api.websocket.ports import ConnectionGone

# API Gateway's limit.
MAX_FRAME_BYTES: Final = 128 * 1024
GONE: Final = 410


def build_connection_routes(gate: Gate, hub: Hub) -> APIRouter:
    """Return the router of `POST /@connections/{connection_id}`.

    It verifies the signature, then sends the frame; 410 if the connection is not open here.
    """
    router = APIRouter(tags=["live"])
    secrets = open_secrets()

    @router.post(
        "/@connections/{connection_id}",
        **describe(
            "postToConnection",
            "Post a frame to an open connection (between processes of the service)",
            parameters=[CONNECTION_ID, SIGNATURE],
            schemes=(),
            descriptions={200: "The frame was sent.", GONE: "The connection is not open here."},
        ),
    )
    async def post_to_connection(request: Request) -> Response:
        async def route() -> Response:
            # Read no more than a frame's size: the caller is not authenticated yet.
            connection_id, body = (
                request.path_params["connection_id"],
                await read_body(request, MAX_FRAME_BYTES),
            )
            given = request.headers.get(SIGNATURE_HEADER)
            live = secrets.get(SECRET).live
            verify(given, build_signed_bytes(connection_id, body), live, now=gate.stores.clock.now())
            try:
                await hub.post(connection_id, body.decode())
            except ConnectionGone as gone:
                return build_status_response(GONE, gone.message)
            return Response(status_code=200)

        return await respond(request, route)

    return router
