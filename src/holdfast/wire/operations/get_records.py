"""GetRecords on the wire: the changes of a table from a shard position on, in order."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from holdfast.core.errors import InvalidRequest
from holdfast.core.limits import STREAM_RECORDS_MAX
from holdfast.operations.tables import GetRecords, GetRecordsResult, StreamName, StreamRecord
from holdfast.wire import streams
from holdfast.wire.arns import AwsLocation
from holdfast.wire.descriptions import encode_time
from holdfast.wire.shapes import Request, Response, integer, string, structure
from holdfast.wire.values import INVALID, encode_item

EVENT_VERSION: Final = "1.1"
EVENT_SOURCE: Final = "aws:dynamodb"
# The user identity of a time-to-live deletion: consumers recognise such records by exactly this.
SERVICE_IDENTITY: Final = {"Type": "Service", "PrincipalId": "dynamodb.amazonaws.com"}
EVENT_ID_BYTES: Final = 16

SHAPE = structure(
    "GetRecordsInput",
    ShardIterator=string(required=True, min_length=1, max_length=2048),
    Limit=integer(minimum=1),
)


def decode(request: Request) -> GetRecords:
    limit = request.get("Limit", STREAM_RECORDS_MAX)
    if limit > STREAM_RECORDS_MAX:
        raise InvalidRequest(f"{INVALID}Limit should be less than or equal to {STREAM_RECORDS_MAX}")
    return GetRecords(iterator=streams.decode_iterator(request["ShardIterator"]), limit=limit)


def encode(operation: GetRecords, result: GetRecordsResult, location: AwsLocation) -> Response:
    stream = operation.iterator.stream
    response: Response = {"Records": [_encode_record(each, stream, location) for each in result.records]}
    if result.next is not None:
        response["NextShardIterator"] = streams.encode_iterator(result.next)
    return response


def _encode_record(record: StreamRecord, stream: StreamName, location: AwsLocation) -> Response:
    encoded: Response = {
        "eventID": _compute_event_id(record, stream),
        "eventName": record.event,
        "eventVersion": EVENT_VERSION,
        "eventSource": EVENT_SOURCE,
        "awsRegion": location.region,
        "dynamodb": _encode_change(record),
    }
    if record.by_service:
        encoded["userIdentity"] = SERVICE_IDENTITY
    return encoded


def _compute_event_id(record: StreamRecord, stream: StreamName) -> str:
    """Return the record's id: unique, and the same on every read."""
    named = f"{stream.table}/{stream.label}/{record.sequence_number}"
    return blake2b(named.encode(), digest_size=EVENT_ID_BYTES).hexdigest()


def _encode_change(record: StreamRecord) -> Response:
    encoded: Response = {
        "ApproximateCreationDateTime": encode_time(record.at),
        "Keys": encode_item(record.keys),
        "SequenceNumber": streams.format_sequence_number(record.sequence_number),
        "SizeBytes": record.size_bytes,
        "StreamViewType": record.view,
    }
    if record.new is not None:
        encoded["NewImage"] = encode_item(record.new)
    if record.old is not None:
        encoded["OldImage"] = encode_item(record.old)
    return encoded
