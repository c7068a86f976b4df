"""How something reaches an open connection, wherever it is held: a port with two ways behind it (`node_gateway` over our own
processes, `api_gateway` over Amazon's)."""

from __future__ import annotations

from typing import Protocol

from holdfast.errors import NotFound
from tripcortex.model import Connection


class ConnectionGone(NotFound, label="ConnectionGone"):
    """The connection is not open any more: its row may go. API Gateway says 410 of one."""


class ConnectionGateway(Protocol):
    async def post(self, connection: Connection, body: str) -> None:
        """Raises `ConnectionGone` where it is closed, `PartyFailed` where nobody could be asked."""
        ...
