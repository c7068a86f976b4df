"""Webhooks to the middleware: best effort, as help desks have it. Signed, and by chance sent again, late and out of order.

A delivery that is refused for now (429, 5xx) or not answered is repeated after a pause that grows; one that is refused
for good is not.
"""

from __future__ import annotations

import asyncio
import json
import random
from dataclasses import dataclass, field
from typing import Any, Final

import httpx2

from holdfast.clock import Clock
from holdfast.web import sign

ATTEMPTS_MAX: Final = 12
PAUSE_S: Final = 0.05
PAUSE_S_MAX: Final = 2.0
SIGNATURE_HEADER: Final = "x-richpanel-signature"
CLIENT_ERRORS: Final = range(400, 500)
TOO_MANY: Final = 429


@dataclass(slots=True)
class DeliveryFaults:
    """`copies_max` deliveries of an event at most; a copy comes up to `late_s` seconds after the first was answered."""

    copies_max: int = 1
    late_s: float = 0.0
    seed: int = 0


@dataclass(slots=True)
class Deliveries:
    """Sends to one address. `done` counts what was accepted, `refused` what was turned away for good."""

    clock: Clock
    url: str = ""
    secret: str = ""
    faults: DeliveryFaults = field(default_factory=DeliveryFaults)
    done: int = 0
    refused: int = 0
    _tasks: set[asyncio.Task[None]] = field(default_factory=set, repr=False)
    _client: httpx2.AsyncClient | None = field(default=None, repr=False)
    _random: random.Random = field(default_factory=lambda: random.Random(0), repr=False)

    def point(self, url: str, secret: str, faults: DeliveryFaults) -> None:
        self.url, self.secret, self.faults = url, secret, faults
        self._random = random.Random(faults.seed)

    @property
    def pending(self) -> int:
        return len(self._tasks)

    def announce(self, payload: dict[str, Any]) -> None:
        """Sends it once, and its copies later; without an address, not at all."""
        if not self.url:
            return
        copies = self._random.randint(1, max(1, self.faults.copies_max))
        waits = [self._random.uniform(0, self.faults.late_s) for _ in range(copies - 1)]
        task = asyncio.create_task(self._all(payload, waits))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def _all(self, payload: dict[str, Any], waits: list[float]) -> None:
        await self._one(payload)

        async def later(wait: float) -> None:
            await asyncio.sleep(wait)
            await self._one(payload)

        await asyncio.gather(*(later(wait) for wait in waits))

    async def _one(self, payload: dict[str, Any]) -> None:
        body = json.dumps(payload).encode()
        for attempt in range(ATTEMPTS_MAX):
            status = await self._sent(body)
            if status is not None and status < CLIENT_ERRORS.start:
                self.done += 1
                return
            if status in CLIENT_ERRORS and status != TOO_MANY:
                self.refused += 1
                return
            await asyncio.sleep(self._random.uniform(0, min(PAUSE_S * 2**attempt, PAUSE_S_MAX)))
        self.refused += 1

    async def _sent(self, body: bytes) -> int | None:
        """The answer's status; None where there was no answer."""
        if self._client is None:
            self._client = httpx2.AsyncClient(timeout=10.0)
        headers = {
            "content-type": "application/json",
            SIGNATURE_HEADER: sign(self.secret, body, self.clock.now()),
        }
        try:
            return (await self._client.post(self.url, content=body, headers=headers)).status_code
        except httpx2.HTTPError:
            return None
