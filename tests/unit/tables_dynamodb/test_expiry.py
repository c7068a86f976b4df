"""Items whose life is over by the engine's clock and which the service still has."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any, TypeVar

import pytest
from msgspec.structs import replace

from holdfast.core.errors import InvalidRequest
from holdfast.operations.expressions.key_conditions import KeyTest
from holdfast.operations.expressions.nodes import Compare, Literal, Path
from holdfast.operations.tables import (
    CreateTable,
    GetItem,
    IndexDefinition,
    IndexProjection,
    KeyAttribute,
    KeySchema,
    Operation,
    PutItem,
    Query,
    Scan,
    TableDefinition,
    UpdateTimeToLive,
)
from holdfast.operations.values import Item
from holdfast.stores.tables.dynamodb import DynamoDBTables, open_dynamodb
from holdfast.stores.tables.embedded import open_tables
from holdfast.wire.server import running_server

from .endpoints import Asked, Reply, ok, scripted

R = TypeVar("R")

HOUR = 3600
# The server lives now, the engine two hours later: the server has no reason to remove anything.
SERVER_NOW = int(time.time())
NOW = SERVER_NOW + 2 * HOUR
TABLE = TableDefinition(
    "Tab",
    (KeyAttribute("pk", "S"), KeyAttribute("sk", "S"), KeyAttribute("ends", "N")),
    KeySchema("pk", "sk"),
    local_indexes=(IndexDefinition("by_end", KeySchema("pk", "ends"), IndexProjection("ALL")),),
)
ITEMS: list[Item] = [
    {"pk": "a", "sk": "over", "ends": NOW, "x": 1},
    {"pk": "a", "sk": "last second", "ends": NOW + 1, "x": 2},
    {"pk": "a", "sk": "lasting", "ends": NOW + HOUR, "x": 3},
]
BY_END = Query(
    table="Tab", index="by_end", key_condition=(KeyTest("pk", "=", ("a",)),), hide_expired=True, limit=10
)


class Clock:
    def __init__(self) -> None:
        self.time = NOW + 0.5

    def now(self) -> float:
        return self.time


class Opened:
    def __init__(self, tables: DynamoDBTables, clock: Clock) -> None:
        self.tables, self.clock = tables, clock

    def run(self, operation: Operation[R]) -> R:
        return asyncio.run(self.tables.run(operation))


@pytest.fixture(scope="module")
def later() -> Iterator[Opened]:
    clock = Clock()
    with open_tables() as behind, running_server(tables=behind) as url:
        behind.run_blocking(CreateTable(definition=TABLE))
        behind.run_blocking(UpdateTimeToLive(table="Tab", attribute="ends", enabled=True))
        for item in ITEMS:
            behind.run_blocking(PutItem(table="Tab", item=item))
        tables = open_dynamodb(endpoint=url, clock=clock)
        yield Opened(tables, clock)
        tables.close()


def shown(items: list[Item] | None) -> list[Any]:
    return sorted(str(item["sk"]) for item in items or ())


def test_the_second_of_the_end_is_over_and_the_next_is_not(later: Opened) -> None:
    for item in ITEMS:
        key: Item = {"pk": "a", "sk": item["sk"]}
        assert later.run(GetItem(table="Tab", key=key)).item == item
        hidden = later.run(GetItem(table="Tab", key=key, hide_expired=True)).item
        assert hidden == (None if item["sk"] == "over" else item)


def test_a_filter_of_the_service_hides_them(later: Opened) -> None:
    page = later.run(Scan(table="Tab", hide_expired=True))

    assert shown(page.items) == ["last second", "lasting"]
    assert (page.count, page.scanned_count) == (2, 3)


def test_they_are_hidden_here_where_their_end_is_a_key(later: Opened) -> None:
    page = later.run(BY_END)
    assert shown(page.items) == ["last second", "lasting"]
    assert (page.count, page.scanned_count) == (2, 3)

    counted = later.run(replace(BY_END, select="COUNT"))
    assert (counted.items, counted.count, counted.scanned_count) == (None, 2, 3)
    projected = later.run(replace(BY_END, projection=(Path("x"),)))
    assert projected.items == [{"x": 2}, {"x": 3}]
    filtered = later.run(replace(BY_END, filter=Compare(">", Path("x"), Literal(2))))
    assert shown(filtered.items) == ["lasting"]


def test_a_query_that_is_wrong_for_another_reason_stays_refused(later: Opened) -> None:
    with pytest.raises(InvalidRequest, match="nothing"):
        later.run(replace(BY_END, index="nothing"))


def lifetimes_told() -> tuple[list[str], Any]:
    """An endpoint on which the lifetimes of a table can change."""
    attribute = ["ends"]

    def answer(action: str, request: dict[str, Any]) -> Reply:
        if action == "DescribeTimeToLive":
            return ok(TimeToLiveDescription={"TimeToLiveStatus": "ENABLED", "AttributeName": attribute[0]})
        if action == "UpdateTimeToLive":
            return ok(TimeToLiveSpecification=request["TimeToLiveSpecification"])
        return ok(Item={"pk": {"S": "a"}, "ends": {"N": "1"}, "until": {"N": str(NOW)}})

    return attribute, answer


def asked_for_lifetimes(asked: Asked) -> int:
    return asked.actions.count("DescribeTimeToLive")


def test_the_attribute_is_asked_for_once_in_a_while() -> None:
    attribute, answer = lifetimes_told()
    clock = Clock()
    get = GetItem(table="Tab", key={"pk": "a"}, hide_expired=True)
    with scripted(answer) as (url, asked):
        tables = open_dynamodb(endpoint=url, clock=clock)
        later = Opened(tables, clock)
        for _ in range(3):
            assert later.run(get).item is not None
        assert asked_for_lifetimes(asked) == 1

        attribute[0] = "until"
        clock.time += 61
        assert later.run(get).item is None
        assert asked_for_lifetimes(asked) == 2

        later.run(UpdateTimeToLive(table="Tab", attribute="until", enabled=True))
        later.run(get)
        assert asked_for_lifetimes(asked) == 3
        tables.close()


def test_nobody_asks_who_does_not_want_to_know() -> None:
    _, answer = lifetimes_told()
    with scripted(answer) as (url, asked):
        tables = open_dynamodb(endpoint=url)
        Opened(tables, Clock()).run(GetItem(table="Tab", key={"pk": "a"}))
        tables.close()

    assert asked.actions == ["GetItem"]
