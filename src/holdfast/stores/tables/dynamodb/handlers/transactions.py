"""Handlers of TransactWriteItems and TransactGetItems on DynamoDB.

A write transaction always carries a client token, the caller's or a generated one: sent again after a lost
response, it has no second effect. `fingerprint` is not sent, because the service compares the requests
themselves.
"""

from __future__ import annotations

from typing import Final

from holdfast.core.rng import make_uuid
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
from holdfast.stores.tables.dynamodb.expressions import encode_expressions
from holdfast.stores.tables.dynamodb.service import Request, Response, Service
from holdfast.stores.tables.dynamodb.values import decode_item, encode_item

_MEMBER_NAMES: Final[dict[type, str]] = {
    PutItem: "Put",
    UpdateItem: "Update",
    DeleteItem: "Delete",
    ConditionCheck: "ConditionCheck",
}


async def transact_write_items(operation: TransactWriteItems, service: Service) -> TransactWriteItemsResult:
    """Write all items or none. Raise `TransactionCancelled` with a reason per action."""
    request = {
        "TransactItems": [
            {_MEMBER_NAMES[type(action)]: _encode_action(action)} for action in operation.actions
        ],
        "ClientRequestToken": operation.token or str(make_uuid()),
        **capacity.encode_detail(operation.capacity),
    }
    response = await service.send("TransactWriteItems", request, repeat="token")
    return TransactWriteItemsResult(_parse_capacity(response, "write", operation))


def _encode_action(action: TransactWrite) -> Request:
    """Return the request members of one put, update, delete or condition check."""
    update = action.update if isinstance(action, UpdateItem) else None
    request: Request = {
        "TableName": action.table,
        **encode_expressions(update=update, condition=action.condition),
    }
    if isinstance(action, PutItem):
        request["Item"] = encode_item(action.item)
    else:
        request["Key"] = encode_item(action.key)
    if action.returns_on_failure != "NONE":
        request["ReturnValuesOnConditionCheckFailure"] = action.returns_on_failure
    return request


async def transact_get_items(operation: TransactGetItems, service: Service) -> TransactGetItemsResult:
    """Read items at one moment, in the order of the request; None for absent ones."""
    request = {
        "TransactItems": [{"Get": _encode_get(get)} for get in operation.gets],
        **capacity.encode_detail(operation.capacity),
    }
    response = await service.send("TransactGetItems", request)
    items = tuple(decode_item(each["Item"]) if each.get("Item") else None for each in response["Responses"])
    return TransactGetItemsResult(items, _parse_capacity(response, "read", operation))


def _encode_get(get: TransactGet) -> Request:
    return {
        "TableName": get.table,
        "Key": encode_item(get.key),
        **encode_expressions(projection=get.projection),
    }


def _parse_capacity(
    response: Response, kind: capacity.Kind, operation: TransactWriteItems | TransactGetItems
) -> tuple[ConsumedCapacity, ...]:
    """Return the capacity that the response reports, one entry per table."""
    return capacity.sum_by_table([response], kind, operation.capacity, transactional=True)
