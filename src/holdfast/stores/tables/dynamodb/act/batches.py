"""BatchGetItem and BatchWriteItem: unprocessed entries are retried until all are done or the retries run out.

Entries that are still left are returned as unprocessed. Each put, delete and key is independent, so the
result of a completed part is kept: a retryable failure is raised only if the very first request fails.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from holdfast.core.errors import InvalidRequest, RetryLater
from holdfast.operations.tables import (
    BatchGetItem,
    BatchGetItemResult,
    BatchWrite,
    BatchWriteItem,
    BatchWriteItemResult,
    Delete,
    KeysOfTable,
    Put,
)
from holdfast.operations.values import Item
from holdfast.stores.tables.dynamodb import capacity
from holdfast.stores.tables.dynamodb.expiry import Expiry, expiry_of
from holdfast.stores.tables.dynamodb.expressions import expressed
from holdfast.stores.tables.dynamodb.repeats import Repeat
from holdfast.stores.tables.dynamodb.service import Answer, Request, Service
from holdfast.stores.tables.dynamodb.values import plain_item, tagged_item
from holdfast.stores.tables.throttling import tell_throttled


async def batch_get_item(operation: BatchGetItem, service: Service) -> BatchGetItemResult:
    asked = {request.table: request for request in operation.requests}
    if len(asked) < len(operation.requests):
        raise InvalidRequest("BatchGetItem.requests names a table twice: put its keys into one KeysOfTable")
    expiries = {table: await expiry_of(table, service) for table in asked if operation.hide_expired}
    wanted = {table: _wanted(request, expiries.get(table)) for table, request in asked.items()}
    common = capacity.asked(operation.capacity)
    answers, left = await _asked_until_done(
        "BatchGetItem", wanted, common, "UnprocessedKeys", "read", service
    )
    found: dict[str, list[Item]] = {
        table: _found(answers, request, expiries.get(table)) for table, request in asked.items()
    }
    unprocessed = tuple(
        replace(asked[table], keys=tuple(map(plain_item, rest["Keys"]))) for table, rest in left.items()
    )
    return BatchGetItemResult(found, unprocessed, capacity.summed(answers, "read", operation.capacity))


def _wanted(request: KeysOfTable, expiry: Expiry | None) -> Request:
    projection = request.projection if expiry is None else expiry.widened(request.projection)
    return {
        "Keys": [tagged_item(key) for key in request.keys],
        "ConsistentRead": request.consistent,
        **expressed(projection=projection),
    }


def _found(answers: list[Answer], request: KeysOfTable, expiry: Expiry | None) -> list[Item]:
    items = [
        plain_item(item) for answer in answers for item in answer.get("Responses", {}).get(request.table, ())
    ]
    if expiry is None:
        return items
    seen = (expiry.shown_of(item, request.projection) for item in items)
    return [item for item in seen if item is not None]


async def batch_write_item(operation: BatchWriteItem, service: Service) -> BatchWriteItemResult:
    wanted: dict[str, Any] = {}
    for write in operation.writes:
        wanted.setdefault(write.table, []).append(_write_request(write))
    common = capacity.asked(operation.capacity)
    answers, left = await _asked_until_done(
        "BatchWriteItem", wanted, common, "UnprocessedItems", "same", service
    )
    unprocessed = tuple(_write(table, request) for table, rest in left.items() for request in rest)
    return BatchWriteItemResult(unprocessed, capacity.summed(answers, "write", operation.capacity))


def _write_request(write: BatchWrite) -> Request:
    if isinstance(write, Put):
        return {"PutRequest": {"Item": tagged_item(write.item)}}
    return {"DeleteRequest": {"Key": tagged_item(write.key)}}


def _write(table: str, request: Request) -> BatchWrite:
    if "PutRequest" in request:
        return Put(table, plain_item(request["PutRequest"]["Item"]))
    return Delete(table, plain_item(request["DeleteRequest"]["Key"]))


async def _asked_until_done(
    action: str, wanted: dict[str, Any], common: Request, left_in: str, repeat: Repeat, service: Service
) -> tuple[list[Answer], dict[str, Any]]:
    """Return all responses, and the unprocessed rest of `wanted` in the form of a request."""
    patience = service.patience()
    answers: list[Answer] = []
    while wanted:
        request = {"RequestItems": wanted, **common}
        try:
            answer = await service.ask(action, request, repeat=repeat, patience=patience)
        except RetryLater:
            if not answers:
                raise
            break
        answers.append(answer)
        left = answer.get(left_in) or {}
        if action == "BatchWriteItem":
            # Throttling is the only reason for an unprocessed write. Keys have others too, such as the size
            # of the response.
            tell_throttled(_count(left), 0)
        if _count(left) < _count(wanted):
            patience.renew()
        wanted = left
        if wanted and not await patience.pause():
            break
    return answers, wanted


def _count(wanted: dict[str, Any]) -> int:
    return sum(len(each["Keys"]) if isinstance(each, dict) else len(each) for each in wanted.values())
