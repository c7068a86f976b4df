"""TransactGetItems on the wire."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.core.limits import TRANSACTION_ACTIONS_MAX
from holdfast.operations.tables import TransactGet, TransactGetItems, TransactGetItemsResult
from holdfast.wire import capacity
from holdfast.wire.expressions import NAMES, check_parameters, only_projection
from holdfast.wire.shapes import Answer, Request, item, list_of, string, structure, table_name
from holdfast.wire.values import settled, tagged_item

if TYPE_CHECKING:
    from holdfast.wire.arns import Place

SHAPE: Final = structure(
    "TransactGetItemsInput",
    ReturnConsumedCapacity=capacity.RETURN_CONSUMED_CAPACITY,
    TransactItems=list_of(
        structure(
            "TransactGetItem",
            Get=structure(
                "Get",
                required=True,
                Key=item(required=True),
                TableName=table_name(),
                ProjectionExpression=string(),
                ExpressionAttributeNames=NAMES,
            ),
        ),
        required=True,
        shortest=1,
        longest=TRANSACTION_ACTIONS_MAX,
    ),
)


def decode(request: Request) -> TransactGetItems:
    return TransactGetItems(
        gets=tuple(_get(each["Get"]) for each in request["TransactItems"]),
        capacity=request.get("ReturnConsumedCapacity", "NONE"),
    )


def encode(operation: TransactGetItems, result: TransactGetItemsResult, place: Place) -> Answer:
    responses = [{} if each is None else {"Item": tagged_item(each)} for each in result.items]
    return capacity.tell_all({"Responses": responses}, result.capacity, operation.capacity)


def _get(get: Request) -> TransactGet:
    check_parameters(get, ("ProjectionExpression",))
    key = settled(get["Key"])
    return TransactGet(table=get["TableName"], key=key, projection=only_projection(get))
