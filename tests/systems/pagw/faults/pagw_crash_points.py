"""`holdfast` in a process that kills itself with SIGKILL at a chosen point, for `test_pagw_killed.py`.

    PAGW_TEST_CRASH_POINT="commit after 12" \\
        python -m tests.systems.pagw.faults.pagw_crash_points run pagw --component …

A crash point says what is counted, if the process dies before or after it, and at which count:

    record   a write to the idempotency table: a claim, an intent, an outcome
    object   a file written
    commit   a SQL transaction
    publish  messages sent to a queue, before they are marked in the outbox
    done     a message deleted from a queue after its work
    act      a call that makes the payer act: `after` is before its outcome is recorded

Without one, the process runs normally.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

import holdfast.runtime
from holdfast import Stores
from holdfast.cli import main
from holdfast.operations.objects import AdoptObject, PutObject
from holdfast.operations.queues import DeleteMessages, SendMessages
from holdfast.operations.tables import PutItem, TransactWriteItems, UpdateItem
from holdfast.runtime.engines import Engines
from pagw.integrations.payers.client import PayerClient

VARIABLE: Final = "PAGW_TEST_CRASH_POINT"
STORES: Final = ("queues", "objects", "sql", "cache")

Kind = Literal["record", "object", "commit", "publish", "done", "act"]
KINDS: Final[Mapping[type[Any], Kind]] = {
    PutItem: "record",
    UpdateItem: "record",
    TransactWriteItems: "record",
    AdoptObject: "object",
    PutObject: "object",
    SendMessages: "publish",
    DeleteMessages: "done",
}
R = TypeVar("R")


@dataclass
class CrashPoint:
    """A point at which the process kills itself: before or after the operation of a kind whose count `left`
    reaches 0.
    """

    kind: str
    moment: str
    left: int

    @classmethod
    def parse(cls, text: str) -> CrashPoint:
        """Parse a crash point such as `commit after 12`; an empty text never crashes."""
        kind, moment, number = text.split() or ("none", "after", "0")
        return cls(kind, moment, int(number))

    async def run(self, kind: Kind | None, call: Callable[[], Awaitable[R]]) -> R:
        """Run an operation of this kind. Kill the process before or after it if this is the crash point."""
        if kind != self.kind:
            return await call()
        self.left -= 1
        is_last = self.left == 0
        if is_last and self.moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        answer = await call()
        if is_last and self.moment == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        return answer


class CrashingEngine:
    """Engine that counts its operations and dies at the crash point."""

    def __init__(self, engine: Any, crash_point: CrashPoint) -> None:
        self._engine, self._crash_point = engine, crash_point

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    async def run(self, operation: Any) -> Any:
        return await self._crash_point.run(KINDS.get(type(operation)), lambda: self._engine.run(operation))

    async def run_all(self, statements: Any) -> Any:
        return await self._crash_point.run("commit", lambda: self._engine.run_all(statements))

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        """Open a transaction of the engine, whose commit counts towards the crash point."""
        context = self._engine.transaction()
        transaction = await context.__aenter__()
        try:
            yield transaction
        except BaseException as error:
            if not await context.__aexit__(type(error), error, error.__traceback__):
                raise
        else:
            await self._crash_point.run("commit", lambda: context.__aexit__(None, None, None))


def add_crash_point(stores: Stores, crash_point: CrashPoint) -> Stores:
    """Return the same stores with the crash point in their engines."""
    engines = stores.engines
    stores.tables = CrashingEngine(stores.tables, crash_point)
    stores.engines = Engines({name: _make_opener(engines, name, crash_point) for name in STORES})
    return stores


def _make_opener(engines: Engines, name: str, crash_point: CrashPoint) -> Callable[[], Any]:
    """Return a function that opens the engine with the crash point."""
    return lambda: CrashingEngine(engines.get(name), crash_point)


def _run() -> None:
    """Run the `holdfast` command with the crash point of the environment."""
    crash_point = CrashPoint.parse(os.environ.get(VARIABLE, ""))
    open_stores, original_post = holdfast.runtime.open_stores, PayerClient._post

    def open_crashing(*given: Any, **named: Any) -> Stores:
        return add_crash_point(open_stores(*given, **named), crash_point)

    async def post(*given: Any) -> Any:
        return await crash_point.run("act", lambda: original_post(*given))

    setattr(holdfast.runtime, "open_stores", open_crashing)  # noqa: B010 - as `holdfast run` finds it
    setattr(PayerClient, "_post", post)  # noqa: B010
    main()


if __name__ == "__main__":
    sys.argv[0] = "holdfast"
    _run()
