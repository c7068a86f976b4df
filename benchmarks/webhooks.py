"""Webhooks acknowledged over HTTP, beside an endpoint on the same server that only writes the queue row.

Ours is `holdfast run richpanel --component ingress`: signature, shape, key, FIFO queue with deduplication and groups, 200.
The floor is a bare ASGI app under the same uvicorn that writes the row by hand (`bare_queue.py`): with an fsync of its own
for each request, and, told beside it, with fsyncs that all requests of the moment share, as ours do. All run at once, each
in a process of its own, and are asked in turn by this one, with signed requests that were made before the clock counts.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.keep_alive import posted, rate_of
from benchmarks.measure import Figure, compared
from benchmarks.processes import HOLDFAST, served
from holdfast.web import sign

CONNECTIONS = 32
REQUESTS = 4_000
CONVERSATIONS = 300
SECRET: Final = "a secret of the benchmark alone"
TEXT: Final = (
    "Hello, where is my order? It was to come last week, and nobody has told me anything since then."
)
INGRESS: Final = (*HOLDFAST, "run", "richpanel", "--component", "ingress", "--port", "0")
BARE: Final = (sys.executable, "-m", "benchmarks.bare_queue")


def run(folder: Path) -> list[Figure]:
    numbers = itertools.count()
    settings = {
        "HOLDFAST_TABLES": "sqlite:tables.db",
        "HOLDFAST_QUEUES": "sqlite:queues.db",
        "HOLDFAST_ENVIRONMENT": "bench",
        "HOLDFAST_SECRET_RICHPANEL_WEBHOOK": SECRET,
    }
    with ExitStack() as ends:
        ours = ends.enter_context(served(*INGRESS, folder=folder, **settings))
        bare = {
            kind: ends.enter_context(served(*BARE, kind, str(folder / f"{kind}.db"), folder=folder))
            for kind in ("own", "shared")
        }

        def against(kind: str, must_reach: float | None) -> Figure:
            return compared(
                f"webhooks, {kind} fsync",
                lambda: rate_of(ours, list(_requests(numbers)), CONNECTIONS),
                lambda: rate_of(bare[kind], list(_requests(numbers)), CONNECTIONS),
                must_reach,
            )

        return [against("own", 0.50), against("shared", None)]


def _requests(numbers: Iterator[int]) -> Iterator[bytes]:
    """Signed now, because a signature holds for minutes. Each is another message."""
    for number in itertools.islice(numbers, REQUESTS):
        body = msgspec.json.encode(webhook(number))
        yield posted("/webhooks/richpanel", body, x_richpanel_signature=sign(SECRET, body, time.time()))


def webhook(number: int) -> dict[str, object]:
    return {
        "ticket_id": f"conversation-{number % CONVERSATIONS}",
        "message_id": f"message-{number:09d}",
        "ticket_url": f"https://desk.example/tickets/{number % CONVERSATIONS}",
        "trigger": "customer_message",
        "channel": "email",
        "created_at": "2026-11-15T10:00:00Z",
        "text": TEXT,
        "customer": {"email": f"customer{number % CONVERSATIONS}@example.com"},
        "tags": ["new", "vip"],
    }
