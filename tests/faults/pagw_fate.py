"""`holdfast` in a process that ends itself by SIGKILL at a chosen moment: for the `test_pagw_….py` beside it.

    PAGW_TEST_FATE="commit after 12" python -m tests.faults.pagw_fate run pagw --component …

A fate is what is counted, whether it dies before or after it, and at which:

    record   a write to the idempotency table: a claim, an intent, an outcome
    object   a file written
    commit   a transaction of SQL
    publish  messages sent to a queue: between this and the mark in the outbox
    done     a message taken off a queue, after all that it asked for
    act      the payer asked to act: `after` is before its outcome is recorded

Without one it lives as long as it is let.
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

VARIABLE: Final = "PAGW_TEST_FATE"
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
class Fate:
    kind: str
    moment: str
    left: int

    @classmethod
    def of(cls, text: str) -> Fate:
        kind, moment, number = text.split() or ("none", "after", "0")
        return cls(kind, moment, int(number))

    async def met(self, kind: Kind | None, ask: Callable[[], Awaitable[R]]) -> R:
        if kind != self.kind:
            return await ask()
        self.left -= 1
        is_last = self.left == 0
        if is_last and self.moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        answer = await ask()
        if is_last and self.moment == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        return answer


class Fated:
    """An engine whose requests are counted; what else it has is its own."""

    def __init__(self, behind: Any, fate: Fate) -> None:
        self._behind, self._fate = behind, fate

    def __getattr__(self, name: str) -> Any:
        return getattr(self._behind, name)

    async def run(self, operation: Any) -> Any:
        return await self._fate.met(KINDS.get(type(operation)), lambda: self._behind.run(operation))

    async def run_all(self, statements: Any) -> Any:
        return await self._fate.met("commit", lambda: self._behind.run_all(statements))

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        context = self._behind.transaction()
        transaction = await context.__aenter__()
        try:
            yield transaction
        except BaseException as error:
            if not await context.__aexit__(type(error), error, error.__traceback__):
                raise
        else:
            await self._fate.met("commit", lambda: context.__aexit__(None, None, None))


def fated(stores: Stores, fate: Fate) -> Stores:
    """The same stores, with an end in them."""
    engines = stores.engines
    stores.tables = Fated(stores.tables, fate)
    stores.engines = Engines({name: _opener(engines, name, fate) for name in STORES})
    return stores


def _opener(engines: Engines, name: str, fate: Fate) -> Callable[[], Any]:
    return lambda: Fated(engines.get(name), fate)


def _run() -> None:
    fate = Fate.of(os.environ.get(VARIABLE, ""))
    open_stores, asked = holdfast.runtime.open_stores, PayerClient._post

    def opened(*given: Any, **named: Any) -> Stores:
        return fated(open_stores(*given, **named), fate)

    async def changed(*given: Any) -> Any:
        return await fate.met("act", lambda: asked(*given))

    setattr(holdfast.runtime, "open_stores", opened)  # noqa: B010 - as `holdfast run` finds it
    setattr(PayerClient, "_post", changed)  # noqa: B010
    main()


if __name__ == "__main__":
    sys.argv[0] = "holdfast"
    _run()
