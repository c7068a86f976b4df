"""`Component`: a part of a system, the patterns that it uses, and its consumers and schedules.

    api = Component("api", "Takes orders", uses=(place_order, order, OUTBOX.publisher))
    worker = Component("worker", "Packs orders", uses=(ORDERS,), consumers=(Consumer(parcels, open_handler),))

An element of `uses` is a pattern, an iterable of elements, or an object with `patterns`, such as a guarantee
or a flow.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, TypeAlias

from holdfast.core.errors import DeclarationError
from holdfast.model.patterns import Pattern
from holdfast.model.queues import ConsumerPatterns, Queue, ReceivedMessage

__all__ = [
    "Component",
    "Consumer",
    "Handler",
    "HasPatterns",
    "Schedule",
    "Use",
]

Handler = Callable[[ReceivedMessage[Any]], Awaitable[None]]
"""Handles one message: the message is deleted when it returns, and retried when it raises."""


class HasPatterns(Protocol):
    """A declaration with access patterns: a guarantee, a role of one, a flow, the consumers of a queue."""

    @property
    def patterns(self) -> Iterable[Pattern[..., Any]]: ...


Use: TypeAlias = Pattern[..., Any] | HasPatterns | Iterable[Pattern[..., Any] | HasPatterns]
"""An element of `Component.uses`."""


@dataclass(frozen=True)
class Consumer:
    """A consumer of one queue.

    `open_handler` is called once per process with the component's stores and returns a context manager that
    yields the handler: the place to keep a client open. Messages of one group are handled in order; up to
    `concurrency` messages are handled at the same time. A handler that raises `RetryLater` chooses the delay
    itself; after any other error the delay grows with each attempt, from `retry_delay_s` to
    `max_retry_delay_s`, until the message moves to the dead-letter queue.

    The component may run the patterns of `queue.consumer`: receive, delete, change visibility. `pattern_set`
    replaces them.
    """

    queue: Queue[Any]
    open_handler: Callable[[Any], AbstractAsyncContextManager[Handler]]
    concurrency: int = field(default=8, kw_only=True)
    retry_delay_s: float = field(default=1.0, kw_only=True)
    max_retry_delay_s: float = field(default=300.0, kw_only=True)
    pattern_set: ConsumerPatterns | None = field(default=None, kw_only=True)

    @property
    def name(self) -> str:
        return self.queue.name

    @property
    def patterns(self) -> ConsumerPatterns:
        return self.pattern_set or self.queue.consumer


class WakeSource(Protocol):
    """A source of wake-up signals. `wait` returns None if there was no signal within the timeout."""

    async def wait(self, timeout_s: float) -> str | None:
        """Wait for a signal and return it; None if there was none within the timeout."""
        ...


@dataclass(frozen=True)
class Schedule:
    """A recurring task: `run` is called with the component's stores, `every_s` seconds apart.

    If the result of a run has a true `more`, the next run starts at once. `wake_source` is also called with
    the stores; while its context is open, each signal starts a run. A missed signal is covered by the next
    regular run.

    Several processes may run it at the same time: `run` must tolerate that, or acquire a lease first.
    """

    name: str
    every_s: float
    run: Callable[[Any], Awaitable[Any]]
    wake_source: Callable[[Any], AbstractAsyncContextManager[WakeSource]] | None = field(
        default=None, kw_only=True
    )


@dataclass(frozen=True)
class Component:
    """A named part of a system. It may run the patterns in `uses` and those of its consumers, and no others.

    Whether a pattern reads or writes follows from its operation.
    """

    name: str
    purpose: str = ""
    uses: Iterable[Use] = field(default=(), kw_only=True)
    # Refuses patterns that write.
    read_only: bool = field(default=False, kw_only=True)
    # The reads exposed as MCP tools; None exposes all. The others serve the system's own functions.
    exposed_tools: tuple[Pattern[..., Any], ...] | None = field(default=None, kw_only=True)
    # Builds the component's HTTP routes from its stores. The routes of `api` may be in Http.routes instead.
    routes: Callable[..., Any] | None = field(default=None, kw_only=True)
    # Callers authenticate every request by a signature, so the API token is not required.
    has_own_authentication: bool = field(default=False, kw_only=True)
    consumers: tuple[Consumer, ...] = field(default=(), kw_only=True)
    schedules: tuple[Schedule, ...] = field(default=(), kw_only=True)
    # Components that name the same process share one in `holdfast up`; each keeps its own view of the stores.
    process: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "uses", _freeze(self.uses))
        if self.read_only and self.writes:
            raise DeclarationError(
                f"The component {self.name} is read-only, but {', '.join(each.id for each in self.writes)} "
                "writes. Remove it from `uses`, or remove read_only=True."
            )

    @property
    def has_work(self) -> bool:
        """True if the component has consumers or schedules to run."""
        return bool(self.consumers or self.schedules)

    @cached_property
    def patterns(self) -> tuple[Pattern[..., Any], ...]:
        """All patterns that it may run, each once: those in `uses`, then those of its consumers."""
        every = _flatten((self.uses, self.consumers), self.name)
        return tuple(dict.fromkeys(each for each in every if isinstance(each, Pattern)))

    @cached_property
    def parts(self) -> tuple[HasPatterns, ...]:
        """The elements of `uses` that are not patterns: guarantees, roles of guarantees, flows."""
        return tuple(each for each in _flatten(self.uses, self.name) if not isinstance(each, Pattern))

    @cached_property
    def reads(self) -> tuple[Pattern[..., Any], ...]:
        """Its patterns that only read."""
        return tuple(each for each in self.patterns if not each.writes)

    @cached_property
    def writes(self) -> tuple[Pattern[..., Any], ...]:
        """Its patterns that write."""
        return tuple(each for each in self.patterns if each.writes)


def _freeze(element: Any) -> Any:
    """Return an element of `uses` in which every iterable is a tuple: a generator can be read only once."""
    if isinstance(element, Pattern | str) or hasattr(element, "patterns"):
        return element
    return tuple(map(_freeze, element)) if isinstance(element, Iterable) else element


def _flatten(element: Any, component: str) -> Iterator[Pattern[..., Any] | HasPatterns]:
    """Yield each object with `patterns` in an element of `uses`, and each pattern. Raise `DeclarationError`
    for anything else.
    """
    if isinstance(element, Pattern):
        yield element
    elif hasattr(element, "patterns"):
        yield element
        yield from _flatten(element.patterns, component)
    elif isinstance(element, Iterable) and not isinstance(element, str):
        for each in element:
            yield from _flatten(each, component)
    else:
        raise DeclarationError(
            f"Invalid element {element!r} in `uses` of the component {component}: expected a pattern, an "
            "object with `patterns` (a guarantee, a flow), or an iterable of these."
        )
