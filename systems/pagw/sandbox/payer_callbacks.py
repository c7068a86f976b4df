"""How the sandbox payer calls back: signed, under one id, again and again until it is taken, and on demand once more after.

Who is still to be called is derived from the ledger, so a payer that was killed goes on where it was.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from json import dumps
from typing import Any, Final

import httpx2

from holdfast.clock import Clock
from holdfast.web import sign

SIGNATURE_HEADER: Final = "x-payer-signature"
PAUSE_S: Final = 0.05
PAUSE_S_MAX: Final = 2.0
ANSWER_S: Final = 10.0
SUCCESSES: Final = range(200, 300)


@dataclass
class PayerCallbacks:
    """`copies` deliveries of each, all with the same id. `url` takes the place of the one that came with a request."""

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
        return len(self._tasks)

    def start(self) -> None:
        self._http = httpx2.AsyncClient(timeout=ANSWER_S, follow_redirects=False)

    def call(self, id: str, url: str, body: dict[str, Any], taken: Callable[[], None]) -> None:
        """`taken` is called once, after the first delivery that was answered with a 2xx. One under way is not doubled."""
        if self._http is None or id in self._tasks:
            return
        task = asyncio.create_task(self._delivered(self._http, id, url, dumps(body).encode(), taken))
        self._tasks[id] = task
        task.add_done_callback(lambda _: self._tasks.pop(id, None))

    async def close(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._http is not None:
            await self._http.aclose()
            self._http = None

    async def _delivered(
        self, http: httpx2.AsyncClient, id: str, url: str, body: bytes, taken: Callable[[], None]
    ) -> None:
        await self._insisted(http, id, url, body)
        taken()
        for _ in range(self.copies - 1):
            await self._insisted(http, id, url, body)

    async def _insisted(self, http: httpx2.AsyncClient, id: str, url: str, body: bytes) -> None:
        pause = PAUSE_S
        while not await self._is_taken(http, id, self.url or url, body):
            self.failed += 1
            await asyncio.sleep(pause)
            pause = min(pause * 2, PAUSE_S_MAX)
        self.done += 1

    async def _is_taken(self, http: httpx2.AsyncClient, id: str, url: str, body: bytes) -> bool:
        headers = {
            "content-type": "application/json",
            "x-callback-id": id,
            SIGNATURE_HEADER: sign(self.secret, body, self.clock.now()),
        }
        try:
            return (await http.post(url, content=body, headers=headers)).status_code in SUCCESSES
        except (httpx2.HTTPError, httpx2.InvalidURL):
            return False
