"""`holdfast run tripcortex` in a process that ends itself by SIGKILL when it comes to a moment that is in the book of fates.

The book is a folder. A file in it is a moment of the work on a booking, as "validated committing"; who comes to it first takes
the file away and dies there, and nobody else does. Where a process stands is said by the state whose step it does, or by what
an employee asked it for; the moments of each are

    committing   before its transaction
    committed    after it, before the next step is sent
    sent         after that, before the message of this step is deleted
    done         when that is deleted

and around the one call that buys something: `asked`, when the intent is recorded, and `acted`, when the portal has sold and
nothing of ours knows it. While such a call is out there is a file in the folder of calls: the clock is not moved then.
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

BOOK: Final = "TRIPCORTEX_TEST_FATES"
CALLS: Final = "TRIPCORTEX_TEST_CALLS"
NOTICE: Final = "notice"
ASKED: Final = ("request", "choose", "answer", "cancel", "decide")
STORES: Final = ("queues", "objects", "sql", "cache")

_where: ContextVar[str] = ContextVar("_where", default="")


def run(arguments: Sequence[str]) -> None:
    """The command line, under the fates."""
    sys.argv = ["holdfast", *arguments]
    book, calls = Path(os.environ[BOOK]), Path(os.environ[CALLS])
    open_stores = holdfast.runtime.open_stores

    def opened(*given: Any, **named: Any) -> Stores:
        return fated(open_stores(*given, **named), book)

    setattr(holdfast.runtime, "open_stores", opened)  # noqa: B010 - as `holdfast run` finds it
    _follow_messages()
    _follow_people()
    _follow_portal(book, calls)
    main()


def comes(book: Path, moment: str) -> None:
    try:
        (book / f"{_where.get()} {moment}").unlink()
    except FileNotFoundError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


# --- the stores ---------------------------------------------------------------------------------------------


class Fated:
    """An engine whose requests may be the last; what else it has is its own."""

    def __init__(self, behind: Any, book: Path) -> None:
        self._behind, self._book = behind, book

    def __getattr__(self, name: str) -> Any:
        return getattr(self._behind, name)

    async def run(self, operation: Any) -> Any:
        is_transaction = isinstance(operation, TransactWriteItems)
        if is_transaction:
            comes(self._book, "committing")
        elif isinstance(operation, DeleteMessages):
            comes(self._book, "done")
        answer = await self._behind.run(operation)
        if is_transaction:
            comes(self._book, "committed")
        elif isinstance(operation, SendMessages):
            comes(self._book, "sent")
        return answer


def fated(stores: Stores, book: Path) -> Stores:
    """The same stores, with an end in them."""
    engines = stores.engines
    stores.tables = Fated(stores.tables, book)
    stores.engines = Engines({name: _opener(engines, name, book) for name in STORES})
    return stores


def _opener(engines: Engines, name: str, book: Path) -> Callable[[], Any]:
    return lambda: Fated(engines.get(name), book)


# --- where a process stands ---------------------------------------------------------------------------------


@contextmanager
def _standing(where: str) -> Iterator[None]:
    token = _where.set(where)
    try:
        yield
    finally:
        _where.reset(token)


def _follow_messages() -> None:
    handle = InFlightMessage.handle

    async def handled(self: InFlightMessage, handler: Any) -> bool:
        message = self.received.message
        with _standing(message.state if isinstance(message, StepMessage) else NOTICE):
            return await handle(self, handler)

    setattr(InFlightMessage, "handle", handled)  # noqa: B010


def _follow_people() -> None:
    for name in ASKED:
        setattr(Trips, name, _followed(name, getattr(Trips, name)))


def _followed(name: str, ask: Any) -> Any:
    async def asked(*given: Any, **named: Any) -> Any:
        with _standing(name):
            return await ask(*given, **named)

    return asked


def _follow_portal(book: Path, calls: Path) -> None:
    book_trip = HttpPortal.book

    async def booked(self: HttpPortal, reference: str, *given: Any) -> Any:
        call = calls / f"{os.getpid()} {reference}"
        call.touch()
        try:
            comes(book, "asked")
            order = await book_trip(self, reference, *given)
            comes(book, "acted")
            return order
        finally:
            call.unlink(missing_ok=True)

    setattr(HttpPortal, "book", booked)  # noqa: B010
