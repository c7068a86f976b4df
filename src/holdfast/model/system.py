"""`System` and its parts (components, consumers, schedules, load, commands); loads the installed systems.

Hosts (the command line, the MCP server, the console) find systems by the entry point `holdfast.systems` and
know only this value. Fields for optional features default to empty.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import Distribution, EntryPoint
from typing import Any, Final, Protocol

from holdfast.core import installed_systems
from holdfast.core.errors import DeclarationError, NotFound
from holdfast.model.demo import Demo
from holdfast.model.operations import Page
from holdfast.model.patterns import Pattern
from holdfast.model.queues import Queue, ReceivedMessage
from holdfast.model.sql import Schema
from holdfast.model.stated_costs import StatedCosts
from holdfast.model.tables import Index, Table

_COMMAND_WORD: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


@dataclass(frozen=True)
class Volume:
    """How often an event occurs per month, and over how many partition keys it spreads.

    `hottest` is the share that falls on the busiest key; None means an even spread.
    """

    per_month: float
    distinct_keys: int = 1
    hottest: float | None = None

    @property
    def hottest_share(self) -> float:
        """The share of the busiest key: as declared, or an even one."""
        return self.hottest if self.hottest is not None else 1 / max(1, self.distinct_keys)


@dataclass(frozen=True)
class Load:
    """The expected load: the volume of each event that rates refer to, and peak over average."""

    volumes: Mapping[str, Volume] = field(default_factory=dict)
    peak_factor: float = 1.0
    # The final size of items that grow, in bytes, by table name.
    max_item_bytes: Mapping[str, int] = field(default_factory=dict)
    # The number of partition keys of a table or index, by name, if it is smaller than the volume's
    # `distinct_keys`.
    distinct_keys: Mapping[str, int] = field(default_factory=dict)
    # Partition keys that concentrate traffic, by table or index name: `GLOBAL`, or with a star a key that is
    # the same for all at any time, as `EVENT#*` for a day. Keys whose template is constant need not be
    # listed.
    hot_keys: Mapping[str, Sequence[str]] = field(default_factory=dict)
    # The ids of patterns that run inside transactions: their capacity units are billed twice.
    transacted_patterns: Collection[str] = ()
    # The size in bytes of the item that a pattern writes, by pattern id, if it differs from the example's.
    item_bytes: Mapping[str, int] = field(default_factory=dict)


Handler = Callable[[ReceivedMessage[Any]], Awaitable[None]]
"""Handles one message: the message is deleted when it returns, and retried when it raises."""


@dataclass(frozen=True)
class Consumer:
    """A consumer of one queue. It uses the patterns `receive`, `delete` and `extend_visibility`.

    They are called as `receive(count, wait_s)`, `delete(received)` and `extend_visibility(received,
    seconds)`, and return the queue's operations `receive`, `delete` and `change_visibility`.

    `open_handler` is called once per process with the component's stores and returns a context manager that
    yields the handler: the place to keep a client open. Messages of one group are handled in order; up to
    `concurrency` messages are handled at the same time. A handler that raises `RetryLater` chooses the delay
    itself; after any other error the delay grows with each attempt, from `retry_delay_s` to
    `max_retry_delay_s`, until the message moves to the dead-letter queue.
    """

    queue: Queue[Any]
    open_handler: Callable[[Any], AbstractAsyncContextManager[Handler]]
    receive: Pattern[..., Any] = field(kw_only=True)
    delete: Pattern[..., Any] = field(kw_only=True)
    extend_visibility: Pattern[..., Any] = field(kw_only=True)
    concurrency: int = field(default=8, kw_only=True)
    retry_delay_s: float = field(default=1.0, kw_only=True)
    max_retry_delay_s: float = field(default=300.0, kw_only=True)

    @property
    def name(self) -> str:
        return self.queue.name


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
class Explanation:
    """Why something happened: lines for a person, and the same as data for a program."""

    lines: Sequence[str]
    data: Any = None


@dataclass(frozen=True)
class Command:
    """A system command that runs as a component other than `api`, which plain functions run as."""

    function: Callable[..., Awaitable[Any]]
    component: str | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Awaitable[Any]:
        return self.function(*args, **kwargs)


@dataclass(frozen=True)
class Listing:
    """The list that a command returns.

    People see the named columns, one line per item; programs get every field.
    """

    page: Page[Any]
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Component:
    """A named part of a system and the patterns it may run.

    Writes are declared apart, so that none is overlooked.
    """

    name: str
    purpose: str = ""
    reads: tuple[Pattern[..., Any], ...] = field(default=(), kw_only=True)
    writes: tuple[Pattern[..., Any], ...] = field(default=(), kw_only=True)
    # The reads exposed as MCP tools; None exposes all. The others serve the system's own functions.
    exposed_tools: tuple[Pattern[..., Any], ...] | None = field(default=None, kw_only=True)
    # Builds the component's HTTP routes from its stores. The routes of `api` may be in System.routes instead.
    routes: Callable[..., Any] | None = field(default=None, kw_only=True)
    # Callers authenticate every request by a signature, so the API token is not required.
    has_own_authentication: bool = field(default=False, kw_only=True)
    consumers: tuple[Consumer, ...] = field(default=(), kw_only=True)
    schedules: tuple[Schedule, ...] = field(default=(), kw_only=True)
    # Components that name the same process share one in `holdfast up`; each keeps its own view of the stores.
    process: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        writes = [each.id for each in self.writes]
        for consumer in self.consumers:
            used = (consumer.receive, consumer.delete, consumer.extend_visibility)
            if missing := [each.id for each in used if each.id not in writes]:
                raise DeclarationError(
                    f"Undeclared writes of the component {self.name}: its consumer of {consumer.name} uses "
                    f"{', '.join(missing)}. Add them to `writes`: receiving, deleting and extending "
                    "visibility change the queue."
                )

    @property
    def has_work(self) -> bool:
        """True if the component has consumers or schedules to run."""
        return bool(self.consumers or self.schedules)

    @property
    def patterns(self) -> tuple[Pattern[..., Any], ...]:
        return (*self.reads, *self.writes)


@dataclass(frozen=True, eq=False)
class System:
    """Everything that hosts know about a system."""

    name: str
    purpose: str
    tables: Sequence[Table]
    patterns: Sequence[Pattern[..., Any]]
    components: Sequence[Component] = ()
    load: Load = field(default_factory=Load)
    # Alternative loads for the design check, by name: `10,000 projects`.
    what_if: Mapping[str, Load] = field(default_factory=dict)
    # The costs that the design document states, which `holdfast cost` compares with the computed ones.
    stated_costs: StatedCosts | None = None
    title: str = ""
    # Builds the HTTP routes: called with stores, returns routers.
    routes: Callable[..., Any] | None = None
    # Customises the HTTP app, such as its error responses: called with the app after everything else is set
    # up.
    configure_app: Callable[..., None] | None = None
    # The largest request body in bytes; None for the host's default.
    max_body_bytes: int | None = None
    # Functions over several patterns, exposed to agents in addition to the patterns.
    tools: Sequence[Callable[..., Awaitable[Any]]] = ()
    # The system's own commands, by their words, such as `projects list`: async functions called with stores
    # and with their other parameters from the command line. A parameter named `progress` receives a callback.
    commands: Mapping[str, Callable[..., Awaitable[Any]]] = field(default_factory=dict)
    # CSV importers, by table name.
    imports: Mapping[str, Any] = field(default_factory=dict)
    # Live migrations, by name.
    migrations: Mapping[str, Any] = field(default_factory=dict)
    queues: Sequence[Queue[Any]] = ()
    buckets: Sequence[Any] = ()
    # SQL schemas with their migrations.
    schemas: Sequence[Schema] = ()
    # The outboxes: `holdfast outbox` lists, redrives and discards their messages.
    outboxes: Sequence[Any] = ()
    # The flows over its items: `holdfast flows` reports their state, draws them, and resumes parked ones.
    flows: Sequence[Any] = ()
    # Explains why something happened: called with stores and an id.
    why: Callable[..., Awaitable[Explanation]] | None = None
    # The demo, if it is distributed with the system; others are registered by the entry point
    # `holdfast.demos`. Hosts call `find_demo`.
    demo: Demo | None = None
    # Runs first in each process, on provisioned stores. Must be idempotent and safe to run concurrently.
    on_startup: Callable[..., Awaitable[None]] | None = None
    # Removes personal data from every text that the system's processes log.
    redact_logs: Callable[[str], str] | None = None
    # Retention periods by table name, if the entities do not declare a lifetime: Periods.
    retention: Mapping[str, Any] = field(default_factory=dict)
    # Finds all data of one person or case, by kind of id: called with stores and the id, returns SubjectData.
    subjects: Mapping[str, Callable[..., Awaitable[Any]]] = field(default_factory=dict)
    # The environments with their AWS regions: generated AWS templates name the buckets of each.
    environments: Mapping[str, str] = field(default_factory=dict)
    # Stores other than in-memory ones require an environment, so that data always names its owner.
    needs_environment: bool = False
    # Holdfast extras that the system requires in addition to those of its stores; hosts check them first.
    extras: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _refuse_duplicates(self.name, "pattern", [each.id for each in self.patterns])
        _refuse_duplicates(self.name, "table", [each.name for each in self.tables])
        _refuse_duplicates(self.name, "queue", [each.name for each in self.queues])
        _refuse_duplicates(self.name, "component", [each.name for each in self.components])
        _check_commands(self)
        _check_loads(self)
        for component in self.components:
            if strangers := [each.id for each in component.patterns if each not in self.patterns]:
                raise DeclarationError(
                    f"Unknown pattern {', '.join(strangers)} in the component {component.name} of "
                    f"{self.name}: add it to the system's patterns, or remove it from the component."
                )
            if unknown := [each.name for each in component.consumers if each.queue not in self.queues]:
                raise DeclarationError(
                    f"Unknown queue {', '.join(unknown)} in the component {component.name} of {self.name}: "
                    "add it to the system's queues."
                )

    def get_component(self, name: str) -> Component:
        """Return a component by name. Raise NotFound if there is none."""
        for component in self.components:
            if component.name == name:
                return component
        known = ", ".join(component.name for component in self.components)
        raise NotFound(f"{self.name} has no component {name!r}: it has {known or 'none'}.")

    def get_pattern(self, id: str) -> Pattern[..., Any]:
        """Return a pattern by id or name. Raise NotFound if there is none."""
        for each in self.patterns:
            if each.id == id or each.name == id:
                return each
        raise NotFound(f"{self.name} has no pattern {id!r}: `holdfast patterns {self.name}` lists them.")

    def get_table(self, name: str) -> Table:
        """Return a table by its logical name. Raise NotFound if there is none."""
        for table in self.tables:
            if table.name == name:
                return table
        known = ", ".join(table.name for table in self.tables)
        raise NotFound(f"{self.name} has no table {name!r}: it has {known}.")

    def get_queue(self, name: str) -> Queue[Any]:
        """Return a queue by its logical name. Raise NotFound if there is none."""
        for queue in self.queues:
            if queue.name == name:
                return queue
        known = ", ".join(queue.name for queue in self.queues)
        raise NotFound(f"{self.name} has no queue {name!r}: it has {known or 'none'}.")

    @cached_property
    def indexes(self) -> tuple[Index, ...]:
        """All indexes of its tables."""
        return tuple(index for table in self.tables for index in table.indexes)

    def find_components(self, pattern: Pattern[..., Any]) -> tuple[Component, ...]:
        """Return the components that may run a pattern."""
        return tuple(component for component in self.components if pattern in component.patterns)


def collect_patterns(module: Any) -> tuple[Pattern[..., Any], ...]:
    """Return every pattern declared in a module, in source order."""
    return tuple(value for value in vars(module).values() if isinstance(value, Pattern))


def load_systems() -> dict[str, System]:
    """Load every installed system, by name; raise `DeclarationError` if one fails to load."""
    return {name: _load_entry_point(point) for name, point in installed_systems.find_entry_points().items()}


def list_system_names() -> tuple[str, ...]:
    """Return the names of all installed systems, including those that fail to load."""
    return tuple(installed_systems.find_entry_points())


def load_system(name: str) -> System:
    """Load one system; raise `NotFound` if it is not installed.

    Other systems that fail to load do not matter.
    """
    points = installed_systems.find_entry_points()
    if name not in points:
        raise NotFound(f"System {name!r} is not installed. Installed: {', '.join(points) or 'none'}.")
    return _load_entry_point(points[name])


def find_distribution(name: str) -> Distribution | None:
    """Return the distribution that provides the system; None if none does."""
    point = installed_systems.find_entry_points().get(name)
    return point.dist if point is not None else None


def _load_entry_point(point: EntryPoint) -> System:
    """Load the system of an entry point; raise `DeclarationError` if that fails or it has another name."""
    try:
        system = point.load()
    except (Exception, SystemExit) as error:
        raise DeclarationError(
            f"Loading the system {point.name} ({point.value}) failed: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(system, System):
        raise DeclarationError(f"Invalid entry point {point.name} ({point.value}): expected a System.")
    if system.name != point.name:
        raise DeclarationError(
            f"The entry point {point.name} ({point.value}) names the system {system.name}: give both the "
            "same name."
        )
    return system


def _check_commands(system: System) -> None:
    """Raise `DeclarationError` for an invalid command name, a command that is also a group, or an unknown
    component.
    """
    for name, command in system.commands.items():
        if not all(_COMMAND_WORD.fullmatch(word) for word in name.split(" ")):
            raise DeclarationError(
                f"Invalid command name {name!r} of {system.name}: expected words of lower-case letters, "
                "digits and hyphens, separated by single spaces."
            )
        if longer := [each for each in system.commands if each.startswith(f"{name} ")]:
            raise DeclarationError(
                f"Conflicting commands {name!r} and {longer[0]!r} of {system.name}: the first is also a "
                "group. Add a word to it."
            )
        component = command.component if isinstance(command, Command) else None
        if component is not None and component not in [each.name for each in system.components]:
            raise DeclarationError(f"Unknown component {component} of the command {name!r} of {system.name}.")


def _check_loads(system: System) -> None:
    """Raise `DeclarationError` if a load names a pattern, table or index that the system lacks: it would be
    ignored.
    """
    patterns = [each.id for each in system.patterns]
    places = [*(each.name for each in system.tables), *(each.name for each in system.indexes)]
    for name, load in {"load": system.load, **system.what_if}.items():
        named = {
            "transacted_patterns": (load.transacted_patterns, patterns, "patterns"),
            "item_bytes": (load.item_bytes, patterns, "patterns"),
            "hot_keys": (load.hot_keys, places, "tables and indexes"),
            "distinct_keys": (load.distinct_keys, places, "tables and indexes"),
        }
        for what, (given, known, kind) in named.items():
            if strangers := [each for each in given if each not in known]:
                raise DeclarationError(
                    f"Invalid {what} in the load {name!r} of {system.name}: {', '.join(strangers)} is not "
                    f"one of its {kind} ({', '.join(known) or 'it has none'})."
                )


def _refuse_duplicates(system: str, what: str, names: Iterable[str]) -> None:
    """Raise `DeclarationError` if a name occurs twice. `what` is the kind of thing, such as `table`."""
    several = list(names)
    if twice := sorted({name for name in several if several.count(name) > 1}):
        raise DeclarationError(f"{system} declares two {what}s named {', '.join(twice)}: rename one.")
