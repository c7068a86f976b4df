"""`holdfast run tripcortex` in a process that ends itself by SIGKILL at an open kill point.

Kill points are files in a folder, named by place and moment, as "validated committing"; the first process
that reaches one removes the file and dies, and no other does. The place is the state whose step the process
runs, or the action that an employee requested; the moments of each are

    committing   before its transaction
    committed    after it, before the next step is sent
    sent         after that, before the message of this step is deleted
    done         when that is deleted

and around the one call that buys something: `asked`, when the intent is recorded, and `acted`, when the
portal has sold and the outcome is not recorded. While such a call is open, or a message is being handled,
there is a file in the folder of calls: the clock does not jump then.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final

from holdfast.flows.executions import StepMessage
from holdfast.operations.queues import DeleteMessages, SendMessages
from holdfast.operations.tables import TransactWriteItems
from holdfast.runtime.workers.in_flight_message import InFlightMessage
from tests.faults.kill_points import Request, kill_this_process, run_with_kill_points
from tripcortex.api.trips import Trips
from tripcortex.integrations.portal.client import HttpPortal

KILL_POINTS_VARIABLE: Final = "TRIPCORTEX_TEST_FATES"
CALLS_VARIABLE: Final = "TRIPCORTEX_TEST_CALLS"
NOTICE: Final = "notice"
ACTIONS: Final = ("request", "choose", "answer", "cancel", "decide")

# The end of the names of files that say that a message is being handled.
HANDLED: Final = "handled"

_place: ContextVar[str] = ContextVar("_where", default="")


def main(*arguments: str) -> None:
    """Run the `holdfast` command with kill points."""
    book, calls = Path(os.environ[KILL_POINTS_VARIABLE]), Path(os.environ[CALLS_VARIABLE])
    _follow_messages(calls)
    _follow_actions()
    _follow_portal(book, calls)
    run_with_kill_points(arguments, lambda operation, request: _run_at_place(book, operation, request))


def reach(kill_points: Path, moment: str) -> None:
    """Die by SIGKILL if the kill point of the current place and this moment is open; close it first."""
    try:
        (kill_points / f"{_place.get()} {moment}").unlink()
    except FileNotFoundError:
        return
    kill_this_process()


async def _run_at_place(kill_points: Path, operation: Any, request: Request) -> Any:
    """Make the request, with kill points around transactions, sends and deletions."""
    is_transaction = isinstance(operation, TransactWriteItems)
    if is_transaction:
        reach(kill_points, "committing")
    elif isinstance(operation, DeleteMessages):
        reach(kill_points, "done")
    answer = await request()
    if is_transaction:
        reach(kill_points, "committed")
    elif isinstance(operation, SendMessages):
        reach(kill_points, "sent")
    return answer


# --- the place of a process ---------------------------------------------------------------------------------


@contextmanager
def _at_place(place: str) -> Iterator[None]:
    """Set the current place within the block."""
    token = _place.set(place)
    try:
        yield
    finally:
        _place.reset(token)


def _follow_messages(calls: Path) -> None:
    """Patch the queue worker: while it handles a message, the place is the step's state or "notice", and
    there is a file in `calls`. A step that only computes writes nothing, and is slow on a busy machine.
    """
    handle = InFlightMessage.handle

    async def handle_at_place(self: InFlightMessage, handler: Any) -> bool:
        message = self.received.message
        mark = calls / f"{os.getpid()} {id(self)} {HANDLED}"
        mark.touch()
        try:
            with _at_place(message.state if isinstance(message, StepMessage) else NOTICE):
                return await handle(self, handler)
        finally:
            mark.unlink(missing_ok=True)

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
    """Patch `HttpPortal.book`: add its kill points, and a file in `calls` while the call is open.

    It replaces the file of the message: a claim may be lost during a call.
    """
    book_trip = HttpPortal.book

    async def book_at_place(self: HttpPortal, reference: str, *given: Any) -> Any:
        call = calls / f"{os.getpid()} {reference}"
        call.touch()
        for mark in calls.glob(f"{os.getpid()} * {HANDLED}"):
            mark.unlink(missing_ok=True)
        try:
            reach(kill_points, "asked")
            order = await book_trip(self, reference, *given)
            reach(kill_points, "acted")
            return order
        finally:
            call.unlink(missing_ok=True)

    setattr(HttpPortal, "book", book_at_place)  # noqa: B010
