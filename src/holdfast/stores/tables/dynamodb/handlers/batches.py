"""Handlers of BatchGetItem and BatchWriteItem on DynamoDB, which retry unprocessed entries.

Entries that are still left when the retries run out are returned as unprocessed. Each put, delete and key is
independent, so the result of a completed part is kept: a retryable failure is raised only if the very first
request fails.
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
    KeysAndAttributes,
    Put,
)
from holdfast.operations.values import Item
from holdfast.stores.tables.dynamodb import capacity
from holdfast.stores.tables.dynamodb.expiry import Expiry, load_expiry
from holdfast.stores.tables.dynamodb.expressions import encode_expressions
from holdfast.stores.tables.dynamodb.repeats import RepeatPolicy
from holdfast.stores.tables.dynamodb.service import Request, Response, Service
from holdfast.stores.tables.dynamodb.values import decode_item, encode_item
from holdfast.stores.tables.throttle_counts import report_throttles


async def batch_get_item(operation: BatchGetItem, service: Service) -> BatchGetItemResult:
    """Read the items of several tables. Raise `InvalidRequest` if two requests name the same table."""
    requests = {request.table: request for request in operation.requests}
    if len(requests) < len(operation.requests):
        raise InvalidRequest(
            "BatchGetItem.requests names a table twice: put its keys into one KeysAndAttributes"
        )
    expiries = {table: await load_expiry(table, service) for table in requests if operation.hide_expired}
    wanted = {table: _encode_keys(request, expiries.get(table)) for table, request in requests.items()}
    common = capacity.encode_detail(operation.capacity)
    responses, left = await _send_until_done(
        "BatchGetItem", wanted, common, "UnprocessedKeys", "read", service
    )
    found: dict[str, list[Item]] = {
        table: _decode_items(responses, request, expiries.get(table)) for table, request in requests.items()
    }
    unprocessed = tuple(
        replace(requests[table], keys=tuple(map(decode_item, rest["Keys"]))) for table, rest in left.items()
    )
    return BatchGetItemResult(
        found, unprocessed, capacity.sum_by_table(responses, "read", operation.capacity)
    )


def _encode_keys(request: KeysAndAttributes, expiry: Expiry | None) -> Request:
    """Return the request for one table, with the lifetime attribute in its projection if expired items are
    hidden.
    """
    projection = request.projection if expiry is None else expiry.widen_projection(request.projection)
    return {
        "Keys": [encode_item(key) for key in request.keys],
        "ConsistentRead": request.consistent,
        **encode_expressions(projection=projection),
    }


def _decode_items(responses: list[Response], request: KeysAndAttributes, expiry: Expiry | None) -> list[Item]:
    """Return the items of the request's table from all responses, without expired ones."""
    items = [
        decode_item(item)
        for response in responses
        for item in response.get("Responses", {}).get(request.table, ())
    ]
    if expiry is None:
        return items
    visible = (expiry.project_visible(item, request.projection) for item in items)
    return [item for item in visible if item is not None]


async def batch_write_item(operation: BatchWriteItem, service: Service) -> BatchWriteItemResult:
    """Put and delete items of several tables; writes that stay unprocessed are returned."""
    wanted: dict[str, Any] = {}
    for write in operation.writes:
        wanted.setdefault(write.table, []).append(_encode_write(write))
    common = capacity.encode_detail(operation.capacity)
    responses, left = await _send_until_done(
        "BatchWriteItem", wanted, common, "UnprocessedItems", "same", service
    )
    unprocessed = tuple(_decode_write(table, request) for table, rest in left.items() for request in rest)
    return BatchWriteItemResult(unprocessed, capacity.sum_by_table(responses, "write", operation.capacity))


def _encode_write(write: BatchWrite) -> Request:
    if isinstance(write, Put):
        return {"PutRequest": {"Item": encode_item(write.item)}}
    return {"DeleteRequest": {"Key": encode_item(write.key)}}


def _decode_write(table: str, request: Request) -> BatchWrite:
    """Return the put or delete of an unprocessed entry."""
    if "PutRequest" in request:
        return Put(table, decode_item(request["PutRequest"]["Item"]))
    return Delete(table, decode_item(request["DeleteRequest"]["Key"]))


async def _send_until_done(
    action: str,
    wanted: dict[str, Any],
    common: Request,
    unprocessed_member: str,
    repeat: RepeatPolicy,
    service: Service,
) -> tuple[list[Response], dict[str, Any]]:
    """Send the entries until none is unprocessed or the retries run out.

    Return all responses and the unprocessed entries. `wanted` has the entries by table, `common` the other
    members of each request. `unprocessed_member` is the response member with the entries to send again.
    """
    retries = service.start_retries()
    responses: list[Response] = []
    while wanted:
        request = {"RequestItems": wanted, **common}
        try:
            response = await service.send(action, request, repeat=repeat, retries=retries)
        except RetryLater:
            if not responses:
                raise
            break
        responses.append(response)
        left = response.get(unprocessed_member) or {}
        if action == "BatchWriteItem":
            # A write is unprocessed only if it was throttled. A key may also exceed the size of the response.
            report_throttles(_count_entries(left), 0)
        if _count_entries(left) < _count_entries(wanted):
            retries.reset()
        wanted = left
        if wanted and not await retries.pause():
            break
    return responses, wanted


def _count_entries(wanted: dict[str, Any]) -> int:
    """Count the keys or writes over all tables."""
    return sum(len(each["Keys"]) if isinstance(each, dict) else len(each) for each in wanted.values())
