"""Points at which a process of a fault test kills itself: around the requests to its stores.

`run_with_kill_points` runs a `holdfast` command whose stores make every request through a function
`around(operation, request)`. It may kill the process before or after it awaits the request. The operation is
`COMMIT` for a SQL transaction.
"""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import holdfast.runtime
from holdfast import Stores
from holdfast.runtime.engines import Engines
from tests import processes

COMMIT: Final = "commit"
STORES: Final = ("queues", "objects", "sql", "cache")

Request = Callable[[], Awaitable[Any]]
Around = Callable[[Any, Request], Awaitable[Any]]


def kill_this_process() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@dataclass
class CountedKill:
    """Kills the process "before" or "after" the request of a kind whose count `left` reaches 0.

    `kinds` gives the kind of an operation by its type.
    """

    kind: str
    moment: str
    left: int
    kinds: Mapping[Any, str] = field(default_factory=dict)

    async def run(self, operation: Any, request: Request) -> Any:
        """Make the request of an operation, or of a kind, and kill the process if it is the chosen one."""
        kind = operation if isinstance(operation, str) else self.kinds.get(type(operation))
        if kind != self.kind:
            return await request()
        self.left -= 1
        is_last = self.left == 0
        if is_last and self.moment == "before":
            kill_this_process()
        answer = await request()
        if is_last and self.moment == "after":
            kill_this_process()
        return answer


class KillableEngine:
    """Engine that makes every request through `around`; all else is delegated."""

    def __init__(self, engine: Any, around: Around) -> None:
        self._engine, self._around = engine, around

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    async def run(self, operation: Any) -> Any:
        return await self._around(operation, lambda: self._engine.run(operation))

    async def run_all(self, statements: Any) -> Any:
        return await self._around(COMMIT, lambda: self._engine.run_all(statements))

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        """Open a transaction of the engine; its commit is a request."""
        context = self._engine.transaction()
        transaction = await context.__aenter__()
        try:
            yield transaction
        except BaseException as error:
            if not await context.__aexit__(type(error), error, error.__traceback__):
                raise
        else:
            await self._around(COMMIT, lambda: context.__aexit__(None, None, None))


def add_kill_points(stores: Stores, around: Around) -> Stores:
    """Return the same stores, whose engines make every request through `around`."""
    engines = stores.engines
    stores.tables = KillableEngine(stores.tables, around)
    stores.engines = Engines({name: _make_opener(engines, name, around) for name in STORES})
    return stores


def _make_opener(engines: Engines, name: str, around: Around) -> Callable[[], Any]:
    return lambda: KillableEngine(engines.get(name), around)


def run_with_kill_points(arguments: Sequence[str], around: Around) -> None:
    """Run the `holdfast` command in this process, with kill points in its stores."""
    open_stores = holdfast.runtime.open_stores

    def open_killable(*given: Any, **named: Any) -> Stores:
        return add_kill_points(open_stores(*given, **named), around)

    setattr(holdfast.runtime, "open_stores", open_killable)  # noqa: B010 - as `holdfast run` finds it
    processes.main(*arguments)
