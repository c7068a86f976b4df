"""`holdfast run tripcortex` in a process that ends itself by SIGKILL at an open kill point.

Kill points are files in a folder, named by place and moment, as "validated committing"; the first process
that reaches one removes the file and dies, and no other does. The place is the state whose step the process
runs, or the action that an employee requested; the moments of each are

    committing   before its transaction
    committed    after it, before the next step is sent
    sent         after that, before the message of this step is deleted
    done         when that is deleted

and around the one call that buys something: `asked`, when the intent is recorded, and `acted`, when the
portal has sold and the outcome is not recorded. While such a call is open there is a file in the folder of
calls: the clock does not move then.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final

import holdfast.runtime
from holdfast import Stores
from holdfast.cli import main
from holdfast.flows.executions import StepMessage
from holdfast.operations.queues import DeleteMessages, SendMessages
from holdfast.operations.tables import TransactWriteItems
from holdfast.runtime.engines import Engines
from holdfast.runtime.workers.in_flight_message import InFlightMessage
from tripcortex.api.trips import Trips
from tripcortex.integrations.portal.client import HttpPortal

KILL_POINTS_VARIABLE: Final = "TRIPCORTEX_TEST_FATES"
CALLS_VARIABLE: Final = "TRIPCORTEX_TEST_CALLS"
NOTICE: Final = "notice"
ACTIONS: Final = ("request", "choose", "answer", "cancel", "decide")
STORES: Final = ("queues", "objects", "sql", "cache")

_place: ContextVar[str] = ContextVar("_where", default="")


def run(arguments: Sequence[str]) -> None:
    """Run the command line with kill points."""
    sys.argv = ["holdfast", *arguments]
    book, calls = Path(os.environ[KILL_POINTS_VARIABLE]), Path(os.environ[CALLS_VARIABLE])
    open_stores = holdfast.runtime.open_stores

    def open_killable_stores(*given: Any, **named: Any) -> Stores:
        return add_kill_points(open_stores(*given, **named), book)

    setattr(holdfast.runtime, "open_stores", open_killable_stores)  # noqa: B010 - as `holdfast run` finds it
    _follow_messages()
    _follow_actions()
    _follow_portal(book, calls)
    main()


def reach(kill_points: Path, moment: str) -> None:
    """Die by SIGKILL if the kill point of the current place and this moment is open; close it first."""
    try:
        (kill_points / f"{_place.get()} {moment}").unlink()
    except FileNotFoundError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


# --- the stores ---------------------------------------------------------------------------------------------


class KillableEngine:
    """Engine with kill points around its requests; all else is delegated."""

    def __init__(self, engine: Any, kill_points: Path) -> None:
        self._behind, self._book = engine, kill_points

    def __getattr__(self, name: str) -> Any:
        return getattr(self._behind, name)

    async def run(self, operation: Any) -> Any:
        """Run the operation, with kill points around transactions, sends and deletions."""
        is_transaction = isinstance(operation, TransactWriteItems)
        if is_transaction:
            reach(self._book, "committing")
        elif isinstance(operation, DeleteMessages):
            reach(self._book, "done")
        answer = await self._behind.run(operation)
        if is_transaction:
            reach(self._book, "committed")
        elif isinstance(operation, SendMessages):
            reach(self._book, "sent")
        return answer


def add_kill_points(stores: Stores, kill_points: Path) -> Stores:
    """Wrap the engines of the stores with kill points."""
    engines = stores.engines
    stores.tables = KillableEngine(stores.tables, kill_points)
    stores.engines = Engines({name: _make_opener(engines, name, kill_points) for name in STORES})
    return stores


def _make_opener(engines: Engines, name: str, kill_points: Path) -> Callable[[], Any]:
    """Return a function that opens the named engine with kill points."""
    return lambda: KillableEngine(engines.get(name), kill_points)


# --- the place of a process ---------------------------------------------------------------------------------


@contextmanager
def _at_place(place: str) -> Iterator[None]:
    """Set the current place within the block."""
    token = _place.set(place)
    try:
        yield
    finally:
        _place.reset(token)


def _follow_messages() -> None:
    """Patch the queue worker: while it handles a message, the place is the step's state or "notice"."""
    handle = InFlightMessage.handle

    async def handle_at_place(self: InFlightMessage, handler: Any) -> bool:
        message = self.received.message
        with _at_place(message.state if isinstance(message, StepMessage) else NOTICE):
            return await handle(self, handler)

    setattr(InFlightMessage, "handle", handle_at_place)  # noqa: B010


def _follow_actions() -> None:
    """Patch `Trips`: while it runs an action, the place is the action's name."""
    for name in ACTIONS:
        setattr(Trips, name, _follow(name, getattr(Trips, name)))


def _follow(name: str, act: Any) -> Any:
    """Return the method so that it runs at the place `name`."""

    async def act_at_place(*given: Any, **named: Any) -> Any:
        with _at_place(name):
            return await act(*given, **named)

    return act_at_place


def _follow_portal(kill_points: Path, calls: Path) -> None:
    """Patch `HttpPortal.book`: add its kill points, and a file in `calls` while the call is open."""
    book_trip = HttpPortal.book

    async def book_at_place(self: HttpPortal, reference: str, *given: Any) -> Any:
        call = calls / f"{os.getpid()} {reference}"
        call.touch()
        try:
            reach(kill_points, "asked")
            order = await book_trip(self, reference, *given)
            reach(kill_points, "acted")
            return order
        finally:
            call.unlink(missing_ok=True)

    setattr(HttpPortal, "book", book_at_place)  # noqa: B010
