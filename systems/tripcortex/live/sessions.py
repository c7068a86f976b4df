"""The life of one connection: its row (D1), what was missed, the client's messages one by one, and its end (D3).

The row is written before the handshake is answered, so that whoever is connected can be reached. A connection ends when the
client leaves, when its token does (4401), after two hours (1001), and when it asks too much (1008); bad input is refused and
ends nothing. Every five minutes, and soon after it began, it looks after itself: a row that others took for gone is put back,
and what did not come through is sent.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, Protocol

from holdfast import Stores
from holdfast.clock import SystemClock
from holdfast.correlation import correlated
from holdfast.errors import HoldfastError, InvalidRequest, RetryLater
from tripcortex import patterns
from tripcortex.live.desk import Desk, Visitor, read_action
from tripcortex.live.frames import answer_frame, message_frame, problem_frame
from tripcortex.live.hub import Hub, OpenSocket
from tripcortex.live.identity import Employee
from tripcortex.model import CONNECTION_S, Connection

TOKEN_ENDED: Final = 4401
GOING_AWAY: Final = 1001
TOO_MANY: Final = 1008
# As much later than its end as a token is taken at the handshake.
LEEWAY_S: Final = 30.0
# From the document's heartbeat; the first look is soon: an index may show a new connection a little later.
LOOKS_AFTER_S: Final = 300.0
FIRST_LOOK_S: Final = 5.0
# How often a clock that others may move is looked at.
CLOCK_LOOK_S: Final = 0.25
WAIT_S_MAX: Final = 60.0
MESSAGES_A_MINUTE_MAX: Final = 120
MINUTE_S: Final = 60.0
ECHOED_CHARS_MAX: Final = 64

log = logging.getLogger(__name__)

# An error as the problem object that a client is told.
Told = Callable[[Exception], Awaitable[Mapping[str, Any]]]


class Socket(OpenSocket, Protocol):
    async def accept(self, subprotocol: str | None = None) -> None: ...
    async def receive(self) -> Mapping[str, Any]: ...
    async def close(self, code: int = 1000, reason: str | None = None) -> None: ...


class End(NamedTuple):
    code: int
    reason: str


@dataclass(frozen=True)
class Sessions:
    """What all connections of a process share."""

    stores: Stores
    hub: Hub
    desk: Desk
    told: Told

    async def hold(self, socket: Socket, employee: Employee, node: str, subprotocol: str | None) -> None:
        """Until it ends. What is raised before the handshake was answered refuses the connection."""
        connection = Connection(
            connection_id=secrets.token_urlsafe(16),
            employee_id=employee.employee_id,
            connected_at=datetime.fromtimestamp(int(self.stores.clock.now()), UTC),
            node=node,
        )
        self.hub.admit(connection.connection_id, employee.employee_id)
        line = Line(socket)
        try:
            self.hub.opened(connection.connection_id, line)
            await self.stores.run(patterns.put_connection(connection))
            await socket.accept(subprotocol)
            line.accepted.set()
            end = await Session(self, connection, employee, line).converse(socket)
            if end is not None:
                await socket.close(end.code, end.reason)
        finally:
            self.hub.left(connection.connection_id)
            await self._forget(connection)

    async def _forget(self, connection: Connection) -> None:
        try:
            await self.stores.run(patterns.delete_connection(connection.connection_id))
        except HoldfastError as error:
            log.warning("A connection has ended and its row is left to the heartbeat: %s", error.message)


class Line:
    """A socket that may be spoken to before the handshake is answered: what is said then waits. It knows which messages
    went through it."""

    def __init__(self, socket: OpenSocket) -> None:
        self._socket = socket
        self.accepted = asyncio.Event()
        self.sent: set[str] = set()

    async def send_text(self, data: str) -> None:
        await self.accepted.wait()
        await self._socket.send_text(data)
        frame = json.loads(data)
        if "messageId" in frame and frame.get("kind") == "message":
            self.sent.add(frame["messageId"])


class Session:
    def __init__(self, shared: Sessions, connection: Connection, employee: Employee, line: Line) -> None:
        self._shared, self._connection, self._line = shared, connection, line
        self._stores, self._clock = shared.stores, shared.stores.clock
        self._visitor = Visitor(employee, self.resume)
        began = self._clock.now()
        self._ends_at = connection.connected_at.timestamp() + CONNECTION_S
        self._looks_at = began + FIRST_LOOK_S
        self._minute, self._count = began, 0

    async def converse(self, socket: Socket) -> End | None:
        """Answers until there is an end; None where the client left by itself."""
        await self._catch_up()
        receiving = asyncio.ensure_future(socket.receive())
        try:
            while (end := await self._looked_after()) is None:
                done, _ = await asyncio.wait({receiving}, timeout=self._patience_s())
                if not done:
                    continue
                event = receiving.result()
                if event["type"] != "websocket.receive":
                    return None
                if self._is_too_much():
                    return End(TOO_MANY, "too many messages in a minute")
                await self._line.send_text(await self._answer(event.get("text")))
                receiving = asyncio.ensure_future(socket.receive())
            return end
        finally:
            receiving.cancel()

    async def resume(self) -> int:
        """All that is not acknowledged, in order; gives how many."""
        self._line.sent.clear()
        return await self._catch_up()

    # --- what comes in ---------------------------------------------------------------------------------------

    async def _answer(self, text: str | None) -> str:
        name, request_id = _named(text)
        with correlated():
            try:
                if text is None:
                    raise InvalidRequest("Messages are texts of JSON, and this one is binary.")
                action = read_action(text)
                told = await self._shared.desk.served(self._visitor, action)
            except Exception as error:
                return problem_frame(name, request_id, await self._shared.told(error))
        return answer_frame(action.action, action.request_id, told)

    def _is_too_much(self) -> bool:
        now = self._clock.now()
        if now - self._minute >= MINUTE_S:
            self._minute, self._count = now, 0
        self._count += 1
        return self._count > MESSAGES_A_MINUTE_MAX

    # --- what time does --------------------------------------------------------------------------------------

    async def _looked_after(self) -> End | None:
        now = self._clock.now()
        if now >= self._ends_at:
            return End(GOING_AWAY, "connected for two hours: connect again")
        if now >= self._visitor.employee.expires_at + LEEWAY_S:
            return End(TOKEN_ENDED, "the token has ended: connect again with a fresh one")
        if now >= self._looks_at:
            self._looks_at = now + LOOKS_AFTER_S
            await self._look_after()
        return None

    def _patience_s(self) -> float:
        token_ends = self._visitor.employee.expires_at + LEEWAY_S
        left = min(self._ends_at, self._looks_at, token_ends) - self._clock.now()
        longest = WAIT_S_MAX if isinstance(self._clock, SystemClock) else CLOCK_LOOK_S
        return max(0.0, min(left, longest))

    async def _look_after(self) -> None:
        try:
            if await self._stores.run(patterns.connection(self._connection.connection_id)) is None:
                await self._stores.run(patterns.put_connection(self._connection))
            await self._catch_up()
        except RetryLater as error:
            log.warning("A connection could not look after itself just now: %s", error.message)

    async def _catch_up(self) -> int:
        """What is not acknowledged and did not go through this line."""
        count = 0
        async for message in self._stores.each(patterns.unacknowledged(self._connection.employee_id)):
            if message.message_id not in self._line.sent:
                await self._line.send_text(message_frame(message))
                count += 1
        return count


def _named(text: str | None) -> tuple[str | None, str | None]:
    """What an action calls itself, also where it is otherwise of no use: so that its refusal finds who waits for it."""
    try:
        told = json.loads(text or "")
    except (ValueError, RecursionError):
        return None, None
    named = [told.get(each) for each in ("action", "requestId")] if isinstance(told, dict) else [None, None]
    action, request_id = (each if _may_be_echoed(each) else None for each in named)
    return action, request_id


def _may_be_echoed(told: Any) -> bool:
    """JSON can name half a character (a lone surrogate), which no frame can carry."""
    if not isinstance(told, str) or len(told) > ECHOED_CHARS_MAX:
        return False
    return told.encode(errors="ignore").decode() == told
