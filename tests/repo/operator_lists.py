"""Lists of what operators see: commands, settings, metrics, access patterns, system parts, distribution."""

from __future__ import annotations

import asyncio
import enum
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import pytest
import typer.main
from typer.core import TyperGroup

from benchmarks import report
from holdfast import pytest_plugin
from holdfast.cli.app import app
from holdfast.cli.deferred_command import DeferredCommand
from holdfast.cli.processes.workload import get_address_variable
from holdfast.config.settings import FILE_NAME, FILE_VARIABLE, Settings, get_variable_name, list_setting_names
from holdfast.core import installed_systems
from holdfast.model.demo import find_demo
from holdfast.model.system import System
from holdfast.reports.cost.price_lists import list_price_lists
from holdfast.reports.pattern_list import build_pattern_rows
from holdfast.runtime import Stores, provision
from holdfast.runtime.telemetry.metrics import ALIASES, NAMES, Metrics
from holdfast.runtime.telemetry.usage import Usage
from pagw.settings import PagwSettings
from richpanel.settings import RichpanelSettings
from tests.repo.code import load_systems, open_in_memory
from tests.repo.source_scan import ROOT, find_metrics, find_variables
from tests.unit.flows import errands
from tripcortex.settings import TripCortexSettings

ADDRESS: Final = "http://127.0.0.1:9"


# --- commands -----------------------------------------------------------------------------------------------


def list_commands() -> Iterator[str]:
    """List every command with its arguments and options, their defaults and choices."""
    for words, command in walk_commands():
        start = f"holdfast {words}".rstrip()
        yield start
        yield from (f"{start}: {line}" for line in _describe_parameters(command.params))
    for name in (*report.BENCHMARKS, *report.SCALE):
        yield f"holdfast bench: takes {name}"
    yield from (f"holdfast cost: --prices takes {name}" for name in list_price_lists())


def walk_commands() -> Iterator[tuple[str, Any]]:
    """Yield every command by its words, including the commands of systems."""
    root = typer.main.get_command(app)
    yield "", root
    yield from _walk_group(root, ())


def _walk_group(group: Any, words: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    context = group.context_class(group, info_name="holdfast")
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, TyperGroup):
            yield from _walk_group(command, (*words, name))
        else:
            yield (
                " ".join((*words, name)),
                command.loaded if isinstance(command, DeferredCommand) else command,
            )


def _describe_parameters(parameters: Iterable[Any]) -> Iterator[str]:
    """Describe options by their names and arguments by their positions."""
    position = 0
    for each in parameters:
        names = [*each.opts, *each.secondary_opts]
        if all(name.startswith("-") for name in names):
            yield f"option {' '.join(names)}: {_describe_parameter(each)}"
        else:
            position += 1
            yield f"argument {position} {each.metavar or each.name.upper()}: {_describe_parameter(each)}"


def _describe_parameter(parameter: Any) -> str:
    """Return the default, type, repeatability and variable of a parameter."""
    default = parameter.default
    facts = [
        "required"
        if parameter.required
        else f"default {default.value if isinstance(default, enum.Enum) else default}",
        _describe_type(parameter.type_descriptor.annotation),
        "repeatable" if parameter.multiple or parameter.nargs == -1 else "",
        f"variable {parameter.envvar}" if parameter.envvar else "",
    ]
    return ", ".join(filter(None, facts))


def _describe_type(kind: Any) -> str:
    """Return the choices of an enumeration, or the name of a built-in type other than text."""
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return f"one of {' '.join(str(each.value) for each in kind)}"
    return kind.__name__ if kind in (bool, int, float) else ""


# --- settings -----------------------------------------------------------------------------------------------


def list_settings() -> Iterator[str]:
    """List settings and environment variables with their defaults."""
    yield f"file {FILE_NAME}, or the file in {FILE_VARIABLE}"
    for name in list_setting_names():
        yield f"setting {name}, variable {get_variable_name(name)}: default {getattr(Settings(), name)!r}"
    for load in (PagwSettings.load, RichpanelSettings.load, TripCortexSettings.load):
        environment = _RecordingEnvironment()
        load(environment)
        yield from (f"variable {name}: default {default!r}" for name, default in environment.asked.items())
    for system in load_systems().values():
        for name in _list_sandbox_variables(system):
            yield f"variable {name}, set by the sandboxes of {system.name}"
    yield from (f"variable {name}, named in the code" for name in find_variables())


class _RecordingEnvironment(Mapping[str, str]):
    """An empty environment that records which variables are read, with their defaults."""

    def __init__(self) -> None:
        self.asked: dict[str, Any] = {}

    def get(self, name: str, default: Any = None) -> Any:
        self.asked[name] = default
        return default

    def __getitem__(self, name: str) -> str:
        self.asked[name] = None
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


def _list_sandbox_variables(system: System) -> Iterator[str]:
    """Yield the variables that `holdfast up` sets for the system's sandboxes."""
    demo = find_demo(system)
    addresses = dict.fromkeys(demo.sandboxes, ADDRESS)
    yield from (get_address_variable(system, name) for name in addresses)
    if demo.sandbox_variables is not None:
        yield from demo.sandbox_variables(addresses, ADDRESS)


