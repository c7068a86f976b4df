"""Call every pattern with its declared example and keep the operation it builds, or the error.

No operation is run. All reports start here: the operation shows what a pattern does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from holdfast.core.errors import error_label, format_message
from holdfast.model.entities.reads import BatchGet, CountQuery, ParallelQuery
from holdfast.model.entities.writes import BatchPut, Transact
from holdfast.model.operations import Operation
from holdfast.model.patterns import Pattern
from holdfast.model.sql import SqlTransact
from holdfast.model.system import System
from holdfast.reports.resources import get_resource


@dataclass(frozen=True)
class Example:
    """A pattern and the operation that its example builds; `error` says why there is no operation."""

    pattern: Pattern[..., Any]
    operation: Operation[Any] | None = None
    error: str | None = None

    @property
    def parts(self) -> tuple[Operation[Any], ...]:
        """The single operations that the operation consists of; empty if there is none."""
        return () if self.operation is None else tuple(iter_parts(self.operation))

    @property
    def writes(self) -> bool:
        """True if the operation writes."""
        return self.operation is not None and self.operation.writes

    @property
    def resource_names(self) -> tuple[str, ...]:
        """The logical names of the tables, queues, buckets, SQL tables and cache keys touched."""
        resources = (get_resource(part) for part in self.parts)
        return tuple(dict.fromkeys(each.name for each in resources if each is not None))

    @property
    def tables(self) -> tuple[str, ...]:
        """The logical names of the DynamoDB tables that the operation touches."""
        return tuple(dict.fromkeys(part.table.name for part in self.parts if part.table is not None))

    @property
    def indexes(self) -> tuple[str, ...]:
        """The names of the indexes that the operation reads."""
        return tuple(dict.fromkeys(part.index.name for part in self.parts if part.index is not None))


def list_examples(system: System) -> tuple[Example, ...]:
    """Return the example of every pattern, in declaration order."""
    return tuple(build_example(pattern) for pattern in system.patterns)


def build_example(pattern: Pattern[..., Any]) -> Example:
    """Call the pattern with its example. An error is kept in the result, not raised."""
    try:
        return Example(pattern, pattern.build_example())
    except Exception as error:  # the report shows any error that the pattern's own code raises
        return Example(pattern, error=format_error(error))


def iter_parts(operation: Operation[Any]) -> Iterator[Operation[Any]]:
    """Yield the parts of a transaction, a batch, a count or a parallel query; any other operation is its own
    part.
    """
    match operation:
        case Transact():
            for action in operation.actions:
                yield from iter_parts(action)
        case ParallelQuery():
            yield from operation.queries
        case BatchGet():
            yield from operation.gets
        case BatchPut():
            yield from operation.puts
        case SqlTransact():
            yield from operation.actions
        case CountQuery():
            yield operation.query
        case _:
            yield operation


def format_error(error: BaseException) -> str:
    """Format an error as one line; for an exception group, its first error."""
    if isinstance(error, BaseExceptionGroup):
        return format_error(error.exceptions[0])
    text = " ".join(format_message(error).split())
    return f"{error_label(error)}: {text}" if text else error_label(error)
