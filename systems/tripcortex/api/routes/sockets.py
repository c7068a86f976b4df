"""The WebSocket route `/ws`, only its handshake: it authenticates the employee, then `Sessions` serves.

The token comes in the header `Authorization: Bearer TOKEN`, or, from a browser, which cannot set one, as a
subprotocol: `new WebSocket(url, ["tripcortex.v1", "bearer." + token])`. The answer selects `tripcortex.v1`
and never the token. A token in the URL is refused, because URLs are logged. A refused handshake is answered
with its status (401, 429, 503) and a problem. Messages after the handshake are handled in
`api.websocket.sessions`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any, Final

from fastapi import APIRouter
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from holdfast.core.errors import TokenRefused
from holdfast.web import build_error_response
from holdfast.web.tokens import get_bearer_token
from tripcortex.api.routes.auth import Gate
from tripcortex.api.websocket.actions import ActionHandler
from tripcortex.api.websocket.hub import Hub
from tripcortex.api.websocket.sessions import ConnectionServer

SUBPROTOCOL: Final = "tripcortex.v1"
TOKEN_PREFIX: Final = "bearer."
FAILED: Final = 1011

log = logging.getLogger(__name__)


def build_socket_routes(gate: Gate, hub: Hub) -> APIRouter:
    """Return the router of the WebSocket `/ws`: authenticate, then serve until the connection ends."""
    router = APIRouter(tags=["live"])
    desk = ActionHandler(gate.stores, gate.trips, gate.authenticator)

    @router.websocket("/ws")
    async def ws(socket: WebSocket) -> None:
        sessions = ConnectionServer(gate.stores, hub, desk, lambda error: build_problem(socket, error))
        try:
            employee = await gate.authenticator.authenticate(read_token(socket))
            chosen = SUBPROTOCOL if SUBPROTOCOL in socket.scope["subprotocols"] else None
            await sessions.serve(socket, employee, get_node_url(socket, gate.settings.node_url), chosen)
        except WebSocketDisconnect:
            return
        except Exception as error:
            await _refuse(socket, error)

    return router


async def build_problem(socket: WebSocket, error: Exception) -> Mapping[str, Any]:
    """Return the JSON object of an error's problem response, for a frame of the WebSocket."""
    problem: Mapping[str, Any] = json.loads(bytes(build_error_response(socket, error).body))
    return problem


def read_token(socket: WebSocket) -> str:
    """Return the token of the handshake, from the subprotocol `bearer.TOKEN` or the Authorization header.

    Raise `TokenRefused` if there is none, several, or one in the URL.
    """
    if "token" in socket.query_params:
        raise TokenRefused(
            "TokenMissing",
            "The token is in the URL, and URLs are logged: get a new token from the issuer and send it as "
            f"the subprotocol bearer.TOKEN next to {SUBPROTOCOL}, or in the Authorization header.",
            challenge="Bearer",
        )
    offered = [each for each in socket.scope["subprotocols"] if each.startswith(TOKEN_PREFIX)]
    if not offered:
        return get_bearer_token(socket)
    if len(offered) > 1 or "authorization" in socket.headers:
        raise TokenRefused("TokenMalformed", "The request has several tokens: send one.")
    return str(offered[0].removeprefix(TOKEN_PREFIX))


def get_node_url(socket: WebSocket, configured: str) -> str:
    """Return the URL at which other processes reach this one.

    It is `configured`, or else the socket's server address.
    """
    if configured:
        return configured.rstrip("/")
    host, port = socket.scope["server"]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def _refuse(socket: WebSocket, error: Exception) -> None:
    """Refuse a handshake with the error's problem response; if it was already accepted, close with 1011."""
    answer = build_error_response(socket, error)
    if socket.application_state is WebSocketState.CONNECTING:
        await socket.send_denial_response(answer)
    elif socket.application_state is WebSocketState.CONNECTED:
        await socket.close(FAILED, "the service failed: connect again")
