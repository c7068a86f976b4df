"""The sandbox payer's callbacks: signed, under one id, retried until accepted, with copies on demand.

The ledger says which callbacks are due, so a payer that was killed resumes where it was.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from json import dumps
from typing import Any, Final

import httpx2

from holdfast.core.clock import Clock
from holdfast.web import sign

SIGNATURE_HEADER: Final = "x-payer-signature"
PAUSE_S: Final = 0.05
MAX_PAUSE_S: Final = 2.0
TIMEOUT_S: Final = 10.0
SUCCESSES: Final = range(200, 300)


@dataclass
class PayerCallbacks:
    """Sends each callback `copies` times with the same id. `url`, if set, replaces the callback URL of the
    requests. `done` counts accepted sends, `failed` failed attempts.
    """

    clock: Clock
    secret: str
    copies: int = 1
    url: str = ""
    done: int = 0
    failed: int = 0
    _tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict, repr=False)
    _http: httpx2.AsyncClient | None = field(default=None, repr=False)

    @property
    def pending(self) -> int:
        """Return the number of callbacks in progress."""
        return len(self._tasks)

    def start(self) -> None:
        """Open the HTTP client."""
        self._http = httpx2.AsyncClient(timeout=TIMEOUT_S, follow_redirects=False)

    def call(self, id: str, url: str, body: dict[str, Any], on_delivered: Callable[[], None]) -> None:
        """Start a callback unless it is in progress. Call `on_delivered` once, after the first 2xx answer."""
        self.call_with(id, url, dumps(body).encode(), on_delivered)

    def call_with(self, id: str, url: str, body: bytes, on_delivered: Callable[[], None]) -> None:
        """Start a callback with these bytes, as `call` does."""
        if self._http is None or id in self._tasks:
            return
        task = asyncio.create_task(self._deliver_copies(self._http, id, url, body, on_delivered))
        self._tasks[id] = task
        task.add_done_callback(lambda _: self._tasks.pop(id, None))

    async def close(self) -> None:
        """Cancel the callbacks in progress and close the HTTP client."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._http is not None:
            await self._http.aclose()
            self._http = None

    async def _deliver_copies(
        self, http: httpx2.AsyncClient, id: str, url: str, body: bytes, on_delivered: Callable[[], None]
    ) -> None:
        """Deliver the callback, call `on_delivered`, then deliver its further copies."""
        await self._deliver(http, id, url, body)
        on_delivered()
        for _ in range(self.copies - 1):
            await self._deliver(http, id, url, body)

    async def _deliver(self, http: httpx2.AsyncClient, id: str, url: str, body: bytes) -> None:
        """Send the callback until it is accepted, with growing pauses."""
        pause = PAUSE_S
        while not await self._try_delivery(http, id, self.url or url, body):
            self.failed += 1
            await asyncio.sleep(pause)
            pause = min(pause * 2, MAX_PAUSE_S)
        self.done += 1

    async def _try_delivery(self, http: httpx2.AsyncClient, id: str, url: str, body: bytes) -> bool:
        """Send the callback once. Return whether the answer was 2xx."""
        headers = {
            "content-type": "application/json",
            "x-callback-id": id,
            SIGNATURE_HEADER: sign(self.secret, body, self.clock.now()),
        }
        try:
            return (await http.post(url, content=body, headers=headers)).status_code in SUCCESSES
        except (httpx2.HTTPError, httpx2.InvalidURL):
            return False
