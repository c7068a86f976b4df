"""`hide_expired` on DynamoDB: items that are expired by the engine's clock and that the service still has."""

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
from holdfast.wire.http.server import start_server

from .endpoints import ReceivedRequests, Reply, ok, run_scripted_endpoint

R = TypeVar("R")

HOUR = 3600
# The engine's clock is two hours ahead of the server's, so the server removes nothing.
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


class FakeClock:
    """A clock that a test sets by hand, half a second after `NOW`."""

    def __init__(self) -> None:
        self.time = NOW + 0.5

    def now(self) -> float:
        return self.time


class LaterEngine:
    """A DynamoDB engine whose clock is two hours ahead of the server's."""

    def __init__(self, tables: DynamoDBTables, clock: FakeClock) -> None:
        self.tables, self.clock = tables, clock

    def run(self, operation: Operation[R]) -> R:
        return asyncio.run(self.tables.run(operation))


@pytest.fixture(scope="module")
def later_engine() -> Iterator[LaterEngine]:
    """Yield the engine at our server, with a table of three items of which one has expired."""
    clock = FakeClock()
    with open_tables() as behind, start_server(tables=behind) as url:
        behind.run_blocking(CreateTable(definition=TABLE))
        behind.run_blocking(UpdateTimeToLive(table="Tab", attribute="ends", enabled=True))
        for item in ITEMS:
            behind.run_blocking(PutItem(table="Tab", item=item))
        tables = open_dynamodb(endpoint=url, clock=clock)
        yield LaterEngine(tables, clock)
        tables.close()


def sort_keys_of(items: list[Item] | None) -> list[Any]:
    return sorted(str(item["sk"]) for item in items or ())


def test_item_expires_in_the_second_of_its_end(later_engine: LaterEngine) -> None:
    for item in ITEMS:
        key: Item = {"pk": "a", "sk": item["sk"]}
        assert later_engine.run(GetItem(table="Tab", key=key)).item == item
        hidden = later_engine.run(GetItem(table="Tab", key=key, hide_expired=True)).item
        assert hidden == (None if item["sk"] == "over" else item)


def test_service_filter_hides_expired_items(later_engine: LaterEngine) -> None:
    page = later_engine.run(Scan(table="Tab", hide_expired=True))

    assert sort_keys_of(page.items) == ["last second", "lasting"]
    assert (page.count, page.scanned_count) == (2, 3)


def test_engine_hides_expired_items_when_the_expiry_is_a_key(later_engine: LaterEngine) -> None:
    page = later_engine.run(BY_END)
    assert sort_keys_of(page.items) == ["last second", "lasting"]
    assert (page.count, page.scanned_count) == (2, 3)

    counted = later_engine.run(replace(BY_END, select="COUNT"))
    assert (counted.items, counted.count, counted.scanned_count) == (None, 2, 3)
    projected = later_engine.run(replace(BY_END, projection=(Path("x"),)))
    assert projected.items == [{"x": 2}, {"x": 3}]
    filtered = later_engine.run(replace(BY_END, filter=Compare(">", Path("x"), Literal(2))))
    assert sort_keys_of(filtered.items) == ["lasting"]


def test_query_with_another_error_stays_refused(later_engine: LaterEngine) -> None:
    with pytest.raises(InvalidRequest, match="nothing"):
        later_engine.run(replace(BY_END, index="nothing"))


def make_ttl_endpoint() -> tuple[list[str], Any]:
    """Return a list with the time-to-live attribute, which a test may change, and the script that answers by
    it.
    """
    attribute = ["ends"]

    def answer(action: str, request: dict[str, Any]) -> Reply:
        if action == "DescribeTimeToLive":
            return ok(TimeToLiveDescription={"TimeToLiveStatus": "ENABLED", "AttributeName": attribute[0]})
        if action == "UpdateTimeToLive":
            return ok(TimeToLiveSpecification=request["TimeToLiveSpecification"])
        return ok(Item={"pk": {"S": "a"}, "ends": {"N": "1"}, "until": {"N": str(NOW)}})

    return attribute, answer


def count_ttl_requests(requests: ReceivedRequests) -> int:
    """Count the requests for the table's time to live."""
    return requests.actions.count("DescribeTimeToLive")


def test_ttl_attribute_is_cached_for_a_while() -> None:
    attribute, answer = make_ttl_endpoint()
    clock = FakeClock()
    get = GetItem(table="Tab", key={"pk": "a"}, hide_expired=True)
    with run_scripted_endpoint(answer) as (url, requests):
        tables = open_dynamodb(endpoint=url, clock=clock)
        later_engine = LaterEngine(tables, clock)
        for _ in range(3):
            assert later_engine.run(get).item is not None
        assert count_ttl_requests(requests) == 1

        attribute[0] = "until"
        clock.time += 61
        assert later_engine.run(get).item is None
        assert count_ttl_requests(requests) == 2

        later_engine.run(UpdateTimeToLive(table="Tab", attribute="until", enabled=True))
        later_engine.run(get)
        assert count_ttl_requests(requests) == 3
        tables.close()


def test_no_ttl_request_without_hiding() -> None:
    _, answer = make_ttl_endpoint()
    with run_scripted_endpoint(answer) as (url, requests):
        tables = open_dynamodb(endpoint=url)
        LaterEngine(tables, FakeClock()).run(GetItem(table="Tab", key={"pk": "a"}))
        tables.close()

    assert requests.actions == ["GetItem"]
