"""Throttles that the DynamoDB engine retries, against a scripted HTTP endpoint: each attempt is counted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from holdfast import Stores, batch_put, transact
from holdfast.core.errors import Throttled
from holdfast.model.operations import Operation
from holdfast.runtime.telemetry.metrics import Metrics
from holdfast.stores.tables.dynamodb import open_dynamodb
from tests.unit.mcp import harbour
from tests.unit.mcp.harbour import SYSTEM, Ship
from tests.unit.stores.tables.dynamodb.endpoints import (
    FakePauses,
    Reply,
    error_reply,
    ok,
    run_scripted_endpoint,
)

SLOW_DOWN = error_reply("ThrottlingException", "slow down")
FOUND = ok(Item={"shipId": {"S": "S1"}, "berth": {"S": "B1"}})
NAMES = ("ReadThrottleEvents", "WriteThrottleEvents", "ThrottledRequests")


def count_throttles(operation: Operation[Any], *replies: Reply) -> list[float]:
    """Run the operation against these replies, repeating the last, and return the throttle metrics."""
    left = list(replies)

    def script(*_: Any) -> Reply:
        return left.pop(0) if len(left) > 1 else left[0]

    return _run_and_count(operation, script)


def _run_and_count(operation: Operation[Any], script: Callable[..., Reply]) -> list[float]:
    """Run the operation against the scripted endpoint and return the throttle metrics."""

    async def story(url: str) -> list[float]:
        async with open_dynamodb(endpoint=url, region="us-east-1", timing=FakePauses().timing) as tables:
            stores = Stores(tables, system=SYSTEM)
            metrics = Metrics(stores)
            with suppress(Throttled):
                await stores.run(operation)
            return [metrics.value(name) for name in NAMES]

    with run_scripted_endpoint(script) as (url, _):
        return asyncio.run(story(url))


def test_counts_retried_attempts() -> None:
    assert count_throttles(harbour.ship("S1"), SLOW_DOWN, SLOW_DOWN, FOUND) == [2, 0, 2]


def test_does_not_count_unthrottled_requests() -> None:
    assert count_throttles(harbour.ship("S1"), FOUND) == [0, 0, 0]


def test_counts_each_attempt_of_a_request_that_never_passes_once() -> None:
    assert count_throttles(harbour.arrive("S1", "B1"), SLOW_DOWN) == [0, 8, 8]


def test_counts_throttled_actions_of_a_transaction_and_the_transaction_once() -> None:
    reasons = [{"Code": "ThrottlingError"}, {"Code": "None"}, {"Code": "ThrottlingError"}]
    cancelled = error_reply("TransactionCanceledException", CancellationReasons=reasons)
    three = transact(*(harbour.arrive(f"S{number}", "B1") for number in range(3)))

    assert count_throttles(three, cancelled, ok()) == [0, 2, 1]


def test_unprocessed_batch_items_count_as_events_and_not_as_throttled_requests() -> None:
    puts = batch_put([Ship.put(Ship(ship_id=f"S{number}", berth="B1")) for number in range(3)])

    def first_only(_: str, request: dict[str, Any]) -> Reply:
        [(table, wanted)] = request["RequestItems"].items()
        return ok(UnprocessedItems={table: wanted[1:]} if wanted[1:] else {})

    assert _run_and_count(puts, first_only) == [0, 2 + 1, 0]


def test_usage_reports_only_the_throttles_of_its_request() -> None:
    left = [SLOW_DOWN, FOUND]

    async def story(url: str) -> list[tuple[int, int]]:
        async with open_dynamodb(endpoint=url, region="us-east-1", timing=FakePauses().timing) as tables:
            stores = Stores(tables, system=SYSTEM)
            with stores.meter_usage() as meter:
                await stores.run(harbour.ship("S1"))
                await stores.run(harbour.ship("S1"))
            return [(usage.throttle_events, usage.throttled_requests) for usage in meter.usages]

    with run_scripted_endpoint(lambda *_: left.pop(0) if len(left) > 1 else left[0]) as (url, _):
        assert asyncio.run(story(url)) == [(1, 1), (0, 0)]
