"""The sender: from the queue of notices to every live connection of the employee; and the heartbeat.

A message that reaches nobody stays: whoever connects next is told. So nothing is tried again here, and one connection that
fails keeps no other waiting. The heartbeat finds the rows of connections that their process does not hold any more. Where the
process itself cannot be asked, its rows stay: it may be busy, and who is connected there must be found. Those of a process that died
go with their time, two hours after they began.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, Literal, get_args

from holdfast import Consumer, Handler, Received, Schedule, Stores
from holdfast.errors import PartyFailed
from tripcortex import patterns
from tripcortex.live import notices
from tripcortex.live.frames import message_frame, ping_frame
from tripcortex.live.notices import Notice
from tripcortex.live.ports import ConnectionGateway, ConnectionGone
from tripcortex.model import Connection

# The document's.
HEARTBEAT_S: Final = 300.0
AT_ONCE: Final = 20

# What became of a ping.
Beat = Literal["gone", "silent", "open"]

log = logging.getLogger(__name__)


class Sender:
    def __init__(self, stores: Stores, gateway: ConnectionGateway) -> None:
        self._stores, self._gateway = stores, gateway

    async def deliver(self, notice: Notice) -> int:
        """To how many connections it went. What is acknowledged already goes to none."""
        message = await self._stores.run(patterns.message(notice.employee_id, notice.message_id))
        if message is None:
            return 0
        live = await self._stores.all(patterns.connections_of(notice.employee_id))
        frame = message_frame(message)
        told = sum([await self._posted(each.connection_id, frame) for each in live])
        self._stores.count("tripcortex_messages", outcome="delivered" if told else "waiting")
        return told

    async def heartbeat(self) -> int:
        """Asks every connection; what is gone is forgotten. Gives how many were."""
        frame, gate = ping_frame(self._stores.clock.now()), asyncio.Semaphore(AT_ONCE)

        async def asked(connection: Connection) -> Beat:
            async with gate:
                try:
                    await self._gateway.post(connection, frame)
                except ConnectionGone:
                    await self._stores.run(patterns.delete_connection(connection.connection_id))
                    return "gone"
                except PartyFailed:
                    return "silent"
            return "open"

        found = await self._stores.all(patterns.all_connections())
        beats = Counter(await asyncio.gather(*[asked(each) for each in found]))
        if beats["gone"] or beats["silent"]:
            log.info(
                "%s connections were gone and are forgotten, %s could not be asked, %s are open",
                *(beats[each] for each in get_args(Beat)),
            )
        return beats["gone"]

    async def _posted(self, connection_id: str, frame: str) -> bool:
        """The index may be a little behind its table, so that the connection itself is looked at."""
        connection = await self._stores.run(patterns.connection(connection_id))
        if connection is None:
            return False
        try:
            await self._gateway.post(connection, frame)
        except ConnectionGone:
            await self._stores.run(patterns.delete_connection(connection_id))
            return False
        except PartyFailed as error:
            log.warning("A connection could not be reached, and keeps its row: %s", error.message)
            return False
        return True


# --- what a component runs -------------------------------------------------------------------------------------


def _gateway(stores: Stores) -> AbstractAsyncContextManager[ConnectionGateway]:
    """Imported when it is wanted: only who sends needs a client of HTTP."""
    from tripcortex.live.node_gateway import node_gateway

    return node_gateway(stores)


@asynccontextmanager
async def sending(stores: Stores) -> AsyncIterator[Handler]:
    async with _gateway(stores) as gateway:
        sender = Sender(stores, gateway)

        async def handle(received: Received[Notice]) -> None:
            await sender.deliver(received.message)

        yield handle


async def beat(stores: Stores) -> None:
    async with _gateway(stores) as gateway:
        await Sender(stores, gateway).heartbeat()


CONSUMER: Final = Consumer(
    notices.notices,
    sending,
    receive=notices.receive,
    delete=notices.done,
    hold=notices.hold,
    at_once=16,
)
SCHEDULES: Final = (notices.RELAY, Schedule("heartbeat", every_s=HEARTBEAT_S, run=beat))
