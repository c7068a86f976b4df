"""Query on the wire: decode the request into an operation, and encode one page of items."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.core.errors import InvalidRequest
from holdfast.operations.expressions.key_conditions import split_key_condition
from holdfast.operations.expressions.parser import parse_condition
from holdfast.operations.tables import PageResult, Query
from holdfast.wire import capacity, expressions
from holdfast.wire.expressions import (
    ATTRIBUTES_TO_GET,
    CONDITIONAL_OPERATOR,
    CONDITIONS,
    NAMES,
    VALUES,
    check_parameters,
    parse_placeholders,
)
from holdfast.wire.pages import SELECT, encode_page, find_select_error
from holdfast.wire.shapes import (
    Request,
    Response,
    boolean,
    index_name,
    integer,
    item,
    string,
    structure,
    table_name,
)
from holdfast.wire.values import to_plain_start_key

if TYPE_CHECKING:
    from holdfast.wire.arns import AwsLocation

SHAPE: Final = structure(
    "QueryInput",
    Select=SELECT,
    IndexName=index_name(),
    ReturnConsumedCapacity=capacity.RETURN_CONSUMED_CAPACITY,
    QueryFilter=CONDITIONS,
    TableName=table_name(),
    ConditionalOperator=CONDITIONAL_OPERATOR,
    AttributesToGet=ATTRIBUTES_TO_GET,
    Limit=integer(minimum=1, omits_value=True),
    KeyConditions=CONDITIONS,
    ExclusiveStartKey=item(),
    ConsistentRead=boolean(),
    ScanIndexForward=boolean(),
    KeyConditionExpression=string(),
    FilterExpression=string(),
    ProjectionExpression=string(),
    ExpressionAttributeValues=VALUES,
    ExpressionAttributeNames=NAMES,
)
EXPRESSIONS: Final = ("ProjectionExpression", "FilterExpression", "KeyConditionExpression")
LEGACY: Final = ("AttributesToGet", "QueryFilter", "ConditionalOperator", "KeyConditions")


def decode(request: Request) -> Query:
    """Return the operation. Raise `InvalidRequest` for the first failed check, in DynamoDB's order."""
    check_parameters(request, EXPRESSIONS, LEGACY)
    _check_select(request)
    start_key = to_plain_start_key(request.get("ExclusiveStartKey"))
    _check_key_condition_present(request)
    given = parse_placeholders(request)
    key_condition = parse_condition(request["KeyConditionExpression"], "KeyConditionExpression", given)
    filter_condition = expressions.parse_condition_parameter(request, "FilterExpression", given)
    projection = expressions.parse_projection_parameter(request, given)
    given.check_all_used()
    return Query(
        table=request["TableName"],
        key_condition=split_key_condition(key_condition),
        index=request.get("IndexName"),
        filter=filter_condition,
        projection=projection,
        select=request.get("Select"),
        forward=request.get("ScanIndexForward", True),
        limit=request.get("Limit"),
        start_key=start_key,
        consistent=request.get("ConsistentRead", False),
        capacity=request.get("ReturnConsumedCapacity", "NONE"),
    )


def encode(operation: Query, result: PageResult, location: AwsLocation) -> Response:
    return encode_page(result, operation.capacity)


def _check_select(request: Request) -> None:
    """Raise for an invalid Select. A query counts it among its validation errors; a scan, with the same text,
    does not.
    """
    refusal = find_select_error(request)
    if refusal is not None:
        raise InvalidRequest(f"1 validation error detected: {refusal}")


def _check_key_condition_present(request: Request) -> None:
    if "KeyConditionExpression" not in request:
        raise InvalidRequest(
            "Either the KeyConditions or KeyConditionExpression parameter must be specified in the request."
        )
