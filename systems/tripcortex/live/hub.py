"""The open sockets of this process: who comes in, and how others reach one by its id."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Final, Protocol

from holdfast.errors import LimitExceeded, RateLimited
from tripcortex.live.ports import ConnectionGone
from tripcortex.model import EmployeeId

# The document's: under 500 at a time. A process takes no more, whatever comes.
CONNECTIONS_MAX: Final = 500
OF_EMPLOYEE_MAX: Final = 10
# Who takes nothing for so long is gone; the message waits for the next connection.
SEND_S_MAX: Final = 5.0
ASKED_AGAIN_S: Final = 30.0


class OpenSocket(Protocol):
    async def send_text(self, data: str) -> None: ...


class Hub:
    def __init__(
        self, *, connections_max: int = CONNECTIONS_MAX, of_employee_max: int = OF_EMPLOYEE_MAX
    ) -> None:
        self._open: dict[str, OpenSocket] = {}
        self._of: dict[str, EmployeeId] = {}
        self._counts: Counter[EmployeeId] = Counter()
        self._max, self._of_employee_max = connections_max, of_employee_max

    def __len__(self) -> int:
        return len(self._of)

    def admit(self, connection_id: str, employee_id: EmployeeId) -> None:
        """Counts it in; `opened` makes it reachable, `left` ends both."""
        if len(self._of) >= self._max:
            raise LimitExceeded("There are too many connections here just now.", retry_after_s=ASKED_AGAIN_S)
        if self._counts[employee_id] >= self._of_employee_max:
            raise RateLimited(
                f"You have {self._of_employee_max} connections open: close one first.",
                retry_after_s=ASKED_AGAIN_S,
            )
        self._of[connection_id] = employee_id
        self._counts[employee_id] += 1

    def opened(self, connection_id: str, socket: OpenSocket) -> None:
        self._open[connection_id] = socket

    def left(self, connection_id: str) -> None:
        self._open.pop(connection_id, None)
        employee_id = self._of.pop(connection_id, None)
        if employee_id is not None:
            self._counts[employee_id] -= 1
            self._counts += Counter()

    async def post(self, connection_id: str, text: str) -> None:
        """Raises `ConnectionGone` where it is not open here, or takes nothing."""
        socket = self._open.get(connection_id)
        if socket is None:
            raise ConnectionGone("There is no such connection here.")
        try:
            async with asyncio.timeout(SEND_S_MAX):
                await socket.send_text(text)
        except Exception as error:
            # Closed in this very moment, or stuck: either way nothing reaches it any more.
            self._open.pop(connection_id, None)
            raise ConnectionGone("The connection takes nothing any more.") from error
