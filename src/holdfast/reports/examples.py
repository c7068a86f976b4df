"""Every pattern called with its example: the operation it makes, or why it makes none. Nothing is run.

The first step of every report: what a pattern does is read from the operation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from holdfast.errors import error_label
from holdfast.model.operations import Operation
from holdfast.model.patterns import Pattern
from holdfast.model.reads import BatchGet, CountOf, Parallel
from holdfast.model.sql import SqlTransact
from holdfast.model.system import System
from holdfast.model.writes import BatchPut, Transact
from holdfast.reports.places import resource_of


@dataclass(frozen=True)
class Example:
    """A pattern and the operation its example makes; `error` says why there is none."""

    pattern: Pattern[..., Any]
    operation: Operation[Any] | None = None
    error: str | None = None

    @property
    def parts(self) -> tuple[Operation[Any], ...]:
        return () if self.operation is None else tuple(parts(self.operation))

    @property
    def writes(self) -> bool:
        return self.operation is not None and self.operation.writes

    @property
    def places(self) -> tuple[str, ...]:
        """The tables, queues, buckets, tables of SQL and keys of the cache, by their logical names."""
        resources = (resource_of(part) for part in self.parts)
        return tuple(dict.fromkeys(each.name for each in resources if each is not None))

    @property
    def tables(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(part.table.name for part in self.parts if part.table is not None))

    @property
    def indexes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(part.index.name for part in self.parts if part.index is not None))


def examples_of(system: System) -> tuple[Example, ...]:
    """One for each pattern, in the order they are declared."""
    return tuple(example_of(pattern) for pattern in system.patterns)


def example_of(pattern: Pattern[..., Any]) -> Example:
    try:
        return Example(pattern, pattern.example())
    except Exception as error:  # whatever a pattern's own code raises is what the report tells
        return Example(pattern, error=told(error))


def parts(operation: Operation[Any]) -> Iterator[Operation[Any]]:
    """What an operation is made of: the actions of a transaction, the gets of a batch, the query of a count."""
    match operation:
        case Transact():
            for action in operation.actions:
                yield from parts(action)
        case Parallel():
            yield from operation.queries
        case BatchGet():
            yield from operation.gets
        case BatchPut():
            yield from operation.puts
        case SqlTransact():
            yield from operation.actions
        case CountOf():
            yield operation.query
        case _:
            yield operation


def told(error: BaseException) -> str:
    """An error in one line; of several at once, the first."""
    if isinstance(error, BaseExceptionGroup):
        return told(error.exceptions[0])
    text = " ".join(" ".join([str(error), *getattr(error, "__notes__", [])]).split())
    return f"{error_label(error)}: {text}" if text else error_label(error)
