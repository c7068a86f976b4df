"""DynamoDB batches at a scripted endpoint that leaves entries unprocessed: they are resent or returned."""

from __future__ import annotations

from typing import Any, TypeVar

import pytest

from holdfast.core.errors import InvalidRequest, Throttled
from holdfast.operations.expressions.nodes import Path
from holdfast.operations.tables import (
    BatchGetItem,
    BatchWrite,
    BatchWriteItem,
    ConsumedCapacity,
    Delete,
    KeysAndAttributes,
    Operation,
    Put,
    Units,
)
from holdfast.operations.values import Item
from holdfast.stores.tables.dynamodb import Backoff, open_dynamodb

from .endpoints import FakePauses, Reply, error_reply, ok, run_scripted_endpoint

R = TypeVar("R")

PUTS = tuple(Put("Tab", {"pk": f"{n}"}) for n in range(5))
KEYS: tuple[Item, ...] = tuple({"pk": f"{n}"} for n in range(5))
GETS = BatchGetItem(
    requests=(KeysAndAttributes("Tab", KEYS, True, (Path("status"),), {"caller's": "words"}),)
)


async def run(url: str, operation: Operation[R], pauses: FakePauses, **backoff: Any) -> R:
    """Run one operation on a new engine, which never really waits."""

    made = open_dynamodb(endpoint=url, region="us-east-1", timing=pauses.timing, backoff=Backoff(**backoff))
    async with made as tables:
        return await tables.run(operation)


def one_at_a_time(action: str, request: dict[str, Any]) -> Reply:
    """Process the first entry and leave the rest; each call costs a unit."""
    [(table, wanted)] = request["RequestItems"].items()
    cost = [{"TableName": table, "CapacityUnits": 1.0, "Table": {"CapacityUnits": 1.0}}]
    if action == "BatchWriteItem":
        return ok(UnprocessedItems={table: wanted[1:]} if wanted[1:] else {}, ConsumedCapacity=cost)
    left = {table: {**wanted, "Keys": wanted["Keys"][1:]}} if wanted["Keys"][1:] else {}
    return ok(Responses={table: wanted["Keys"][:1]}, UnprocessedKeys=left, ConsumedCapacity=cost)


def nothing_after(rounds: int) -> Any:
    """Process one entry per call for `rounds` calls, and nothing afterwards."""
    left = [rounds]

    def answer(action: str, request: dict[str, Any]) -> Reply:
        left[0] -= 1
        if left[0] >= 0:
            return one_at_a_time(action, request)
        member = "UnprocessedKeys" if action == "BatchGetItem" else "UnprocessedItems"
        return ok(**{member: request["RequestItems"]})

    return answer


async def test_resends_unprocessed_writes_until_none_is_left() -> None:
    pauses = FakePauses()
    with run_scripted_endpoint(one_at_a_time) as (url, requests):
        result = await run(url, BatchWriteItem(writes=PUTS, capacity="TOTAL"), pauses)

    assert result.unprocessed == ()
    assert result.capacity == (ConsumedCapacity("Tab", Units(write=5.0)),)
    assert [len(request["RequestItems"]["Tab"]) for _, request in requests] == [5, 4, 3, 2, 1]
    # Each round made progress, so that the pauses do not grow.
    assert pauses == pytest.approx([0.05] * 4)


async def test_requests_unprocessed_keys_until_none_is_left() -> None:
    with run_scripted_endpoint(one_at_a_time) as (url, requests):
        result = await run(url, GETS, FakePauses())

    assert result.items == {"Tab": list(KEYS)}
    assert result.unprocessed == ()
    last = requests[-1][1]["RequestItems"]["Tab"]
    assert last == {
        "Keys": [{"pk": {"S": "4"}}],
        "ConsistentRead": True,
        "ProjectionExpression": "#n0",
        "ExpressionAttributeNames": {"#n0": "status"},
    }


async def test_returns_writes_that_stay_unprocessed() -> None:
    writes: tuple[BatchWrite, ...] = (*PUTS[:2], Delete("Tab", {"pk": "gone"}))
    pauses = FakePauses()
    with run_scripted_endpoint(nothing_after(1)) as (url, requests):
        result = await run(url, BatchWriteItem(writes=writes), pauses, max_attempts=4)

    assert result.unprocessed == writes[1:]
    assert len(requests) == 4
    assert pauses == pytest.approx([0.05, 0.1, 0.2])


async def test_returns_keys_that_stay_unprocessed() -> None:
    with run_scripted_endpoint(nothing_after(2)) as (url, _):
        result = await run(url, GETS, FakePauses(), max_attempts=3)

    assert result.items == {"Tab": list(KEYS[:2])}
    assert result.unprocessed == (
        KeysAndAttributes("Tab", KEYS[2:], True, (Path("status"),), {"caller's": "words"}),
    )


async def test_a_batch_does_not_outlast_its_deadline() -> None:
    with run_scripted_endpoint(one_at_a_time) as (url, requests):
        result = await run(
            url,
            BatchWriteItem(writes=PUTS),
            FakePauses(),
            first_pause_s_max=1.0,
            pause_s_max=1.0,
            deadline_s=2.5,
        )

    assert (len(requests), len(result.unprocessed)) == (3, 2)


async def test_throttling_midway_returns_the_rest_unprocessed() -> None:
    def answer(action: str, request: dict[str, Any]) -> Reply:
        whole = len(request["RequestItems"]["Tab"]) == len(PUTS)
        return one_at_a_time(action, request) if whole else error_reply("ThrottlingException")

    with run_scripted_endpoint(answer) as (url, _):
        result = await run(url, BatchWriteItem(writes=PUTS), FakePauses(), max_attempts=3)
    assert result.unprocessed == PUTS[1:]


async def test_throttling_from_the_start_is_an_error() -> None:
    with (
        run_scripted_endpoint(lambda *_: error_reply("ThrottlingException")) as (url, _),
        pytest.raises(Throttled),
    ):
        await run(url, BatchWriteItem(writes=PUTS), FakePauses(), max_attempts=3)


async def test_a_table_named_twice_is_refused() -> None:
    twice = BatchGetItem(requests=(KeysAndAttributes("Tab", KEYS[:1]), KeysAndAttributes("Tab", KEYS[1:])))

    with (
        run_scripted_endpoint(one_at_a_time) as (url, requests),
        pytest.raises(InvalidRequest, match="twice"),
    ):
        await run(url, twice, FakePauses())
    assert requests == []
