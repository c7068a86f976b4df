"""TransactGetItems on the wire: decode the request into an operation, and encode its result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.core.limits import MAX_TRANSACTION_ACTIONS
from holdfast.operations.tables import TransactGet, TransactGetItems, TransactGetItemsResult
from holdfast.wire import capacity
from holdfast.wire.expressions import NAMES, check_parameters, parse_only_projection
from holdfast.wire.shapes import Request, Response, item, list_of, string, structure, table_name
from holdfast.wire.values import encode_item, to_plain_item

if TYPE_CHECKING:
    from holdfast.wire.arns import AwsLocation

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
        min_length=1,
        max_length=MAX_TRANSACTION_ACTIONS,
    ),
)


def decode(request: Request) -> TransactGetItems:
    """Return the operation. Raise `InvalidRequest` for the first invalid get."""
    return TransactGetItems(
        gets=tuple(_parse_get(each["Get"]) for each in request["TransactItems"]),
        capacity=request.get("ReturnConsumedCapacity", "NONE"),
    )


def encode(operation: TransactGetItems, result: TransactGetItemsResult, location: AwsLocation) -> Response:
    """Encode one entry per get; an absent item is an empty entry."""
    responses = [{} if each is None else {"Item": encode_item(each)} for each in result.items]
    return capacity.add_consumed_capacities({"Responses": responses}, result.capacity, operation.capacity)


def _parse_get(get: Request) -> TransactGet:
    check_parameters(get, ("ProjectionExpression",))
    key = to_plain_item(get["Key"])
    return TransactGet(table=get["TableName"], key=key, projection=parse_only_projection(get))
