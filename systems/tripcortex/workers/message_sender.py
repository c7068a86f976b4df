"""The message sender: delivers messages to an employee's live connections, and pings all connections.

A message that reaches no connection stays stored and is sent on the next connection. So nothing is retried
here, and one failing connection does not delay the others. The heartbeat deletes rows of connections that
their process no longer holds. If the process is unreachable its rows stay: it may be busy, and its
connections must be found. Rows of a dead process expire two hours after the connection began.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, Literal, get_args

from holdfast import Consumer, ReceivedMessage, Schedule, Stores
from holdfast.core.errors import ExternalServiceFailed
from holdfast.model.components import Handler
from tripcortex.api.websocket.frames import build_message_frame, build_ping_frame
from tripcortex.api.websocket.ports import ConnectionGateway, ConnectionGone
from tripcortex.model import notices, patterns
from tripcortex.model.entities import Connection
from tripcortex.model.notices import Notice

# The document's interval.
HEARTBEAT_S: Final = 300.0
CONCURRENT_PINGS: Final = 20

# The outcome of a ping.
PingOutcome = Literal["gone", "silent", "open"]

log = logging.getLogger(__name__)


class MessageSender:
    """Delivers messages to employees' connections, and pings the connections."""

    def __init__(self, stores: Stores, gateway: ConnectionGateway) -> None:
        self._stores, self._gateway = stores, gateway

    async def deliver(self, notice: Notice) -> int:
        """Send the announced message to the employee's connections; return how many it reached.

        It is 0 if the message is already acknowledged.
        """
        message = await self._stores.run(patterns.message(notice.employee_id, notice.message_id))
        if message is None:
            return 0
        live = await self._stores.all(patterns.connections_of(notice.employee_id))
        frame = build_message_frame(message)
        reached = sum([await self._post(each.connection_id, frame) for each in live])
        self._stores.count("tripcortex_messages", outcome="delivered" if reached else "waiting")
        return reached

    async def heartbeat(self) -> int:
        """Ping every connection and delete the rows of those that are gone. Return how many were gone."""
        frame, gate = build_ping_frame(self._stores.clock.now()), asyncio.Semaphore(CONCURRENT_PINGS)

        async def ping(connection: Connection) -> PingOutcome:
            async with gate:
                try:
                    await self._gateway.post(connection, frame)
                except ConnectionGone:
                    await self._stores.run(patterns.delete_connection(connection.connection_id))
                    return "gone"
                except ExternalServiceFailed:
                    return "silent"
            return "open"

        found = await self._stores.all(patterns.all_connections())
        outcomes = Counter(await asyncio.gather(*[ping(each) for each in found]))
        if outcomes["gone"] or outcomes["silent"]:
            log.info(
                "Heartbeat: %s connections gone and deleted, %s unreachable, %s open",
                *(outcomes[each] for each in get_args(PingOutcome)),
            )
        return outcomes["gone"]

    async def _post(self, connection_id: str, frame: str) -> bool:
        """Send a frame to one connection; return whether it arrived.

        Reads the row first, because the index may lag behind its table. The row of a connection that is gone
        is deleted.
        """
        connection = await self._stores.run(patterns.connection(connection_id))
        if connection is None:
            return False
        try:
            await self._gateway.post(connection, frame)
        except ConnectionGone:
            await self._stores.run(patterns.delete_connection(connection_id))
            return False
        except ExternalServiceFailed as error:
            log.warning("Connection unreachable, row kept: %s", error.message)
            return False
        return True


# --- consumer and schedules ---------------------------------------------------------------------------------


def _open_gateway(stores: Stores) -> AbstractAsyncContextManager[ConnectionGateway]:
    """Open the gateway. Imported here because only the sender needs an HTTP client."""
    from tripcortex.api.websocket.node_gateway import open_node_gateway

    return open_node_gateway(stores)


@asynccontextmanager
async def open_handler(stores: Stores) -> AsyncIterator[Handler]:
    """Open the handler of the notice queue; it delivers each announced message."""
    async with _open_gateway(stores) as gateway:
        sender = MessageSender(stores, gateway)

        async def handle(received: ReceivedMessage[Notice]) -> None:
            await sender.deliver(received.message)

        yield handle


async def send_heartbeat(stores: Stores) -> None:
    """Ping every connection once, for the schedule."""
    async with _open_gateway(stores) as gateway:
        await MessageSender(stores, gateway).heartbeat()


CONSUMER: Final = Consumer(notices.notices, open_handler, concurrency=16)
SCHEDULES: Final = (notices.RELAY, Schedule("heartbeat", every_s=HEARTBEAT_S, run=send_heartbeat))
