"""GetItem, PutItem, UpdateItem and DeleteItem."""

from __future__ import annotations

from typing import Any

from holdfast.operations.tables import DeleteItem, GetItem, GetItemResult, PutItem, UpdateItem, WriteResult
from holdfast.stores.tables.dynamodb import capacity
from holdfast.stores.tables.dynamodb.expiry import expiry_of
from holdfast.stores.tables.dynamodb.expressions import expressed
from holdfast.stores.tables.dynamodb.repeats import repeat_of
from holdfast.stores.tables.dynamodb.service import Answer, Request, Service
from holdfast.stores.tables.dynamodb.values import plain_item, tagged_item


async def get_item(operation: GetItem, service: Service) -> GetItemResult:
    expiry = await expiry_of(operation.table, service) if operation.hide_expired else None
    projection = operation.projection if expiry is None else expiry.widened(operation.projection)
    answer = await service.ask(
        "GetItem",
        {
            "TableName": operation.table,
            "Key": tagged_item(operation.key),
            "ConsistentRead": operation.consistent,
            **expressed(projection=projection),
            **capacity.asked(operation.capacity),
        },
    )
    item = plain_item(answer["Item"]) if "Item" in answer else None
    if expiry is not None:
        item = expiry.shown_of(item, operation.projection)
    return GetItemResult(item, capacity.consumed(answer, "read", operation.capacity))


async def put_item(operation: PutItem, service: Service) -> WriteResult:
    request = {
        "TableName": operation.table,
        "Item": tagged_item(operation.item),
        **expressed(condition=operation.condition),
    }
    return await _written("PutItem", request, operation, service)


async def update_item(operation: UpdateItem, service: Service) -> WriteResult:
    request = {
        "TableName": operation.table,
        "Key": tagged_item(operation.key),
        **expressed(update=operation.update, condition=operation.condition),
    }
    return await _written("UpdateItem", request, operation, service)


async def delete_item(operation: DeleteItem, service: Service) -> WriteResult:
    request = {
        "TableName": operation.table,
        "Key": tagged_item(operation.key),
        **expressed(condition=operation.condition),
    }
    return await _written("DeleteItem", request, operation, service)


async def _written(
    action: str, request: Request, operation: PutItem | UpdateItem | DeleteItem, service: Service
) -> WriteResult:
    request |= {
        "ReturnValues": operation.returns,
        **_on_failure(operation),
        **capacity.asked(operation.capacity),
    }
    answer = await service.ask(action, request, repeat=repeat_of(operation))
    return WriteResult(_attributes(answer), capacity.consumed(answer, "write", operation.capacity))


def _on_failure(operation: Any) -> Request:
    if operation.returns_on_failure == "NONE":
        return {}
    return {"ReturnValuesOnConditionCheckFailure": operation.returns_on_failure}


def _attributes(answer: Answer) -> Any:
    return plain_item(answer["Attributes"]) if "Attributes" in answer else None
