"""`System`: what a system declares, in groups of optional fields; loads the installed systems.

Hosts (the command line, the MCP server, the console) find systems by the entry point `holdfast.systems` and
know only this value.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from importlib.metadata import Distribution, EntryPoint
from typing import Any, Final, Literal

from holdfast.core import installed_systems
from holdfast.core.errors import DeclarationError, NotFound
from holdfast.model.agents import Prompt, ToolFunction
from holdfast.model.components import Component
from holdfast.model.demo import Demo
from holdfast.model.load import Load
from holdfast.model.operations import Page
from holdfast.model.patterns import Pattern
from holdfast.model.queues import Queue
from holdfast.model.sql import Schema
from holdfast.model.stated_costs import StatedCosts
from holdfast.model.tables import Index, Table

__all__ = [
    "Admin",
    "Command",
    "Deployment",
    "Design",
    "Explanation",
    "Http",
    "Listing",
    "Privacy",
    "RequiredSetting",
    "System",
    "collect_patterns",
    "load_system",
    "load_systems",
]

_COMMAND_WORD: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


@dataclass(frozen=True)
class Explanation:
    """Why something happened: lines for a person, and the same as data for a program.

    A command that returns it exits with `exit_code`, for example 1 if what it checked is invalid.
    """

    lines: Sequence[str]
    data: Any = None
    exit_code: int = 0


@dataclass(frozen=True)
class Command:
    """A system command that runs as a component other than `api`, which plain functions run as.

    With `needs_stores=False` the function has no parameter for the stores, and none is opened: the command
    runs in any folder, and leaves no data there.
    """

    function: Callable[..., Awaitable[Any]]
    component: str | None = None
    needs_stores: bool = True

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
class Design:
    """The assumptions of the design: `holdfast check` and `holdfast cost` compare the patterns with them."""

    load: Load = field(default_factory=Load)
    # Alternative loads for the design check, by name: `10,000 projects`.
    what_if: Mapping[str, Load] = field(default_factory=dict)
    # The costs that the design document states, which `holdfast cost` compares with the computed ones.
    stated_costs: StatedCosts | None = None


@dataclass(frozen=True)
class Http:
    """The HTTP API that the component `api` serves. Other components have routes of their own."""

    # Builds the HTTP routes: called with stores, returns routers.
    routes: Callable[..., Any] | None = None
    # Customises the HTTP app, such as its error responses: called with the app after everything else is set
    # up.
    configure_app: Callable[..., None] | None = None
    # The largest request body in bytes; None for the host's default.
    max_body_bytes: int | None = None
    # Returns the origins of web pages that may call the API, such as `https://app.example.com`, in addition
    # to those in the settings.
    allowed_origins: Callable[[], Sequence[str]] | None = None


@dataclass(frozen=True)
class Admin:
    """The functions with which operators and agents run the system."""

    # The system's own commands, by their words, such as `projects list`: async functions called with stores
    # and with their other parameters from the command line. A parameter named `progress` receives a callback.
    commands: Mapping[str, Callable[..., Awaitable[Any]]] = field(default_factory=dict)
    # Functions over several patterns, exposed to agents in addition to the patterns.
    tools: Sequence[ToolFunction | Callable[..., Awaitable[Any]]] = ()
    # Typical jobs for an agent, which its user may choose.
    prompts: Sequence[Prompt] = ()
    # Descriptions of the arguments of tools and prompts, by name: a name means the same in all of them.
    arguments: Mapping[str, str] = field(default_factory=dict)
    # Explains why something happened: called with stores and an id.
    why: Callable[..., Awaitable[Explanation]] | None = None
    # CSV importers, by table name.
    imports: Mapping[str, Any] = field(default_factory=dict)
    # Live migrations, by name.
    migrations: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Privacy:
    """How the system protects personal data and when it removes data."""

    # Removes personal data from every text that the system's processes log.
    redact_logs: Callable[[str], str] | None = None
    # Attributes and columns whose values are personal although their names do not say so, such as `name`: the
    # console masks them, next to those that it knows by their names.
    personal_names: frozenset[str] = frozenset()
    # Retention periods by table name, if the entities do not declare a lifetime: Periods.
    retention: Mapping[str, Any] = field(default_factory=dict)
    # Finds all data of one person or case, by kind of id: called with stores and the id, returns SubjectData.
    subjects: Mapping[str, Callable[..., Awaitable[Any]]] = field(default_factory=dict)


@dataclass(frozen=True)
class RequiredSetting:
    """A setting without which the system does not start in production, and what to set it to.

    `kind` says what its value is: a text, an https `address` of another machine, or a `secret` by its name.
    A variable that is for demos must be `unset`; its `purpose` says why.
    """

    name: str
    purpose: str
    kind: Literal["text", "address", "secret", "unset"] = "text"
    # The components that need it; all of them if there are none.
    components: tuple[str, ...] = ()


@dataclass(frozen=True)
class Deployment:
    """The needs of the system where it runs: environments, extras, a function at its start."""

    # The environments with their AWS regions: generated AWS templates name the buckets of each.
    environments: Mapping[str, str] = field(default_factory=dict)
    # Stores other than in-memory ones require an environment, so that data always names its owner.
    needs_environment: bool = False
    # Holdfast extras that the system requires in addition to those of its stores; hosts check them first.
    extras: tuple[str, ...] = ()
    # Runs first in each process, on provisioned stores. Must be idempotent and safe to run concurrently.
    on_startup: Callable[..., Awaitable[None]] | None = None
    # What the system needs in production, in addition to what every system needs there.
    production: Sequence[RequiredSetting] = ()


@dataclass(frozen=True, eq=False)
class System:
    """Everything that hosts know about a system: `System("todo", "Keeps tasks", tables=(…), components=(…))`.

    It collects the patterns, queues, outboxes and flows of its components; `patterns`, `queues` and `flows`
    add those that no component names.
    """

    name: str
    purpose: str
    _: KW_ONLY
    title: str = ""
    tables: Sequence[Table] = ()
    components: Sequence[Component] = ()
    patterns: Sequence[Pattern[..., Any]] = ()
    queues: Sequence[Queue[Any]] = ()
    buckets: Sequence[Any] = ()
    # SQL schemas with their migrations.
    schemas: Sequence[Schema] = ()
    # The outboxes of its components and flows: `holdfast outbox` lists, redrives and discards their messages.
    outboxes: Sequence[Any] = field(default=(), init=False)
    # The flows over its items: `holdfast flows` reports their state, draws them, and resumes parked ones.
    flows: Sequence[Any] = ()
    design: Design = field(default_factory=Design)
    http: Http = field(default_factory=Http)
    admin: Admin = field(default_factory=Admin)
    privacy: Privacy = field(default_factory=Privacy)
    deployment: Deployment = field(default_factory=Deployment)
    # Builds the system's pages in the console: called with the stores of the component `console`, returns
    # `SystemPages`.
    pages: Callable[..., Any] | None = None
    # The demo, if it is distributed with the system; others are registered by the entry point
    # `holdfast.demos`. Hosts call `find_demo`.
    demo: Demo | None = None

    def __post_init__(self) -> None:
        parts = [part for each in self.components for part in each.parts]
        outboxes = [outbox for part in parts for outbox in getattr(part, "outboxes", ())]
        # All patterns of an outbox: `holdfast outbox` runs those that no component does.
        self._collect("patterns", [each.patterns for each in (*self.components, *outboxes)])
        consumers = [consumer for each in self.components for consumer in each.consumers]
        self._collect("queues", [(consumer.queue,) for consumer in consumers])
        self._collect("flows", [getattr(part, "flows", ()) for part in parts])
        self._collect("outboxes", [outboxes, (flow.outbox for flow in self.flows)])
        _refuse_duplicates(self.name, "pattern", [each.id for each in self.patterns])
        _refuse_duplicates(self.name, "table", [each.name for each in self.tables])
        _refuse_duplicates(self.name, "queue", [each.name for each in self.queues])
        _refuse_duplicates(self.name, "component", [each.name for each in self.components])
        _check_commands(self)
        _check_loads(self)

    def _collect(self, name: str, found: Iterable[Iterable[Any]]) -> None:
        """Add what the components name to a field, each object once."""
        every = (each for several in (getattr(self, name), *found) for each in several)
        object.__setattr__(self, name, tuple(dict.fromkeys(every)))

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

    @cached_property
    def guarantees(self) -> tuple[Any, ...]:
        """The delayed actions, leases and breakers whose patterns it has, each once."""
        owners = (pattern.guarantee for pattern in self.patterns)
        return tuple(dict.fromkeys(each for each in owners if each is not None))

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
    for name, command in system.admin.commands.items():
        if not all(_COMMAND_WORD.fullmatch(word) for word in name.split(" ")):
            raise DeclarationError(
                f"Invalid command name {name!r} of {system.name}: expected words of lower-case letters, "
                "digits and hyphens, separated by single spaces."
            )
        if longer := [each for each in system.admin.commands if each.startswith(f"{name} ")]:
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
    for name, load in {"load": system.design.load, **system.design.what_if}.items():
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
