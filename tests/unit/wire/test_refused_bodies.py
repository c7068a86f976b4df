"""The wire app releases a refused body at once, however long its client continues sending."""

from __future__ import annotations

import sys
from collections.abc import MutableMapping
from typing import Any

import pytest

from holdfast.operations.tables import Operation
from holdfast.wire.http.app import App

PIECE = b" " * 300_000


class NoTables:
    """A tables store that must not be called."""

    async def run(self, operation: Operation[Any]) -> Any:
        raise AssertionError(operation)


@pytest.mark.parametrize(
    ("app", "status"),
    [(App(NoTables(), max_body_bytes=500_000), 413), (App(NoTables(), max_total_body_bytes=500_000), 503)],
    ids=["one is too large", "all are too large"],
)
async def test_discarding_a_refused_body_keeps_nothing_in_memory(app: App, status: int) -> None:
    """Discard the rest of a refused body outside the exception handler, whose frames hold the body."""
    sent: list[MutableMapping[str, Any]] = []
    handled: list[BaseException | None] = []

    async def receive() -> MutableMapping[str, Any]:
        # The exception that ended the reading has the body in its frames while it is being handled.
        handled.append(sys.exception())
        return {"type": "http.request", "body": PIECE, "more_body": len(handled) < 10}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": []}
    await app(scope, receive, send)

    assert sent[0]["status"] == status
    assert handled == [None] * 10
