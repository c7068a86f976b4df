"""ListStreams on the wire: decode the request, encode one page of the streams of one or all tables."""

from __future__ import annotations

from holdfast.core.errors import InvalidRequest
from holdfast.core.limits import MAX_LIST_STREAMS
from holdfast.operations.tables import ListStreams, ListStreamsResult
from holdfast.wire import streams
from holdfast.wire.arns import AwsLocation
from holdfast.wire.shapes import Request, Response, integer, structure, table_name
from holdfast.wire.values import INVALID

SHAPE = structure(
    "ListStreamsInput",
    TableName=table_name(required=False),
    Limit=integer(minimum=1),
    ExclusiveStartStreamArn=streams.stream_arn_shape(),
)


def decode(request: Request) -> ListStreams:
    """Return the operation. Raise `InvalidRequest` for a limit above the maximum or an invalid start ARN."""
    limit = request.get("Limit", MAX_LIST_STREAMS)
    if limit > MAX_LIST_STREAMS:
        raise InvalidRequest(
            f"{INVALID}Limit cannot be greater than the maximum allowed size: {MAX_LIST_STREAMS}"
        )
    start = request.get("ExclusiveStartStreamArn")
    return ListStreams(
        table=request.get("TableName"),
        after=None if start is None else streams.parse_stream_name(start),
        limit=limit,
    )


def encode(operation: ListStreams, result: ListStreamsResult, location: AwsLocation) -> Response:
    response: Response = {
        "Streams": [
            {
                "StreamArn": streams.to_stream_arn(each, location),
                "TableName": each.table,
                "StreamLabel": each.label,
            }
            for each in result.streams
        ]
    }
    if result.last is not None:
        response["LastEvaluatedStreamArn"] = streams.to_stream_arn(result.last, location)
    return response
