"""A system: a package that declares its tables, patterns and components, and what runs on them.

Hosts (the command line, the MCP server, the console) find systems by the entry point `holdfast.systems` and
know nothing but this value. What a system may lack it leaves empty.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final, Protocol

from holdfast.errors import DeclarationError, NotFound
from holdfast.model.operations import Page
from holdfast.model.patterns import Pattern
from holdfast.model.queues import Queue, Received
from holdfast.model.sql import Schema
from holdfast.model.stated_costs import StatedCosts
from holdfast.model.tables import Index, Table

ENTRY_POINTS: Final = "holdfast.systems"
_WORD: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


@dataclass(frozen=True)
class Volume:
    """How often something happens in a month, over how many partition keys it spreads, and the share of the busiest.

    `hottest` is the share of all that falls on one key; left out, all keys are alike.
    """

    per_month: float
    distinct_keys: int = 1
    hottest: float | None = None

    @property
    def hottest_share(self) -> float:
        return self.hottest if self.hottest is not None else 1 / max(1, self.distinct_keys)


@dataclass(frozen=True)
class Load:
    """How much a system has to bear: the volume of each thing that rates refer to, and peak over average."""

    volumes: Mapping[str, Volume] = field(default_factory=dict)
    peak_factor: float = 1.0
    # How large an item gets in its life, in bytes, where it grows: by table name.
    grows_to: Mapping[str, int] = field(default_factory=dict)
    # How many partition keys a table or an index has, by its name, where they are fewer than what happens spreads over.
    distinct_keys: Mapping[str, int] = field(default_factory=dict)
    # Partition keys on which all falls that has them, by the name of the table or index: `GLOBAL`, or with a star a key
    # that is one at any moment, as `EVENT#*` is for a day. What is constant by its template need not be named.
    one_key: Mapping[str, Sequence[str]] = field(default_factory=dict)
    # The ids of patterns that are run as parts of transactions: each unit of theirs is billed twice.
    transacted: Collection[str] = ()
    # How large the item is that a pattern writes, in bytes, where it is another than its example: by the pattern's id.
    item_bytes: Mapping[str, int] = field(default_factory=dict)


# What takes a message: done when it returns, tried again when it raises.
Handler = Callable[[Received[Any]], Awaitable[None]]


@dataclass(frozen=True)
class Consumer:
    """Works off a queue. `receive`, `delete` and `hold` are the patterns it does so with.

    They are called as `receive(count, wait_s)`, `delete(received)` and `hold(received, seconds)`, and make the queue's
    operations of these names.

    `handling` is called once in a process with the component's stores and gives a handler for as long as it is
    entered: a place to keep a client open. Messages of one group are handled one after the other, of several
    `at_once` at the same time. A handler that raises `RetryLater` says itself when to come again; after any other
    error the pause grows with each attempt, from `pause_s` to `pause_s_max`, until the dead letters take the message.
    """

    queue: Queue[Any]
    handling: Callable[[Any], AbstractAsyncContextManager[Handler]]
    receive: Pattern[..., Any] = field(kw_only=True)
    delete: Pattern[..., Any] = field(kw_only=True)
    hold: Pattern[..., Any] = field(kw_only=True)
    at_once: int = field(default=8, kw_only=True)
    pause_s: float = field(default=1.0, kw_only=True)
    pause_s_max: float = field(default=300.0, kw_only=True)

    @property
    def name(self) -> str:
        return self.queue.name


class Wakes(Protocol):
    """Tells that there is something to do: None, if nothing was heard in the time."""

    async def wait(self, timeout_s: float) -> str | None: ...


@dataclass(frozen=True)
class Schedule:
    """Something done again and again: `run` is called with the component's stores, `every_s` seconds apart.

    A run whose answer has a `more` that is true is followed by the next at once. `wakes` is called with the stores too,
    and while it is entered a run also begins when it tells so; what it misses, the next run finds that is due.

    Several processes may run it at the same time: it must be safe under that, or take a lease first.
    """

    name: str
    every_s: float
    run: Callable[[Any], Awaitable[Any]]
    wakes: Callable[[Any], AbstractAsyncContextManager[Wakes]] | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class Explanation:
    """Why something happened: lines for a person, and the same as data for a program."""

    lines: Sequence[str]
    data: Any = None


@dataclass(frozen=True)
class Command:
    """A command of a system that runs as another component than `api`; a plain function runs as that."""

    function: Callable[..., Awaitable[Any]]
    component: str | None = None

    def __call__(self, *given: Any, **named: Any) -> Awaitable[Any]:
        return self.function(*given, **named)


@dataclass(frozen=True)
class Listing:
    """What a command lists: for a person the named members of each, one line a thing; for a program all of them."""

    page: Page[Any]
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Component:
    """A named part of a system and the patterns it may run. Writes are declared apart, so that nobody overlooks one."""

    name: str
    purpose: str = ""
    reads: tuple[Pattern[..., Any], ...] = field(default=(), kw_only=True)
    writes: tuple[Pattern[..., Any], ...] = field(default=(), kw_only=True)
    # Which reads are offered as tools by themselves, where not all are: the others serve the system's functions.
    offers: tuple[Pattern[..., Any], ...] | None = field(default=None, kw_only=True)
    # Makes the HTTP routes of this component: called with its stores. Those of `api` may stand in System.routes.
    routes: Callable[..., Any] | None = field(default=None, kw_only=True)
    # Its callers prove who they are with every call, by a signature: the API's token is not asked of them.
    is_signed: bool = field(default=False, kw_only=True)
    consumers: tuple[Consumer, ...] = field(default=(), kw_only=True)
    schedules: tuple[Schedule, ...] = field(default=(), kw_only=True)
    # Components that name the same process share one in `holdfast up`; each keeps its own view of the stores.
    process: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        writes = [each.id for each in self.writes]
        for consumer in self.consumers:
            used = (consumer.receive, consumer.delete, consumer.hold)
            if missing := [each.id for each in used if each.id not in writes]:
                raise DeclarationError(
                    f"The component {self.name} works off {consumer.name} by {', '.join(missing)}, and does not declare "
                    "it among its writes: receiving, deleting and holding change the queue."
                )

    @property
    def works(self) -> bool:
        """Whether there is something to run beside answering calls."""
        return bool(self.consumers or self.schedules)

    @property
    def patterns(self) -> tuple[Pattern[..., Any], ...]:
        return (*self.reads, *self.writes)


@dataclass(frozen=True, eq=False)
class System:
    """What hosts know of a system."""

    name: str
    purpose: str
    tables: Sequence[Table]
    patterns: Sequence[Pattern[..., Any]]
    components: Sequence[Component] = ()
    load: Load = field(default_factory=Load)
    # Other loads that the design check is asked about, by what they are called: `10,000 projects`.
    what_if: Mapping[str, Load] = field(default_factory=dict)
    # What the design said it would cost, for `holdfast cost` to set beside what that comes to.
    stated_costs: StatedCosts | None = None
    title: str = ""
    # Makes the sample data and gives the number of rows: called with stores, scale= and progress=, a callback that
    # is told what is written, how many rows are, and how many there will be.
    sample: Callable[..., Awaitable[Any]] | None = None
    # Tells the system's story: called with stores and a console to print to.
    story: Callable[..., Awaitable[Any]] | None = None
    # Makes the HTTP routes: called with stores, returns routers.
    routes: Callable[..., Any] | None = None
    # What its HTTP does in a way of its own, such as how it fails: called with the app when all else is in place.
    manners: Callable[..., None] | None = None
    # The largest body that its routes take, in bytes, where that is not what hosts allow by themselves.
    body_bytes_max: int | None = None
    # Functions over several patterns, offered to agents beside the patterns themselves.
    tools: Sequence[Callable[..., Awaitable[Any]]] = ()
    # The system's own commands by their words, as `projects list`: async functions that are called with stores and what
    # their other parameters are given on the command line; one named `progress` is given a callback.
    commands: Mapping[str, Callable[..., Awaitable[Any]]] = field(default_factory=dict)
    # How rows of a CSV file become entities, by table name.
    imports: Mapping[str, Any] = field(default_factory=dict)
    # Live migrations, by name.
    migrations: Mapping[str, Any] = field(default_factory=dict)
    queues: Sequence[Queue[Any]] = ()
    buckets: Sequence[Any] = ()
    # What it has in SQL, each with the migrations that make it.
    schemas: Sequence[Schema] = ()
    # The outboxes whose items a component relays: `holdfast outbox` lists and redrives them.
    outboxes: Sequence[Any] = ()
    # The flows over its items: `holdfast flows` tells where each stands, draws them, and resumes what is parked.
    flows: Sequence[Any] = ()
    # Why something happened: called with stores and an id.
    why: Callable[..., Awaitable[Explanation]] | None = None
    # Stand-ins for outside parties, by the party's name: each makes an HTTP app. One that takes an argument `clock`
    # is given that of the settings, one that takes `folder` a place to keep its ledger in.
    sandboxes: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    # What its processes find in their environment while parties are stood in for, where nobody has set it: called with the
    # address of each stand-in by the party's name, and with the address of the system itself.
    sandbox_variables: Callable[[Mapping[str, str], str], Mapping[str, str]] | None = None
    # What each process of it does first, on stores that are prepared. It bears to be done again, and by several at once.
    at_start: Callable[..., Awaitable[None]] | None = None
    # Goes over every text that the system's processes log, so that nothing personal gets there.
    redact_logs: Callable[[str], str] | None = None
    # How long what is kept is kept, by table name, where the declaration of its entities does not tell: Periods.
    retention: Mapping[str, Any] = field(default_factory=dict)
    # How to find all that belongs to one person or case, by the kind of id: called with stores and the id, gives Traces.
    subjects: Mapping[str, Callable[..., Awaitable[Any]]] = field(default_factory=dict)
    # The environments it is meant for, each with its AWS region: what is emitted for AWS names the buckets of each.
    environments: Mapping[str, str] = field(default_factory=dict)
    # Names without an environment are refused outside of memory: the system's data must say whose it is.
    needs_environment: bool = False
    # Holdfast's extras that it cannot run without, by their names, beside those of its stores: hosts look first.
    extras: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _refuse_twins(self.name, "pattern", [each.id for each in self.patterns])
        _refuse_twins(self.name, "table", [each.name for each in self.tables])
        _refuse_twins(self.name, "queue", [each.name for each in self.queues])
        _refuse_twins(self.name, "component", [each.name for each in self.components])
        _refuse_commands(self)
        _refuse_strange_loads(self)
        for component in self.components:
            if strangers := [each.id for each in component.patterns if each not in self.patterns]:
                raise DeclarationError(
                    f"The component {component.name} of {self.name} declares {', '.join(strangers)}, which the system "
                    "does not: add the pattern to the system, or take it from the component."
                )
            if unknown := [each.name for each in component.consumers if each.queue not in self.queues]:
                raise DeclarationError(
                    f"The component {component.name} of {self.name} works off {', '.join(unknown)}, which the system does "
                    "not declare: add the queue to the system."
                )

    def component(self, name: str) -> Component:
        for component in self.components:
            if component.name == name:
                return component
        known = ", ".join(component.name for component in self.components)
        raise NotFound(f"{self.name} has no component {name!r}: it has {known or 'none'}.")

    def pattern(self, id: str) -> Pattern[..., Any]:
        for each in self.patterns:
            if each.id == id or each.name == id:
                return each
        raise NotFound(f"{self.name} has no pattern {id!r}: `holdfast patterns {self.name}` lists them.")

    def table(self, name: str) -> Table:
        for table in self.tables:
            if table.name == name:
                return table
        known = ", ".join(table.name for table in self.tables)
        raise NotFound(f"{self.name} has no table {name!r}: it has {known}.")

    def queue(self, name: str) -> Queue[Any]:
        for queue in self.queues:
            if queue.name == name:
                return queue
        known = ", ".join(queue.name for queue in self.queues)
        raise NotFound(f"{self.name} has no queue {name!r}: it has {known or 'none'}.")

    @cached_property
    def indexes(self) -> tuple[Index, ...]:
        return tuple(index for table in self.tables for index in table.indexes)

    def components_of(self, pattern: Pattern[..., Any]) -> tuple[Component, ...]:
        return tuple(component for component in self.components if pattern in component.patterns)


def patterns_in(module: Any) -> tuple[Pattern[..., Any], ...]:
    """Every pattern declared in a module, in the order it is written."""
    return tuple(value for value in vars(module).values() if isinstance(value, Pattern))


def installed_systems() -> dict[str, System]:
    """Every system that is installed, by name."""
    return {name: _loaded(point) for name, point in _entry_points().items()}


def installed_names() -> tuple[str, ...]:
    """The names of all, also of those that cannot be loaded."""
    return tuple(_entry_points())


def installed_system(name: str) -> System:
    """One system. Another that cannot be loaded does not stand in its way."""
    points = _entry_points()
    if name not in points:
        known = f"{', '.join(points) or 'none'} {'are' if len(points) > 1 else 'is'} installed"
        raise NotFound(f"There is no system {name!r}: {known}.")
    return _loaded(points[name])


def _entry_points() -> dict[str, EntryPoint]:
    return {each.name: each for each in sorted(entry_points(group=ENTRY_POINTS), key=lambda each: each.name)}


def _loaded(point: EntryPoint) -> System:
    try:
        system = point.load()
    except Exception as error:
        raise DeclarationError(
            f"The system {point.name} ({point.value}) cannot be loaded: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(system, System):
        raise DeclarationError(f"The entry point {point.name} ({point.value}) names no System.")
    if system.name != point.name:
        raise DeclarationError(
            f"The entry point {point.name} ({point.value}) names the system {system.name}: call both the same."
        )
    return system


def _refuse_commands(system: System) -> None:
    """Names that cannot be typed, a command that is also a group of others, a component that is not there."""
    for name, command in system.commands.items():
        if not all(_WORD.fullmatch(word) for word in name.split(" ")):
            raise DeclarationError(
                f"{system.name} declares the command {name!r}: name it by words of small letters, digits and hyphens, "
                "one space between them."
            )
        if longer := [each for each in system.commands if each.startswith(f"{name} ")]:
            raise DeclarationError(
                f"{system.name} declares the command {name!r} and also {longer[0]!r}: give the first a word more."
            )
        component = command.component if isinstance(command, Command) else None
        if component is not None and component not in [each.name for each in system.components]:
            raise DeclarationError(
                f"The command {name!r} of {system.name} runs as {component}, which is none of its components."
            )


def _refuse_strange_loads(system: System) -> None:
    """What a load says of a pattern, a table or an index that the system does not have would count for nothing."""
    patterns = [each.id for each in system.patterns]
    places = [*(each.name for each in system.tables), *(each.name for each in system.indexes)]
    for name, load in {"load": system.load, **system.what_if}.items():
        named = {
            "transacted": (load.transacted, patterns, "patterns"),
            "item_bytes": (load.item_bytes, patterns, "patterns"),
            "one_key": (load.one_key, places, "tables and indexes"),
            "distinct_keys": (load.distinct_keys, places, "tables and indexes"),
        }
        for what, (given, known, kind) in named.items():
            if strangers := [each for each in given if each not in known]:
                raise DeclarationError(
                    f"{what} of the load {name!r} of {system.name} names {', '.join(strangers)}, which is none of its "
                    f"{kind}: {', '.join(known) or 'it has none'}."
                )


def _refuse_twins(system: str, what: str, names: Iterable[str]) -> None:
    several = list(names)
    if twice := sorted({name for name in several if several.count(name) > 1}):
        raise DeclarationError(f"{system} declares two {what}s named {', '.join(twice)}: rename one.")
