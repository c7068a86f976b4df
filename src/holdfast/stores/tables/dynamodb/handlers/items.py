"""Handlers of GetItem, PutItem, UpdateItem and DeleteItem on DynamoDB."""

from __future__ import annotations

from typing import Any

from holdfast.operations.tables import DeleteItem, GetItem, GetItemResult, PutItem, UpdateItem, WriteResult
from holdfast.stores.tables.dynamodb import capacity
from holdfast.stores.tables.dynamodb.expiry import load_expiry
from holdfast.stores.tables.dynamodb.expressions import encode_expressions
from holdfast.stores.tables.dynamodb.repeats import choose_repeat_policy
from holdfast.stores.tables.dynamodb.service import Request, Response, Service
from holdfast.stores.tables.dynamodb.values import decode_item, encode_item


async def get_item(operation: GetItem, service: Service) -> GetItemResult:
    """Read one item; None if it is absent, or expired and hidden."""
    expiry = await load_expiry(operation.table, service) if operation.hide_expired else None
    projection = operation.projection if expiry is None else expiry.widen_projection(operation.projection)
    response = await service.send(
        "GetItem",
        {
            "TableName": operation.table,
            "Key": encode_item(operation.key),
            "ConsistentRead": operation.consistent,
            **encode_expressions(projection=projection),
            **capacity.encode_detail(operation.capacity),
        },
    )
    item = decode_item(response["Item"]) if "Item" in response else None
    if expiry is not None:
        item = expiry.project_visible(item, operation.projection)
    return GetItemResult(item, capacity.parse_capacity(response, "read", operation.capacity))


async def put_item(operation: PutItem, service: Service) -> WriteResult:
    """Put one item. Raise `ConditionFailed` if its condition does not hold."""
    request = {
        "TableName": operation.table,
        "Item": encode_item(operation.item),
        **encode_expressions(condition=operation.condition),
    }
    return await _send_write("PutItem", request, operation, service)


async def update_item(operation: UpdateItem, service: Service) -> WriteResult:
    """Update one item. Raise `ConditionFailed` if its condition does not hold."""
    request = {
        "TableName": operation.table,
        "Key": encode_item(operation.key),
        **encode_expressions(update=operation.update, condition=operation.condition),
    }
    return await _send_write("UpdateItem", request, operation, service)


async def delete_item(operation: DeleteItem, service: Service) -> WriteResult:
    """Delete one item. Raise `ConditionFailed` if its condition does not hold."""
    request = {
        "TableName": operation.table,
        "Key": encode_item(operation.key),
        **encode_expressions(condition=operation.condition),
    }
    return await _send_write("DeleteItem", request, operation, service)


async def _send_write(
    action: str, request: Request, operation: PutItem | UpdateItem | DeleteItem, service: Service
) -> WriteResult:
    """Add the members that all three writes share, send the request and return its result."""
    request |= {
        "ReturnValues": operation.returns,
        **_encode_returns_on_failure(operation),
        **capacity.encode_detail(operation.capacity),
    }
    response = await service.send(action, request, repeat=choose_repeat_policy(operation))
    return WriteResult(
        _decode_attributes(response), capacity.parse_capacity(response, "write", operation.capacity)
    )


def _encode_returns_on_failure(operation: Any) -> Request:
    """Return the request member that asks for the item if the condition fails, or nothing."""
    if operation.returns_on_failure == "NONE":
        return {}
    return {"ReturnValuesOnConditionCheckFailure": operation.returns_on_failure}


def _decode_attributes(response: Response) -> Any:
    """Return the attributes in the response of a write, or None."""
    return decode_item(response["Attributes"]) if "Attributes" in response else None
