"""TransactWriteItems and TransactGetItems.

A write transaction always carries a client token, the caller's or a generated one: sent again after a lost
response, it has no second effect. `fingerprint` is not sent, because the service compares the requests
themselves.
"""

from __future__ import annotations

import uuid
from typing import Final

from holdfast.operations.tables import (
    ConditionCheck,
    ConsumedCapacity,
    DeleteItem,
    PutItem,
    TransactGet,
    TransactGetItems,
    TransactGetItemsResult,
    TransactWrite,
    TransactWriteItems,
    TransactWriteItemsResult,
    UpdateItem,
)
from holdfast.stores.tables.dynamodb import capacity
from holdfast.stores.tables.dynamodb.expressions import expressed
from holdfast.stores.tables.dynamodb.service import Answer, Request, Service
from holdfast.stores.tables.dynamodb.values import plain_item, tagged_item

_MEMBERS: Final[dict[type, str]] = {
    PutItem: "Put",
    UpdateItem: "Update",
    DeleteItem: "Delete",
    ConditionCheck: "ConditionCheck",
}


async def transact_write_items(operation: TransactWriteItems, service: Service) -> TransactWriteItemsResult:
    request = {
        "TransactItems": [{_MEMBERS[type(action)]: _action(action)} for action in operation.actions],
        "ClientRequestToken": operation.token or str(uuid.uuid4()),
        **capacity.asked(operation.capacity),
    }
    answer = await service.ask("TransactWriteItems", request, repeat="token")
    return TransactWriteItemsResult(_consumed(answer, "write", operation))


def _action(action: TransactWrite) -> Request:
    update = action.update if isinstance(action, UpdateItem) else None
    request: Request = {"TableName": action.table, **expressed(update=update, condition=action.condition)}
    if isinstance(action, PutItem):
        request["Item"] = tagged_item(action.item)
    else:
        request["Key"] = tagged_item(action.key)
    if action.returns_on_failure != "NONE":
        request["ReturnValuesOnConditionCheckFailure"] = action.returns_on_failure
    return request


async def transact_get_items(operation: TransactGetItems, service: Service) -> TransactGetItemsResult:
    request = {
        "TransactItems": [{"Get": _get(get)} for get in operation.gets],
        **capacity.asked(operation.capacity),
    }
    answer = await service.ask("TransactGetItems", request)
    items = tuple(plain_item(each["Item"]) if each.get("Item") else None for each in answer["Responses"])
    return TransactGetItemsResult(items, _consumed(answer, "read", operation))


def _get(get: TransactGet) -> Request:
    return {"TableName": get.table, "Key": tagged_item(get.key), **expressed(projection=get.projection)}


def _consumed(
    answer: Answer, kind: capacity.Kind, operation: TransactWriteItems | TransactGetItems
) -> tuple[ConsumedCapacity, ...]:
    return capacity.summed([answer], kind, operation.capacity, transactional=True)
