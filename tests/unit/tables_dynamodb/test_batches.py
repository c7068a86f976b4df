"""Batches of which the service leaves something undone: asked again, and told when patience ends."""

from __future__ import annotations

import asyncio
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
    KeysOfTable,
    Operation,
    Put,
    Units,
)
from holdfast.operations.values import Item
from holdfast.stores.tables.dynamodb import Backoff, open_dynamodb

from .endpoints import Pauses, Reply, ok, refused, scripted

R = TypeVar("R")

PUTS = tuple(Put("Tab", {"pk": f"{n}"}) for n in range(5))
KEYS: tuple[Item, ...] = tuple({"pk": f"{n}"} for n in range(5))
GETS = BatchGetItem(requests=(KeysOfTable("Tab", KEYS, True, (Path("status"),), {"caller's": "words"}),))


def run(url: str, operation: Operation[R], pauses: Pauses, **backoff: Any) -> R:
    async def opened() -> R:
        made = open_dynamodb(
            endpoint=url, region="us-east-1", waiting=pauses.waiting, backoff=Backoff(**backoff)
        )
        async with made as tables:
            return await tables.run(operation)

    return asyncio.run(opened())


def one_at_a_time(action: str, request: dict[str, Any]) -> Reply:
    """Does the first of what is asked and leaves the rest; each time it costs a unit."""
    [(table, wanted)] = request["RequestItems"].items()
    cost = [{"TableName": table, "CapacityUnits": 1.0, "Table": {"CapacityUnits": 1.0}}]
    if action == "BatchWriteItem":
        return ok(UnprocessedItems={table: wanted[1:]} if wanted[1:] else {}, ConsumedCapacity=cost)
    left = {table: {**wanted, "Keys": wanted["Keys"][1:]}} if wanted["Keys"][1:] else {}
    return ok(Responses={table: wanted["Keys"][:1]}, UnprocessedKeys=left, ConsumedCapacity=cost)


def nothing_after(rounds: int) -> Any:
    """One at a time at first, and then nothing any more."""
    left = [rounds]

    def answer(action: str, request: dict[str, Any]) -> Reply:
        left[0] -= 1
        if left[0] >= 0:
            return one_at_a_time(action, request)
        member = "UnprocessedKeys" if action == "BatchGetItem" else "UnprocessedItems"
        return ok(**{member: request["RequestItems"]})

    return answer


def test_writes_that_were_left_are_sent_until_none_is() -> None:
    pauses = Pauses()
    with scripted(one_at_a_time) as (url, asked):
        result = run(url, BatchWriteItem(writes=PUTS, capacity="TOTAL"), pauses)

    assert result.unprocessed == ()
    assert result.capacity == (ConsumedCapacity("Tab", Units(write=5.0)),)
    assert [len(request["RequestItems"]["Tab"]) for _, request in asked] == [5, 4, 3, 2, 1]
    # Each round made progress, so that the pauses do not grow.
    assert pauses == pytest.approx([0.05] * 4)


def test_keys_that_were_left_are_asked_for_until_none_is() -> None:
    with scripted(one_at_a_time) as (url, asked):
        result = run(url, GETS, Pauses())

    assert result.items == {"Tab": list(KEYS)}
    assert result.unprocessed == ()
    last = asked[-1][1]["RequestItems"]["Tab"]
    assert last == {
        "Keys": [{"pk": {"S": "4"}}],
        "ConsistentRead": True,
        "ProjectionExpression": "#n0",
        "ExpressionAttributeNames": {"#n0": "status"},
    }


def test_writes_that_stay_undone_are_handed_back() -> None:
    writes: tuple[BatchWrite, ...] = (*PUTS[:2], Delete("Tab", {"pk": "gone"}))
    pauses = Pauses()
    with scripted(nothing_after(1)) as (url, asked):
        result = run(url, BatchWriteItem(writes=writes), pauses, attempts_max=4)

    assert result.unprocessed == writes[1:]
    assert len(asked) == 4
    assert pauses == pytest.approx([0.05, 0.1, 0.2])


def test_keys_that_stay_unread_are_handed_back_as_they_were_asked_for() -> None:
    with scripted(nothing_after(2)) as (url, _):
        result = run(url, GETS, Pauses(), attempts_max=3)

    assert result.items == {"Tab": list(KEYS[:2])}
    assert result.unprocessed == (
        KeysOfTable("Tab", KEYS[2:], True, (Path("status"),), {"caller's": "words"}),
    )


def test_a_batch_does_not_outlast_its_deadline() -> None:
    with scripted(one_at_a_time) as (url, asked):
        result = run(
            url, BatchWriteItem(writes=PUTS), Pauses(), first_pause_s_max=1.0, pause_s_max=1.0, deadline_s=2.5
        )

    assert (len(asked), len(result.unprocessed)) == (3, 2)


def test_throttling_in_the_middle_hands_back_what_is_left() -> None:
    def answer(action: str, request: dict[str, Any]) -> Reply:
        whole = len(request["RequestItems"]["Tab"]) == len(PUTS)
        return one_at_a_time(action, request) if whole else refused("ThrottlingException")

    with scripted(answer) as (url, _):
        result = run(url, BatchWriteItem(writes=PUTS), Pauses(), attempts_max=3)
    assert result.unprocessed == PUTS[1:]


def test_throttling_from_the_start_is_an_error() -> None:
    with scripted(lambda *_: refused("ThrottlingException")) as (url, _), pytest.raises(Throttled):
        run(url, BatchWriteItem(writes=PUTS), Pauses(), attempts_max=3)


def test_a_table_named_twice_is_refused() -> None:
    twice = BatchGetItem(requests=(KeysOfTable("Tab", KEYS[:1]), KeysOfTable("Tab", KEYS[1:])))

    with scripted(one_at_a_time) as (url, asked), pytest.raises(InvalidRequest, match="twice"):
        run(url, twice, Pauses())
    assert asked == []
