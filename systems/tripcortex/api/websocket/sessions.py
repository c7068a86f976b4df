"""The life of a WebSocket connection after authentication: row, missed messages, actions, end (D1, D3).

The row is written before the handshake is answered, so every connected client can be reached. A connection
ends when the client leaves, when its token expires (4401), after two hours (1001), and when it sends too many
messages (1008); invalid input is refused and does not end it. Soon after the start and then every five
minutes the session checks itself: it restores its row if it was deleted, and sends missed messages.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, Protocol

from holdfast import Stores
from holdfast.core.clock import SystemClock
from holdfast.core.correlation import bind_correlation_id
from holdfast.core.errors import HoldfastError, InvalidRequest, RetryLater
from holdfast.core.rng import make_url_token
from tripcortex.api.identity import Employee
from tripcortex.api.websocket.actions import ActionHandler, Client, parse_action
from tripcortex.api.websocket.frames import build_answer_frame, build_message_frame, build_problem_frame
from tripcortex.api.websocket.hub import Hub, OpenSocket
from tripcortex.model import patterns
from tripcortex.model.entities import CONNECTION_S, Connection

TOKEN_EXPIRED: Final = 4401
GOING_AWAY: Final = 1001
POLICY_VIOLATION: Final = 1008
# The same leeway after a token's expiry as at the handshake.
LEEWAY_S: Final = 30.0
# The document's heartbeat interval. The first check is early: an index may show a new connection late.
SELF_CHECK_S: Final = 300.0
FIRST_SELF_CHECK_S: Final = 5.0
# Poll interval of a clock that tests and demos advance.
CLOCK_POLL_S: Final = 0.25
MAX_WAIT_S: Final = 60.0
MAX_MESSAGES_A_MINUTE: Final = 120
MINUTE_S: Final = 60.0
MAX_ECHOED_CHARS: Final = 64

log = logging.getLogger(__name__)

# Converts an error to the problem object for the client.
ToProblem = Callable[[Exception], Awaitable[Mapping[str, Any]]]


class Socket(OpenSocket, Protocol):
    """A server-side WebSocket, as Starlette has it."""

    async def accept(self, subprotocol: str | None = None) -> None: ...
    async def receive(self) -> Mapping[str, Any]: ...
    async def close(self, code: int = 1000, reason: str | None = None) -> None: ...


class CloseReason(NamedTuple):
    """The code and reason with which the server closes a socket."""

    code: int
    reason: str


@dataclass(frozen=True)
class ConnectionServer:
    """Serves one accepted connection with the stores, the hub and the handlers of its process."""

    stores: Stores
    hub: Hub
    action_handler: ActionHandler
    to_problem: ToProblem

    async def serve(self, socket: Socket, employee: Employee, node: str, subprotocol: str | None) -> None:
        """Serve a connection from its admission and row to its end; then delete the row.

        `node` is this process's URL. An error raised before the handshake is accepted refuses the connection.
        """
        connection = Connection(
            connection_id=make_url_token(16),
            employee_id=employee.employee_id,
            connected_at=datetime.fromtimestamp(int(self.stores.clock.now()), UTC),
            node=node,
        )
        self.hub.admit(connection.connection_id, employee.employee_id)
        buffered = GatedSocket(socket)
        try:
            self.hub.attach(connection.connection_id, buffered)
            await self.stores.run(patterns.put_connection(connection))
            await socket.accept(subprotocol)
            buffered.accepted.set()
            end = await ConnectionSession(self, connection, employee, buffered).run(socket)
            if end is not None:
                await socket.close(end.code, end.reason)
        finally:
            self.hub.remove(connection.connection_id)
            await self._delete_row(connection)

    async def _delete_row(self, connection: Connection) -> None:
        """Delete the connection's row; a failure is only logged."""
        try:
            await self.stores.run(patterns.delete_connection(connection.connection_id))
        except HoldfastError as error:
            log.warning(
                "Could not delete the row of an ended connection, left to the heartbeat: %s", error.message
            )


class GatedSocket:
    """A socket whose sends wait until the handshake is accepted. `sent` has the ids of the messages sent."""

    def __init__(self, socket: OpenSocket) -> None:
        self._socket = socket
        self.accepted = asyncio.Event()
        self.sent: set[str] = set()

    async def send_text(self, data: str) -> None:
        """Wait for the handshake, send the text, and remember the id of a message."""
        await self.accepted.wait()
        await self._socket.send_text(data)
        frame = json.loads(data)
        if "messageId" in frame and frame.get("kind") == "message":
            self.sent.add(frame["messageId"])


