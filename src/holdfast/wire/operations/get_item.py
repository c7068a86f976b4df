"""GetItem on the wire: decode the request into an operation, and encode its result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.operations.tables import GetItem, GetItemResult
from holdfast.wire import capacity
from holdfast.wire.expressions import ATTRIBUTES_TO_GET, NAMES, check_parameters, parse_only_projection
from holdfast.wire.shapes import Request, Response, boolean, item, string, structure, table_name
from holdfast.wire.values import encode_item, to_plain_item

if TYPE_CHECKING:
    from holdfast.wire.arns import AwsLocation

SHAPE: Final = structure(
    "GetItemInput",
    ReturnConsumedCapacity=capacity.RETURN_CONSUMED_CAPACITY,
    AttributesToGet=ATTRIBUTES_TO_GET,
    TableName=table_name(),
    Key=item(required=True),
    ConsistentRead=boolean(),
    ProjectionExpression=string(),
    ExpressionAttributeNames=NAMES,
)


def decode(request: Request) -> GetItem:
    """Return the operation. Raise `InvalidRequest` for the first failed check, in DynamoDB's order."""
    check_parameters(request, ("ProjectionExpression",), ("AttributesToGet",))
    key = to_plain_item(request["Key"])
    projection = parse_only_projection(request)
    return GetItem(
        table=request["TableName"],
        key=key,
        consistent=request.get("ConsistentRead", False),
        projection=projection,
        capacity=request.get("ReturnConsumedCapacity", "NONE"),
    )


def encode(operation: GetItem, result: GetItemResult, location: AwsLocation) -> Response:
    """Encode the item, or an empty response if it is absent; with capacity if requested."""
    response = {} if result.item is None else {"Item": encode_item(result.item)}
    return capacity.add_consumed_capacity(response, result.capacity, operation.capacity)
