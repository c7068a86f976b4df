"""Route where other processes of the service post a frame to a WebSocket that this process holds.

Calls are signed with a shared secret. The sender is `api.websocket.node_gateway`.
"""

from typing import Annotated, Final

from fastapi import APIRouter, Depends, HTTPException, Path, Response

from holdfast.runtime import open_secrets
from holdfast.web import BytesBody, build_signature_header, describe_problem, verify
from tripcortex.api.routes.auth import Gate
from tripcortex.api.websocket.hub import Hub
from tripcortex.api.websocket.node_gateway import SECRET, SIGNATURE_HEADER, build_signed_bytes
from tripcortex.api.websocket.ports import ConnectionGone

# API Gateway's limit.
MAX_FRAME_BYTES: Final = 128 * 1024
GONE: Final = 410
SIGNATURE: Final = "t=TIMESTAMP,v1=SIGNATURE, computed from timestamp, connection id and body."


def build_connection_routes(gate: Gate, hub: Hub) -> APIRouter:
    """Return the router of `POST /@connections/{connection_id}`.

    It verifies the signature, then sends the frame; 410 if the connection is not open here.
    """
    router = APIRouter(tags=["live"])
    secrets = open_secrets()

    @router.post(
        "/@connections/{connection_id}",
        operation_id="postToConnection",
        summary="Post a frame to an open connection (between processes of the service)",
        response_class=Response,
        response_description="The frame was sent.",
        responses={GONE: describe_problem("The connection is not open here.")},
    )
    async def post_to_connection(
        connection_id: Annotated[str, Path(description="The id of an open connection.")],
        # No more than a frame's size is read: the caller is not authenticated yet.
        body: Annotated[bytes, Depends(BytesBody(MAX_FRAME_BYTES))],
        signature: Annotated[str | None, build_signature_header(SIGNATURE_HEADER, SIGNATURE)] = None,
    ) -> Response:
        live = secrets.get(SECRET).live
        verify(signature, build_signed_bytes(connection_id, body), live, now=gate.stores.clock.now())
        try:
            await hub.post(connection_id, body.decode())
        except ConnectionGone as gone:
            raise HTTPException(GONE, gone.message) from None
        return Response()

    return router
