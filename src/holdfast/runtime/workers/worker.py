"""`run_worker` and `WorkerGroup`: run the consumers and schedules of components, with one stop signal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from holdfast.core.errors import InvalidRequest
from holdfast.core.limits import RECEIVE_WAIT_S, WORKER_GRACE_S
from holdfast.core.logs import bind_component
from holdfast.model.components import Component
from holdfast.runtime.stores import Stores
from holdfast.runtime.workers.consumer import QueueConsumer
from holdfast.runtime.workers.scheduler import run_schedule


async def run_worker(
    stores: Stores,
    component: Component,
    *,
    stop: asyncio.Event | None = None,
    grace_s: float = WORKER_GRACE_S,
    wait_s: float = RECEIVE_WAIT_S,
    on_ready: Callable[[], None] = lambda: None,
) -> None:
    """Run the component's consumers and schedules until `stop` is set, or one fails in a way that no retry
    fixes.

    Then `stop` is set for all tasks that wait for it, running handlers finish within `grace_s` seconds, and
    the failure is raised. `on_ready` is called once every consumer has its handler. Raises `InvalidRequest`
    if the component has neither consumers nor schedules.
    """
    stop = stop or asyncio.Event()
    view = stores if stores.component == component.name else stores.for_component(component.name)
    if not component.has_work:
        raise InvalidRequest(
            f"The component {component.name} has no consumers or schedules to run: declare some."
        )
    ready = _build_countdown(len(component.consumers), on_ready)
    consumers = [
        QueueConsumer(view, each, stop, grace_s=grace_s, wait_s=wait_s, on_ready=ready)
        for each in component.consumers
    ]
    with bind_component(component.name):
        tasks = [
            *(asyncio.create_task(each.run()) for each in consumers),
            *(
                asyncio.create_task(run_schedule(view, each, stop, grace_s=grace_s))
                for each in component.schedules
            ),
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


class WorkerGroup:
    """The workers of several components in one event loop, as an `async with`.

    For use next to a server, or in a test.
    """

    def __init__(
        self, stores: Stores, components: Sequence[Component], *, wait_s: float = RECEIVE_WAIT_S
    ) -> None:
        self._stores, self._components, self._wait_s = stores, components, wait_s
        self._stop, self._is_ready = asyncio.Event(), asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> WorkerGroup:
        ready = _build_countdown(len(self._components), self._is_ready.set)
        self._tasks = [
            asyncio.create_task(
                run_worker(self._stores, each, stop=self._stop, wait_s=self._wait_s, on_ready=ready)
            )
            for each in self._components
        ]
        return self

    async def wait_until_ready(self) -> bool:
        """Wait until every consumer has its handler; return False if the workers stopped or failed before."""
        waits = [asyncio.create_task(each.wait()) for each in (self._is_ready, self._stop)]
        try:
            await asyncio.wait([*waits, *self._tasks], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()
        return self._is_ready.is_set() and not self._stop.is_set()

    def stop(self) -> None:
        """Stop receiving messages. A second call cancels running handlers."""
        if self._stop.is_set():
            for task in self._tasks:
                task.cancel()
        self._stop.set()

    async def wait_until_stopped(self) -> None:
        """Wait until the workers are stopped or have failed."""
        await self._stop.wait()

    async def __aexit__(self, *_: object) -> None:
        """Stop, wait for running handlers, and raise the failure of a worker."""
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


def _build_countdown(count: int, then: Callable[[], None]) -> Callable[[], None]:
    """Return a function that calls `then` on its last of `count` calls; call it at once if `count` is 0."""
    left = count
    if not left:
        then()

    def one() -> None:
        nonlocal left
        left -= 1
        if not left:
            then()

    return one
