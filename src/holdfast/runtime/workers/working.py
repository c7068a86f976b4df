"""All that a component works on, side by side, with one way to stop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from holdfast.errors import InvalidRequest
from holdfast.logs import logging_as
from holdfast.model.system import Component
from holdfast.runtime.stores import Stores
from holdfast.runtime.workers.consuming import Consuming
from holdfast.runtime.workers.scheduling import follow

# How long what is being worked on may go on after a stop. Then it is cancelled, and its messages are given back.
WORK_GRACE_S: Final = 20.0
# A receive is never cut off, because what it has just taken would stay hidden: so long may a stop have to wait for it.
RECEIVE_WAIT_S: Final = 2.0


async def work(
    stores: Stores,
    component: Component,
    *,
    stop: asyncio.Event | None = None,
    grace_s: float = WORK_GRACE_S,
    wait_s: float = RECEIVE_WAIT_S,
    on_ready: Callable[[], None] = lambda: None,
) -> None:
    """Runs the component's consumers and schedules until `stop` is set, or one fails in a way that a pause does not mend.

    Then `stop` is set for all that listen to it, what is in work is brought to its end, and the failure is raised.
    `on_ready` is called once each consumer has its handler.
    """
    stop = stop or asyncio.Event()
    view = stores if stores.component == component.name else stores.for_component(component.name)
    if not component.works:
        raise InvalidRequest(
            f"The component {component.name} has nothing to work on: give it consumers or schedules."
        )
    ready = _countdown(len(component.consumers), on_ready)
    consumers = [
        Consuming(view, each, stop, grace_s=grace_s, wait_s=wait_s, on_handler=ready)
        for each in component.consumers
    ]
    with logging_as(component.name):
        tasks = [
            *(asyncio.create_task(each.run()) for each in consumers),
            *(asyncio.create_task(follow(view, each, stop, grace_s=grace_s)) for each in component.schedules),
        ]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        stop.set()
        await asyncio.wait(tasks)
    except asyncio.CancelledError:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        raise
    for task in tasks:
        task.result()


class Work:
    """Several components' work in one loop, begun and ended with an `async with`: beside a server, in a test."""

    def __init__(
        self, stores: Stores, components: Sequence[Component], *, wait_s: float = RECEIVE_WAIT_S
    ) -> None:
        self._stores, self._components, self._wait_s = stores, components, wait_s
        self._stop, self._is_ready = asyncio.Event(), asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Work:
        ready = _countdown(len(self._components), self._is_ready.set)
        self._tasks = [
            asyncio.create_task(
                work(self._stores, each, stop=self._stop, wait_s=self._wait_s, on_ready=ready)
            )
            for each in self._components
        ]
        return self

    async def ready(self) -> bool:
        """Waits until every consumer has its handler; False where the work was stopped, or has failed, before that."""
        waits = [asyncio.create_task(each.wait()) for each in (self._is_ready, self._stop)]
        try:
            await asyncio.wait([*waits, *self._tasks], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()
        return self._is_ready.is_set() and not self._stop.is_set()

    def stop(self) -> None:
        """No new messages are taken from now on. Called a second time, it breaks off what is in work."""
        if self._stop.is_set():
            for task in self._tasks:
                task.cancel()
        self._stop.set()

    async def ended(self) -> None:
        """Waits until the work was stopped, or has failed."""
        await self._stop.wait()

    async def __aexit__(self, *_: object) -> None:
        """Waits for what is in work, and raises what made the work fail."""
        self._stop.set()
        if not self._tasks:
            return
        try:
            await asyncio.wait(self._tasks)
        except asyncio.CancelledError:
            self.stop()
            await asyncio.wait(self._tasks)
            raise
        for task in self._tasks:
            if not task.cancelled():
                task.result()


def _countdown(count: int, then: Callable[[], None]) -> Callable[[], None]:
    """Calls `then` at the last of so many calls; at once if none is to come."""
    left = count
    if not left:
        then()

    def one() -> None:
        nonlocal left
        left -= 1
        if not left:
            then()

    return one