class ConnectionSession:
    """One accepted connection of an employee."""

    def __init__(
        self, shared: ConnectionServer, connection: Connection, employee: Employee, socket: GatedSocket
    ) -> None:
        self._shared, self._connection, self._socket = shared, connection, socket
        self._stores, self._clock = shared.stores, shared.stores.clock
        self._client = Client(employee, self.resend_unacknowledged)
        began = self._clock.now()
        self._ends_at = connection.connected_at.timestamp() + CONNECTION_S
        self._next_check_at = began + FIRST_SELF_CHECK_S
        self._minute_started_at, self._count = began, 0

    async def run(self, socket: Socket) -> CloseReason | None:
        """Answer the client until the session ends. Return why to close, or None if the client left."""
        await self._send_missed()
        receiving = asyncio.ensure_future(socket.receive())
        try:
            while (end := await self._check_time()) is None:
                done, _ = await asyncio.wait({receiving}, timeout=self._compute_wait_s())
                if not done:
                    continue
                event = receiving.result()
                if event["type"] != "websocket.receive":
                    return None
                if self._is_over_rate():
                    return CloseReason(POLICY_VIOLATION, "too many messages in a minute")
                await self._socket.send_text(await self._answer(event.get("text")))
                receiving = asyncio.ensure_future(socket.receive())
            return end
        finally:
            receiving.cancel()

    async def resend_unacknowledged(self) -> int:
        """Send all unacknowledged messages again, in order. Return how many."""
        self._socket.sent.clear()
        return await self._send_missed()

    # --- actions of the client ------------------------------------------------------------------------------

    async def _answer(self, text: str | None) -> str:
        """Handle a client's text and return the frame of its answer, or of the problem if it is refused."""
        name, request_id = _read_names(text)
        with bind_correlation_id():
            try:
                if text is None:
                    raise InvalidRequest("Invalid message: expected JSON text, got binary data.")
                action = parse_action(text)
                result = await self._shared.action_handler.handle(self._client, action)
            except Exception as error:
                return build_problem_frame(name, request_id, await self._shared.to_problem(error))
        return build_answer_frame(action.action, action.request_id, result)

    def _is_over_rate(self) -> bool:
        """Count a message; return whether the client sent more than 120 in the current minute."""
        now = self._clock.now()
        if now - self._minute_started_at >= MINUTE_S:
            self._minute_started_at, self._count = now, 0
        self._count += 1
        return self._count > MAX_MESSAGES_A_MINUTE

    # --- time limits and self-check -------------------------------------------------------------------------

    async def _check_time(self) -> CloseReason | None:
        """Return why to close now (two hours over, token expired), or None.

        Run the self-check if it is due.
        """
        now = self._clock.now()
        if now >= self._ends_at:
            return CloseReason(GOING_AWAY, "the limit of two hours is over: connect again")
        if now >= self._client.employee.expires_at + LEEWAY_S:
            return CloseReason(TOKEN_EXPIRED, "the token has expired: connect again with a new one")
        if now >= self._next_check_at:
            self._next_check_at = now + SELF_CHECK_S
            await self._check_self()
        return None

    def _compute_wait_s(self) -> float:
        """Return how long to wait for the client before the time is checked again."""
        token_ends = self._client.employee.expires_at + LEEWAY_S
        left = min(self._ends_at, self._next_check_at, token_ends) - self._clock.now()
        longest = MAX_WAIT_S if isinstance(self._clock, SystemClock) else CLOCK_POLL_S
        return max(0.0, min(left, longest))

    async def _check_self(self) -> None:
        """Restore the connection's row if it was deleted, and send missed messages.

        A store that is temporarily unavailable is only logged.
        """
        try:
            if await self._stores.run(patterns.connection(self._connection.connection_id)) is None:
                await self._stores.run(patterns.put_connection(self._connection))
            await self._send_missed()
        except RetryLater as error:
            log.warning("The self-check of a connection failed and is repeated later: %s", error.message)

    async def _send_missed(self) -> int:
        """Send the unacknowledged messages that this socket has not sent yet. Return how many."""
        count = 0
        async for message in self._stores.each(patterns.unacknowledged(self._connection.employee_id)):
            if message.message_id not in self._socket.sent:
                await self._socket.send_text(build_message_frame(message))
                count += 1
        return count


def _read_names(text: str | None) -> tuple[str | None, str | None]:
    """Return an action's name and request id even if it is invalid, so that its problem can be matched."""
    try:
        parsed = json.loads(text or "")
    except (ValueError, RecursionError):
        return None, None
    names = [parsed.get(each) if isinstance(parsed, dict) else None for each in ("action", "requestId")]
    action, request_id = (each if _can_echo(each) else None for each in names)
    return action, request_id


def _can_echo(value: Any) -> bool:
    """Return whether an answer can repeat the value: at most 64 characters that UTF-8 can encode."""
    if not isinstance(value, str) or len(value) > MAX_ECHOED_CHARS:
        return False
    return value.encode(errors="ignore").decode() == value
