"""The port `ConnectionGateway`, which sends a frame to an open connection wherever it is held.

Two implementations: `node_gateway` over the service's own processes, `api_gateway` over Amazon API Gateway.
"""

from __future__ import annotations

from typing import Protocol

from holdfast.core.errors import NotFound
from tripcortex.model.entities import Connection


class ConnectionGone(NotFound, label="ConnectionGone"):
    """The connection is no longer open, so its row may be deleted. API Gateway answers 410."""


class ConnectionGateway(Protocol):
    """Sends frames to the connections of a process or a service."""

    async def post(self, connection: Connection, body: str) -> None:
        """Send a frame.

        Raise `ConnectionGone` if the connection is closed, `ExternalServiceFailed` if its holder is
        unreachable.
        """
        ...
