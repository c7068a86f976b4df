"""Gateway to WebSocket connections that another process of the service holds: a signed HTTP POST to it.

The address is `{node}/@connections/{connectionId}`, as in API Gateway. Each call is signed with a secret that
the processes share (`tripcortex/connections`), over the connection id and the body: it is invalid for another
connection and cannot be replayed later. The receiver is `api.routes.connections`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import quote

import httpx2

from holdfast import Stores
from holdfast.core.clock import Clock
from holdfast.core.errors import ExternalServiceFailed
from holdfast.runtime import open_secrets
from holdfast.web import sign
from tripcortex.api.websocket.ports import ConnectionGone
from tripcortex.model.entities import Connection

SECRET: Final = "tripcortex/connections"
SIGNATURE_HEADER: Final = "x-tripcortex-signature"
TIMEOUT_S: Final = 8.0
OK: Final = 200
GONE: Final = 410


class NodeGateway:
    """The gateway to connections that another process of the service holds."""

    def __init__(self, http: httpx2.AsyncClient, secret: str, clock: Clock) -> None:
        self._http, self._secret, self._clock = http, secret, clock

    async def post(self, connection: Connection, body: str) -> None:
        """Post a frame to the process that holds the connection.

        Raise `ConnectionGone` if it has no node or its process answers 410, else `ExternalServiceFailed`.
        """
        if connection.node is None:
            raise ConnectionGone("The connection has no node address.")
        content = body.encode()
        signature = sign(
            self._secret, build_signed_bytes(connection.connection_id, content), self._clock.now()
        )
        address = f"{connection.node}/@connections/{quote(connection.connection_id, safe='')}"
        try:
            answer = await self._http.post(address, content=content, headers={SIGNATURE_HEADER: signature})
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise ExternalServiceFailed(
                f"The process that holds the connection did not answer ({type(error).__name__}).",
                may_be_done=True,
            ) from error
        if answer.status_code == GONE:
            raise ConnectionGone("The process no longer holds the connection.")
        if answer.status_code != OK:
            raise ExternalServiceFailed(
                f"The process that holds the connection answered {answer.status_code}.", may_be_done=False
            )


def build_signed_bytes(connection_id: str, body: bytes) -> bytes:
    """Return the bytes that the signature covers: connection id, line feed, body."""
    return connection_id.encode() + b"\n" + body


@asynccontextmanager
async def open_node_gateway(stores: Stores) -> AsyncIterator[NodeGateway]:
    """Open a gateway that signs with the current secret; its HTTP client is closed on exit."""
    secret = open_secrets().get(SECRET).live[0]
    # The addresses are in the internal network, so no proxy is used.
    async with httpx2.AsyncClient(timeout=TIMEOUT_S, follow_redirects=False, trust_env=False) as http:
        yield NodeGateway(http, secret, stores.clock)
