"""The WebSocket of an employee, at `/ws`.

Who connects is proved at the handshake: by the header `Authorization: Bearer TOKEN`, or, from a browser, which cannot set one,
by a subprotocol: `new WebSocket(url, ["tripcortex.v1", "bearer." + token])`. `tripcortex.v1` is what is answered, and never the
token. A token in the address is refused: addresses end in logs. A handshake that is refused is answered with its status (401,
429, 503) and a problem.
"""

from __future__ import annotations

import logging
from typing import Final

from fastapi import APIRouter
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from holdfast.errors import TokenRefused
from holdfast.web.tokens import bearer_token
from tripcortex.live.desk import Desk
from tripcortex.live.hub import Hub
from tripcortex.live.sessions import Sessions
from tripcortex.routes.guarding import Gate, as_request, problem_in, refusal_of

SUBPROTOCOL: Final = "tripcortex.v1"
TOKEN_PREFIX: Final = "bearer."
FAILED: Final = 1011

log = logging.getLogger(__name__)


def socket_routes(gate: Gate, hub: Hub) -> APIRouter:
    router = APIRouter(tags=["live"])
    desk = Desk(gate.stores, gate.trips, gate.identities)

    @router.websocket("/ws")
    async def ws(socket: WebSocket) -> None:
        sessions = Sessions(gate.stores, hub, desk, lambda error: problem_in(socket, error))
        try:
            employee = await gate.identities.employee(token_of(socket))
            chosen = SUBPROTOCOL if SUBPROTOCOL in socket.scope["subprotocols"] else None
            await sessions.hold(socket, employee, node_of(socket, gate.settings.node_url), chosen)
        except WebSocketDisconnect:
            return
        except Exception as error:
            await _refuse(socket, error)

    return router


def token_of(socket: WebSocket) -> str:
    if "token" in socket.query_params:
        raise TokenRefused(
            "TokenMissing",
            "The token is in the address, which ends in logs: send it as the subprotocol bearer.TOKEN beside "
            f"{SUBPROTOCOL}, or in the header Authorization, and ask the issuer for another.",
            challenge="Bearer",
        )
    offered = [each for each in socket.scope["subprotocols"] if each.startswith(TOKEN_PREFIX)]
    if not offered:
        return bearer_token(socket)
    if len(offered) > 1 or "authorization" in socket.headers:
        raise TokenRefused("TokenMalformed", "There are several tokens: send one.")
    return str(offered[0].removeprefix(TOKEN_PREFIX))


def node_of(socket: WebSocket, configured: str) -> str:
    """Where other processes of ours reach this one: as configured, or the very address that took the connection."""
    if configured:
        return configured.rstrip("/")
    host, port = socket.scope["server"]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def _refuse(socket: WebSocket, error: Exception) -> None:
    """Before the handshake is answered, as any request is; after it, by its end."""
    answer = await refusal_of(as_request(socket), error)
    if socket.application_state is WebSocketState.CONNECTING:
        await socket.send_denial_response(answer)
    elif socket.application_state is WebSocketState.CONNECTED:
        await socket.close(FAILED, "the service failed: connect again")
