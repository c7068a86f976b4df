"""The way to a connection that a process of ours holds: `POST {node}/@connections/{connectionId}`, as API Gateway has it.

Each call is signed with a secret that our processes share (`tripcortex/connections`), over the connection's id and the body:
it can be sent to no other connection, and not again later. The other end is `routes/nodes.py`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import quote

import httpx2

from holdfast import Stores, open_secrets
from holdfast.clock import Clock
from holdfast.errors import PartyFailed
from holdfast.web import sign
from tripcortex.live.ports import ConnectionGone
from tripcortex.model import Connection

SECRET: Final = "tripcortex/connections"
SIGNATURE_HEADER: Final = "x-tripcortex-signature"
PATIENCE_S: Final = 8.0
OK: Final = 200
GONE: Final = 410


class NodeGateway:
    def __init__(self, http: httpx2.AsyncClient, secret: str, clock: Clock) -> None:
        self._http, self._secret, self._clock = http, secret, clock

    async def post(self, connection: Connection, body: str) -> None:
        if connection.node is None:
            raise ConnectionGone("The connection does not say which process holds it.")
        content = body.encode()
        signature = sign(self._secret, signed_bytes(connection.connection_id, content), self._clock.now())
        address = f"{connection.node}/@connections/{quote(connection.connection_id, safe='')}"
        try:
            answer = await self._http.post(address, content=content, headers={SIGNATURE_HEADER: signature})
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise PartyFailed(
                f"The process that holds a connection did not answer ({type(error).__name__}).",
                may_be_done=True,
            ) from error
        if answer.status_code == GONE:
            raise ConnectionGone("The process does not hold the connection any more.")
        if answer.status_code != OK:
            raise PartyFailed(
                f"The process that holds a connection answered {answer.status_code}.", may_be_done=False
            )


def signed_bytes(connection_id: str, body: bytes) -> bytes:
    return connection_id.encode() + b"\n" + body


@asynccontextmanager
async def node_gateway(stores: Stores) -> AsyncIterator[NodeGateway]:
    secret = open_secrets().get(SECRET).live[0]
    # These are addresses of our own network: no proxy stands between.
    async with httpx2.AsyncClient(timeout=PATIENCE_S, follow_redirects=False, trust_env=False) as http:
        yield NodeGateway(http, secret, stores.clock)