# --- metrics ------------------------------------------------------------------------------------------------


def list_metrics() -> Iterator[str]:
    """List what /metrics exposes with its labels, and what the systems count themselves."""
    yield from (f"{name}: metric of the stores" for name in NAMES)
    yield from (f"{alias}: alias of {name}" for alias, name in ALIASES.items())
    # One with queues, one with indexes, one with delayed actions, one with a flow and its outbox.
    systems = (*(load_systems()[name] for name in ("richpanel", "skymarshal", "agenticpm")), errands.SYSTEM)
    for system in systems:
        with open_in_memory(system) as stores:
            yield from asyncio.run(_list_samples(stores, system))
    yield from find_metrics()


async def _list_samples(stores: Stores, system: System) -> list[str]:
    """Return the samples of Prometheus' text after one request of each kind."""
    metrics = Metrics(stores, system.components)
    await provision(stores, system)
    if system is errands.SYSTEM:
        await errands.Bench(stores, errands.HandClock()).begin()
    scan = Usage("P1", "api", "Scan", system.tables[0].name, None)
    metrics.record_usage(scan)
    metrics.record_usage(replace(scan, throttle_events=1, throttled_requests=1))
    metrics.record_usage(Usage("P1", "api", "SendMessage", "queue", None, store="queues"))
    metrics.record_usage(Usage("P1", "api", "PutObject", "bucket", None, store="objects"))
    metrics.record_usage(replace(scan, error="Throttled"))
    metrics.requests.finish(metrics.requests.start(), "GET", "/", 200)
    text = await metrics.collect()
    return [_describe_sample(line) for line in text.splitlines() if not line.startswith("#")]


def _describe_sample(line: str) -> str:
    """Return `Name {Label, Label}` for a line of Prometheus' text."""
    name, _, rest = line.partition("{")
    labels = [each.partition("=")[0] for each in rest.rpartition("}")[0].split('",')] if rest else []
    return f"{name.split()[0]} {{{', '.join(sorted(labels))}}}: sample at /metrics"


# --- access patterns and systems ----------------------------------------------------------------------------


def list_patterns() -> Iterator[str]:
    """List each access pattern with its operation, its store and the components that may run it."""
    for system in load_systems().values():
        for row in build_pattern_rows(system):
            place = f"{row.operation} on {row.store} {row.table}" + (f" by {row.index}" if row.index else "")
            components = ", ".join(row.components) or "no component"
            yield f"{row.system} {row.id} {row.name}: {place}; per {row.rate['per']}; {components}"


def list_system_parts() -> Iterator[str]:
    """List the named parts of each system, such as components, schedules, sandboxes, imports and outboxes."""
    for name, system in load_systems().items():
        environments = ", ".join(system.deployment.environments)
        yield f"{name}: title {system.title}, environments {environments or 'any'}"
        schemas = ", ".join(each.name for each in system.schemas)
        yield f"{name}: extras {', '.join(system.deployment.extras)}; SQL schemas {schemas or 'none'}"
        for component in system.components:
            start = f"{name} component {component.name}"
            yield f"{start}: process {component.process or component.name}"
            yield from (f"{start}: consumes {each.queue.name}" for each in component.consumers)
            yield from (f"{start}: runs {each.name} every {each.every_s:g} s" for each in component.schedules)
        for kind, names in _list_named_parts(system).items():
            yield from (f"{name} {kind}: {each}" for each in names)


def _list_named_parts(system: System) -> dict[str, Iterable[str]]:
    return {
        "sandbox": find_demo(system).sandboxes,
        "subject": system.privacy.subjects,
        "import": system.admin.imports,
        "migration": system.admin.migrations,
        "retention": system.privacy.retention,
        "outbox": (each.name for each in system.outboxes),
        "load": system.design.load.volumes,
        "alternative load": system.design.what_if,
    }


def list_distribution() -> Iterator[str]:
    """List what the distributions offer: extras, scripts, entry points, pytest fixtures."""
    for file in (
        ROOT / "pyproject.toml",
        ROOT / "demo/pyproject.toml",
        *ROOT.glob("systems/*/pyproject.toml"),
    ):
        project = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
        name = project["name"]
        yield f"distribution {name}"
        yield from (f"{name}: extra {each}" for each in project.get("optional-dependencies", ()))
        yield from (f"{name}: script {each}" for each in project.get("scripts", ()))
        for group, points in project["entry-points"].items():
            yield from (f"{name}: entry point {each} of {group}" for each in points)
    yield f"entry point group {installed_systems.ENTRY_POINT_GROUP}"
    yield f"entry point group {installed_systems.DEMO_ENTRY_POINT_GROUP}"
    fixture = type(pytest.fixture(lambda: None))
    yield from (
        f"fixture {name}" for name, value in vars(pytest_plugin).items() if isinstance(value, fixture)
    )
