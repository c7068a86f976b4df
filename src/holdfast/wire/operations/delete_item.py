"""DeleteItem on the wire: decode the request into an operation, and encode its result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.operations.tables import DeleteItem, WriteResult
from holdfast.wire import capacity
from holdfast.wire.expressions import (
    CONDITIONAL_OPERATOR,
    EXPECTED,
    NAMES,
    VALUES,
    check_parameters,
    parse_only_condition,
)
from holdfast.wire.shapes import Request, Response, item, string, structure, table_name
from holdfast.wire.values import to_plain_item
from holdfast.wire.writes import (
    RETURN_ITEM_COLLECTION_METRICS,
    RETURN_VALUES,
    RETURN_VALUES_ON_FAILURE,
    check_returns_old,
    encode_write,
)

if TYPE_CHECKING:
    from holdfast.wire.arns import AwsLocation

SHAPE: Final = structure(
    "DeleteItemInput",
    ReturnConsumedCapacity=capacity.RETURN_CONSUMED_CAPACITY,
    TableName=table_name(),
    ReturnValues=RETURN_VALUES,
    ReturnItemCollectionMetrics=RETURN_ITEM_COLLECTION_METRICS,
    Key=item(required=True),
    ConditionalOperator=CONDITIONAL_OPERATOR,
    Expected=EXPECTED,
    ConditionExpression=string(),
    ExpressionAttributeValues=VALUES,
    ExpressionAttributeNames=NAMES,
    ReturnValuesOnConditionCheckFailure=RETURN_VALUES_ON_FAILURE,
)


def decode(request: Request) -> DeleteItem:
    """Return the operation. Raise `InvalidRequest` for the first failed check, in DynamoDB's order."""
    check_parameters(request, ("ConditionExpression",), ("Expected", "ConditionalOperator"))
    key = to_plain_item(request["Key"])
    check_returns_old(request)
    condition = parse_only_condition(request)
    return DeleteItem(
        table=request["TableName"],
        key=key,
        condition=condition,
        returns=request.get("ReturnValues", "NONE"),
        returns_on_failure=request.get("ReturnValuesOnConditionCheckFailure", "NONE"),
        capacity=request.get("ReturnConsumedCapacity", "NONE"),
    )


def encode(operation: DeleteItem, result: WriteResult, location: AwsLocation) -> Response:
    return encode_write(result, operation.capacity)
