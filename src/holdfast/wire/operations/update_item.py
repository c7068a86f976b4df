"""UpdateItem on the wire: decode the request into an operation, and encode its result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.operations.tables import UpdateItem, WriteResult
from holdfast.wire import capacity, expressions
from holdfast.wire.expressions import (
    ATTRIBUTE_UPDATES,
    CONDITIONAL_OPERATOR,
    EXPECTED,
    NAMES,
    VALUES,
    check_parameters,
    parse_placeholders,
)
from holdfast.wire.shapes import Request, Response, item, string, structure, table_name
from holdfast.wire.update_size import check_update_size
from holdfast.wire.values import to_plain_item
from holdfast.wire.writes import (
    RETURN_ITEM_COLLECTION_METRICS,
    RETURN_VALUES,
    RETURN_VALUES_ON_FAILURE,
    encode_write,
)

if TYPE_CHECKING:
    from holdfast.wire.arns import AwsLocation

SHAPE: Final = structure(
    "UpdateItemInput",
    ReturnConsumedCapacity=capacity.RETURN_CONSUMED_CAPACITY,
    TableName=table_name(),
    ReturnItemCollectionMetrics=RETURN_ITEM_COLLECTION_METRICS,
    ReturnValues=RETURN_VALUES,
    Key=item(required=True),
    ConditionalOperator=CONDITIONAL_OPERATOR,
    Expected=EXPECTED,
    AttributeUpdates=ATTRIBUTE_UPDATES,
    ConditionExpression=string(),
    UpdateExpression=string(),
    ExpressionAttributeValues=VALUES,
    ExpressionAttributeNames=NAMES,
    ReturnValuesOnConditionCheckFailure=RETURN_VALUES_ON_FAILURE,
)


def decode(request: Request) -> UpdateItem:
    """Return the operation. Raise `InvalidRequest` for the first failed check, in DynamoDB's order."""
    check_parameters(
        request,
        ("UpdateExpression", "ConditionExpression"),
        ("AttributeUpdates", "Expected", "ConditionalOperator"),
    )
    key = to_plain_item(request["Key"])
    given = parse_placeholders(request)
    update = expressions.parse_update_parameter(request, given)
    condition = expressions.parse_condition_parameter(request, "ConditionExpression", given)
    given.check_all_used()
    if update is not None:
        check_update_size(update)
    return UpdateItem(
        table=request["TableName"],
        key=key,
        update=update,
        condition=condition,
        returns=request.get("ReturnValues", "NONE"),
        returns_on_failure=request.get("ReturnValuesOnConditionCheckFailure", "NONE"),
        capacity=request.get("ReturnConsumedCapacity", "NONE"),
    )


def encode(operation: UpdateItem, result: WriteResult, location: AwsLocation) -> Response:
    return encode_write(result, operation.capacity)
