"""ListStreams on the wire: the streams of one or all tables, one page at a time."""

from __future__ import annotations

from holdfast.core.errors import InvalidRequest
from holdfast.core.limits import LIST_STREAMS_MAX
from holdfast.operations.tables import ListStreams, ListStreamsResult
from holdfast.wire import streams
from holdfast.wire.arns import Place
from holdfast.wire.shapes import Answer, Request, integer, structure, table_name
from holdfast.wire.values import INVALID

SHAPE = structure(
    "ListStreamsInput",
    TableName=table_name(required=False),
    Limit=integer(least=1),
    ExclusiveStartStreamArn=streams.stream_arn_text(),
)


def decode(request: Request) -> ListStreams:
    limit = request.get("Limit", LIST_STREAMS_MAX)
    if limit > LIST_STREAMS_MAX:
        raise InvalidRequest(
            f"{INVALID}Limit cannot be greater than the maximum allowed size: {LIST_STREAMS_MAX}"
        )
    start = request.get("ExclusiveStartStreamArn")
    return ListStreams(
        table=request.get("TableName"),
        after=None if start is None else streams.stream_name(start),
        limit=limit,
    )


def encode(operation: ListStreams, result: ListStreamsResult, place: Place) -> Answer:
    answer: Answer = {
        "Streams": [
            {"StreamArn": streams.arn_of(each, place), "TableName": each.table, "StreamLabel": each.label}
            for each in result.streams
        ]
    }
    if result.last is not None:
        answer["LastEvaluatedStreamArn"] = streams.arn_of(result.last, place)
    return answer
