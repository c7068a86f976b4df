"""The sandbox's webhook sender: signed deliveries, with copies that are late and out of order at random.

A delivery without an answer, or with a temporary refusal (429, 5xx), is retried after a growing pause. A
permanent refusal is not retried.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

import httpx2

from holdfast.core.clock import Clock
from holdfast.web import sign

MAX_ATTEMPTS: Final = 12
PAUSE_S: Final = 0.05
MAX_PAUSE_S: Final = 2.0
SIGNATURE_HEADER: Final = "x-richpanel-signature"
CLIENT_ERRORS: Final = range(400, 500)
TOO_MANY: Final = 429


@dataclass(slots=True)
class DeliveryFaults:
    """Injected faults: at most `copies_max` deliveries of an event; a copy follows up to `late_s` seconds
    after the first was answered.
    """

    copies_max: int = 1
    late_s: float = 0.0
    seed: int = 0


@dataclass(slots=True)
class WebhookDeliveries:
    """Sends webhooks to one address. `done` counts accepted deliveries, `refused` those that were refused
    permanently or given up after `MAX_ATTEMPTS`.
    """

    clock: Clock
    url: str = ""
    secret: str = ""
    faults: DeliveryFaults = field(default_factory=DeliveryFaults)
    done: int = 0
    refused: int = 0
    _tasks: set[asyncio.Task[None]] = field(default_factory=set, repr=False)
    _client: httpx2.AsyncClient | None = field(default=None, repr=False)
    _random: Random = field(default_factory=lambda: Random(0), repr=False)

    def configure(self, url: str, secret: str, faults: DeliveryFaults) -> None:
        """Set the address, the secret and the faults."""
        self.url, self.secret, self.faults = url, secret, faults
        self._random = Random(faults.seed)

    @property
    def pending(self) -> int:
        """The number of webhooks whose deliveries are under way, copies included."""
        return len(self._tasks)

    def schedule(self, payload: dict[str, Any]) -> None:
        """Send the webhook in the background, and its copies later. Do nothing if no address is set."""
        if not self.url:
            return
        copies = self._random.randint(1, max(1, self.faults.copies_max))
        waits = [self._random.uniform(0, self.faults.late_s) for _ in range(copies - 1)]
        task = asyncio.create_task(self._deliver_all(payload, waits))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Cancel what is under way and close the client."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def _deliver_all(self, payload: dict[str, Any], waits: list[float]) -> None:
        """Deliver the webhook, then a copy after each of the `waits` (seconds)."""
        await self._deliver(payload)

        async def later(wait: float) -> None:
            await asyncio.sleep(wait)
            await self._deliver(payload)

        await asyncio.gather(*(later(wait) for wait in waits))

    async def _deliver(self, payload: dict[str, Any]) -> None:
        """Deliver one copy. Retry temporary failures, at most `MAX_ATTEMPTS` times, and count the result."""
        body = json.dumps(payload).encode()
        for attempt in range(MAX_ATTEMPTS):
            status = await self._post(body)
            if status is not None and status < CLIENT_ERRORS.start:
                self.done += 1
                return
            if status in CLIENT_ERRORS and status != TOO_MANY:
                self.refused += 1
                return
            await asyncio.sleep(self._random.uniform(0, min(PAUSE_S * 2**attempt, MAX_PAUSE_S)))
        self.refused += 1

    async def _post(self, body: bytes) -> int | None:
        """Post the body. Return the status, or None without an answer."""
        if self._client is None:
            self._client = httpx2.AsyncClient(timeout=10.0)
        headers = {
            "content-type": "application/json",
            SIGNATURE_HEADER: sign(self.secret, body, self.clock.now()),
        }
        try:
            return (await self._client.post(self.url, content=body, headers=headers)).status_code
        except (httpx2.HTTPError, httpx2.InvalidURL):
            return None
