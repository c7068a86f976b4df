"""Scan on the wire: decode the request into an operation, and encode one page of items."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.core.errors import InvalidRequest
from holdfast.core.limits import MAX_SCAN_SEGMENTS
from holdfast.operations.tables import PageResult, Scan
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
    "ScanInput",
    Select=SELECT,
    IndexName=index_name(),
    TotalSegments=integer(minimum=1, maximum=MAX_SCAN_SEGMENTS),
    ReturnConsumedCapacity=capacity.RETURN_CONSUMED_CAPACITY,
    TableName=table_name(),
    ConditionalOperator=CONDITIONAL_OPERATOR,
    ScanFilter=CONDITIONS,
    Segment=integer(minimum=0),
    Limit=integer(minimum=1),
    AttributesToGet=ATTRIBUTES_TO_GET,
    ExclusiveStartKey=item(),
    FilterExpression=string(),
    ProjectionExpression=string(),
    ExpressionAttributeValues=VALUES,
    ExpressionAttributeNames=NAMES,
    ConsistentRead=boolean(),
)
EXPRESSIONS: Final = ("ProjectionExpression", "FilterExpression")
LEGACY: Final = ("AttributesToGet", "ScanFilter", "ConditionalOperator")


def decode(request: Request) -> Scan:
    """Return the operation. Raise `InvalidRequest` for the first failed check, in DynamoDB's order."""
    check_parameters(request, EXPRESSIONS, LEGACY)
    _check_select(request)
    start_key = to_plain_start_key(request.get("ExclusiveStartKey"))
    _check_segments(request.get("Segment"), request.get("TotalSegments"))
    given = parse_placeholders(request)
    filter_condition = expressions.parse_condition_parameter(request, "FilterExpression", given)
    projection = expressions.parse_projection_parameter(request, given)
    given.check_all_used()
    return Scan(
        table=request["TableName"],
        index=request.get("IndexName"),
        filter=filter_condition,
        projection=projection,
        select=request.get("Select"),
        limit=request.get("Limit"),
        start_key=start_key,
        consistent=request.get("ConsistentRead", False),
        segment=request.get("Segment"),
        segments=request.get("TotalSegments"),
        capacity=request.get("ReturnConsumedCapacity", "NONE"),
    )


def encode(operation: Scan, result: PageResult, location: AwsLocation) -> Response:
    return encode_page(result, operation.capacity)


def _check_select(request: Request) -> None:
    refusal = find_select_error(request)
    if refusal is not None:
        raise InvalidRequest(refusal)


def _check_segments(segment: int | None, segments: int | None) -> None:
    """Require both Segment and TotalSegments or neither, with the segment below the total."""
    if segment is None and segments is None:
        return
    if segments is None:
        raise InvalidRequest(
            "The TotalSegments parameter is required but was not present in the request when Segment "
            "parameter is present"
        )
    if segment is None:
        raise InvalidRequest(
            "The Segment parameter is required but was not present in the request when parameter "
            "TotalSegments is present"
        )
    if segment >= segments:
        raise InvalidRequest(
            "The Segment parameter is zero-based and must be less than parameter TotalSegments: "
            f"Segment: {segment} is not less than TotalSegments: {segments}"
        )
