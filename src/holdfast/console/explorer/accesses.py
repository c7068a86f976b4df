"""Which component uses which resource, and by which patterns. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from holdfast.model.queues import Queue, Receive
from holdfast.model.system import System
from holdfast.model.tables import Table
from holdfast.reports.examples import Example, list_examples
from holdfast.reports.resources import (
    CacheKeys,
    Resource,
    ResourcePath,
    SqlTable,
    list_declared,
    list_touched,
)

AccessKind = Literal["reads", "writes", "receives"]


@dataclass
class Access:
    """What one component does with one resource; `patterns` are ids."""

    component: str
    resource: Resource
    reads: list[str] = field(default_factory=list)
    writes: list[str] = field(default_factory=list)
    receives: bool = False

    @property
    def kind(self) -> AccessKind:
        """The strongest kind of access."""
        if self.receives:
            return "receives"
        return "writes" if self.writes else "reads"


def list_accesses(system: System) -> list[Access]:
    """Return every access of a component to a resource, in the order of the components."""
    examples = {each.pattern.id: each for each in list_examples(system)}
    found: dict[tuple[str, str, str], Access] = {}
    for component in system.components:
        for pattern in component.patterns:
            example = examples[pattern.id]
            for resource in _list_resources(example):
                key = (component.name, type(resource).__name__, resource.name)
                access = found.setdefault(key, Access(component.name, resource))
                (access.writes if example.writes else access.reads).append(pattern.id)
                access.receives |= isinstance(resource, Queue) and isinstance(example.operation, Receive)
    return list(found.values())


def list_resources(system: System) -> list[Resource]:
    """Return every resource that the system declares, and those that only patterns name."""
    found = {_identify(path[0]): path[0] for path in list_declared(system)}
    for example in list_examples(system):
        for resource in _list_resources(example):
            found.setdefault(_identify(resource), resource)
    return list(found.values())


def list_sql_tables(system: System) -> list[str]:
    """Return the names of the SQL tables that the patterns use, sorted."""
    return sorted(each.name for each in list_resources(system) if isinstance(each, SqlTable))


def list_paths(example: Example) -> list[ResourcePath]:
    """Return the resources and indexes that a pattern touches, each once."""
    if example.operation is None:
        return []
    return list(dict.fromkeys(list_touched(example.operation)))


def find_patterns_of(resource: Resource, examples: Iterable[Example]) -> list[Example]:
    """Return the patterns that touch a resource."""
    wanted = _identify(resource)
    return [each for each in examples if wanted in map(_identify, _list_resources(each))]


def find_components_of(resource: Resource, accesses: Sequence[Access]) -> list[Access]:
    """Return the accesses of components to a resource."""
    wanted = _identify(resource)
    return [each for each in accesses if _identify(each.resource) == wanted]


def describe_resource(resource: Resource) -> str:
    """Return the kind of a resource as a word."""
    match resource:
        case Table():
            return "table"
        case Queue():
            return "queue"
        case SqlTable():
            return "SQL table"
        case CacheKeys():
            return "cache"
    return "bucket"


def _list_resources(example: Example) -> list[Resource]:
    """Return the resources that a pattern touches, each once, without their indexes."""
    return list(dict.fromkeys(path[0] for path in list_paths(example)))


def _identify(resource: Resource) -> tuple[str, str]:
    return type(resource).__name__, resource.name
