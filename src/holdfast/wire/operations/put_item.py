"""PutItem on the wire: decode the request into an operation, and encode its result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.operations.tables import PutItem, WriteResult
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
from holdfast.wire.writes import (
    RETURN_ITEM_COLLECTION_METRICS,
    RETURN_VALUES,
    RETURN_VALUES_ON_FAILURE,
    check_item_size,
    check_returns_old,
    encode_write,
    to_plain_put_item,
)

if TYPE_CHECKING:
    from holdfast.wire.arns import AwsLocation

SHAPE: Final = structure(
    "PutItemInput",
    ReturnConsumedCapacity=capacity.RETURN_CONSUMED_CAPACITY,
    TableName=table_name(),
    Item=item(required=True),
    ConditionalOperator=CONDITIONAL_OPERATOR,
    Expected=EXPECTED,
    ReturnValues=RETURN_VALUES,
    ReturnItemCollectionMetrics=RETURN_ITEM_COLLECTION_METRICS,
    ConditionExpression=string(),
    ExpressionAttributeValues=VALUES,
    ExpressionAttributeNames=NAMES,
    ReturnValuesOnConditionCheckFailure=RETURN_VALUES_ON_FAILURE,
)


def decode(request: Request) -> PutItem:
    """Return the operation. Raise `InvalidRequest` for the first failed check, in DynamoDB's order."""
    check_parameters(request, ("ConditionExpression",), ("Expected", "ConditionalOperator"))
    whole = to_plain_put_item(request["Item"])
    check_returns_old(request)
    check_item_size(whole)
    condition = parse_only_condition(request)
    return PutItem(
        table=request["TableName"],
        item=whole,
        condition=condition,
        returns=request.get("ReturnValues", "NONE"),
        returns_on_failure=request.get("ReturnValuesOnConditionCheckFailure", "NONE"),
        capacity=request.get("ReturnConsumedCapacity", "NONE"),
    )


def encode(operation: PutItem, result: WriteResult, location: AwsLocation) -> Response:
    return encode_write(result, operation.capacity)
