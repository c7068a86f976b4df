"""Throttling that the DynamoDB engine waits out: no caller sees it, and the metrics tell each attempt."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from holdfast import Operation, Stores, batch_put, transact
from holdfast.core.errors import Throttled
from holdfast.runtime.telemetry.metrics import Metrics
from holdfast.stores.tables.dynamodb import open_dynamodb
from tests.unit.mcp import harbour
from tests.unit.mcp.harbour import SYSTEM, Ship
from tests.unit.tables_dynamodb.endpoints import Pauses, Reply, ok, refused, scripted

SLOW_DOWN = refused("ThrottlingException", "slow down")
FOUND = ok(Item={"shipId": {"S": "S1"}, "berth": {"S": "B1"}})
NAMES = ("ReadThrottleEvents", "WriteThrottleEvents", "ThrottledRequests")


def throttles_counted(operation: Operation[Any], *replies: Reply) -> list[float]:
    """What the metrics say after the operation, which the endpoint answers with these; the last again and again."""
    left = list(replies)

    def script(*_: Any) -> Reply:
        return left.pop(0) if len(left) > 1 else left[0]

    return _counted(operation, script)


def _counted(operation: Operation[Any], script: Callable[..., Reply]) -> list[float]:
    async def story(url: str) -> list[float]:
        async with open_dynamodb(endpoint=url, region="us-east-1", waiting=Pauses().waiting) as tables:
            stores = Stores(tables, system=SYSTEM)
            metrics = Metrics(stores)
            with suppress(Throttled):
                await stores.run(operation)
            return [metrics.value(name) for name in NAMES]

    with scripted(script) as (url, _):
        return asyncio.run(story(url))


def test_attempts_that_were_waited_out_are_counted() -> None:
    assert throttles_counted(harbour.ship("S1"), SLOW_DOWN, SLOW_DOWN, FOUND) == [2, 0, 2]


def test_what_was_not_throttled_is_not_counted() -> None:
    assert throttles_counted(harbour.ship("S1"), FOUND) == [0, 0, 0]


def test_one_that_never_passes_counts_each_of_its_attempts_once() -> None:
    assert throttles_counted(harbour.arrive("S1", "B1"), SLOW_DOWN) == [0, 8, 8]


def test_a_transaction_counts_the_actions_that_were_throttled_and_itself_once() -> None:
    reasons = [{"Code": "ThrottlingError"}, {"Code": "None"}, {"Code": "ThrottlingError"}]
    cancelled = refused("TransactionCanceledException", CancellationReasons=reasons)
    three = transact(*(harbour.arrive(f"S{number}", "B1") for number in range(3)))

    assert throttles_counted(three, cancelled, ok()) == [0, 2, 1]


def test_what_is_left_over_of_a_batch_of_writes_is_an_event_each_and_no_throttled_request() -> None:
    puts = batch_put([Ship.put(Ship(ship_id=f"S{number}", berth="B1")) for number in range(3)])

    def first_only(_: str, request: dict[str, Any]) -> Reply:
        [(table, wanted)] = request["RequestItems"].items()
        return ok(UnprocessedItems={table: wanted[1:]} if wanted[1:] else {})

    assert _counted(puts, first_only) == [0, 2 + 1, 0]


def test_a_usage_tells_the_throttles_of_its_request_alone() -> None:
    left = [SLOW_DOWN, FOUND]

    async def story(url: str) -> list[tuple[int, int]]:
        async with open_dynamodb(endpoint=url, region="us-east-1", waiting=Pauses().waiting) as tables:
            stores = Stores(tables, system=SYSTEM)
            with stores.meter_usage() as meter:
                await stores.run(harbour.ship("S1"))
                await stores.run(harbour.ship("S1"))
            return [(usage.throttle_events, usage.throttled_requests) for usage in meter.usages]

    with scripted(lambda *_: left.pop(0) if len(left) > 1 else left[0]) as (url, _):
        assert asyncio.run(story(url)) == [(1, 1), (0, 0)]
