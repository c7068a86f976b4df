"""The tables store under test: its engine, and shortcuts for the operations of the tests."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from holdfast.operations.expressions import Placeholders, parse_condition, parse_projection, parse_update
from holdfast.operations.expressions.key_conditions import KeyCondition, split_key_condition
from holdfast.operations.expressions.nodes import Condition, Projection, Update
from holdfast.operations.tables import (
    CreateTable,
    DescribeTable,
    IndexDefinition,
    IndexProjection,
    KeyAttribute,
    KeySchema,
    Operation,
    Put,
    PutItem,
    TableDefinition,
    TableDescription,
)
from holdfast.operations.tables.schema import ProjectionKind
from holdfast.operations.values import Item
from holdfast.stores.tables.embedded import EmbeddedTables
from holdfast.stores.tables.port import Tables

R = TypeVar("R")

MAX_SETTLING_ROUNDS = 200
_NUMBERS = itertools.count()


class Store:
    """An engine under test.

    `settle` does the pending background work; for an endpoint without any it does nothing.
    """

    def __init__(self, engine: str, tables: Tables, settle: Callable[[], None] = lambda: None) -> None:
        self.engine, self.tables, self.settle = engine, tables, settle

    def run(self, operation: Operation[R]) -> R:
        return asyncio.run(self.tables.run(operation))

    def create(self, *keys: str, **parts: Any) -> str:
        """Create a table for a test, with keys as `name:type`, and return its name."""
        definition = table(f"T{os.getpid()}_{next(_NUMBERS)}", *keys, **parts)
        self.run(CreateTable(definition=definition))
        self.wait_until_active(definition.name)
        return definition.name

    def wait_until_active(self, name: str) -> TableDescription:
        """Return the table's description once it and all its indexes are ACTIVE."""
        for _ in range(MAX_SETTLING_ROUNDS):
            described = self.run(DescribeTable(table=name))
            if {described.status, *(state.status for state in described.global_indexes.values())} == {
                "ACTIVE"
            }:
                return described
            self.settle()
        raise AssertionError(f"{name} did not become ACTIVE")

    def put(self, name: str, *items: Any) -> None:
        for item in items:
            self.run(PutItem(table=name, item=item))


@contextmanager
def run_embedded_store(engine: str, tables: EmbeddedTables) -> Iterator[Store]:
    """Yield the embedded tables as a store under test; close them at the end."""
    with tables:
        yield Store(engine, tables, tables.sweep)


# --- definitions --------------------------------------------------------------------------------------------


def table(
    name: str,
    *keys: str,
    gsi: tuple[IndexDefinition, ...] = (),
    lsi: tuple[IndexDefinition, ...] = (),
    attributes: tuple[str, ...] = (),
    **more: Any,
) -> TableDefinition:
    """Return a table definition; keys and attributes are given as `name:type`, such as `pk:S`."""
    types = dict(each.split(":") for each in (*keys, *attributes))
    return TableDefinition(
        name,
        tuple(KeyAttribute(attribute, kind) for attribute, kind in types.items()),  # type: ignore[arg-type]
        KeySchema(*(key.partition(":")[0] for key in keys)),
        lsi,
        gsi,
        **more,
    )


def index(
    name: str, *keys: str, kind: ProjectionKind = "ALL", include: tuple[str, ...] = ()
) -> IndexDefinition:
    """Return an index definition; `include` names the projected attributes."""
    return IndexDefinition(name, KeySchema(*keys), IndexProjection(kind, include))


# --- expressions --------------------------------------------------------------------------------------------


def condition(text: str, **values: Any) -> Condition:
    """Parse a condition; the values replace its placeholders `:name`."""
    return parse_condition(text, "ConditionExpression", _placeholders(values))


def key_condition(text: str, **values: Any) -> KeyCondition:
    """Parse a key condition; the values replace its placeholders `:name`."""
    return split_key_condition(parse_condition(text, "KeyConditionExpression", _placeholders(values)))


def update(text: str, **values: Any) -> Update:
    """Parse an update; the values replace its placeholders `:name`."""
    return parse_update(text, _placeholders(values))


def projection(text: str) -> Projection:
    return parse_projection(text, Placeholders())


def _placeholders(values: dict[str, Any]) -> Placeholders:
    return Placeholders(None, {f":{name}": value for name, value in values.items()} or None)


def puts(name: str, items: list[Item]) -> tuple[Put, ...]:
    return tuple(Put(name, item) for item in items)
