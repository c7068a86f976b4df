"""Registry of the open sockets of this process: admits connections within limits and sends frames to one."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Final, Protocol

from holdfast.core.errors import LimitExceeded, RateLimited
from tripcortex.api.websocket.ports import ConnectionGone
from tripcortex.model.entities import EmployeeId

# The document's bound: under 500 at a time. A process accepts no more.
MAX_CONNECTIONS: Final = 500
MAX_CONNECTIONS_PER_EMPLOYEE: Final = 10
# A client that accepts nothing for this long counts as gone; the message waits for the next connection.
MAX_SEND_S: Final = 5.0
RETRY_AFTER_S: Final = 30.0


class OpenSocket(Protocol):
    """What the hub needs of a socket: sending text."""

    async def send_text(self, data: str) -> None: ...


class Hub:
    """The open sockets of this process, by connection id, with limits in all and per employee."""

    def __init__(
        self, *, connections_max: int = MAX_CONNECTIONS, per_employee_max: int = MAX_CONNECTIONS_PER_EMPLOYEE
    ) -> None:
        self._sockets: dict[str, OpenSocket] = {}
        self._employees: dict[str, EmployeeId] = {}
        self._counts: Counter[EmployeeId] = Counter()
        self._connections_max, self._per_employee_max = connections_max, per_employee_max

    def __len__(self) -> int:
        """Return the number of admitted connections."""
        return len(self._employees)

    def admit(self, connection_id: str, employee_id: EmployeeId) -> None:
        """Count a connection in; `attach` makes it reachable, `remove` undoes both.

        Raise `LimitExceeded` if the process has too many, `RateLimited` if the employee has too many.
        """
        if len(self._employees) >= self._connections_max:
            raise LimitExceeded("This process has too many connections.", retry_after_s=RETRY_AFTER_S)
        if self._counts[employee_id] >= self._per_employee_max:
            raise RateLimited(
                f"You have {self._per_employee_max} open connections: close one first.",
                retry_after_s=RETRY_AFTER_S,
            )
        self._employees[connection_id] = employee_id
        self._counts[employee_id] += 1

    def attach(self, connection_id: str, socket: OpenSocket) -> None:
        """Make an admitted connection reachable for `post`."""
        self._sockets[connection_id] = socket

    def remove(self, connection_id: str) -> None:
        """Remove a connection; do nothing if it is unknown."""
        self._sockets.pop(connection_id, None)
        employee_id = self._employees.pop(connection_id, None)
        if employee_id is not None:
            self._counts[employee_id] -= 1
            self._counts += Counter()

    async def post(self, connection_id: str, text: str) -> None:
        """Send a frame to a connection.

        Raise `ConnectionGone` if it is not open here, fails, or does not accept the frame in 5 seconds; a
        failed connection is no longer reachable.
        """
        socket = self._sockets.get(connection_id)
        if socket is None:
            raise ConnectionGone("This process does not hold the connection.")
        try:
            async with asyncio.timeout(MAX_SEND_S):
                await socket.send_text(text)
        except Exception as error:
            # Just closed, or stuck: either way it is unreachable.
            self._sockets.pop(connection_id, None)
            raise ConnectionGone("The connection no longer accepts data.") from error
