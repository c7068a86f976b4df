"""GetRecords on the wire: decode a shard iterator, encode the stream records from there on, in order."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from holdfast.core.errors import InvalidRequest
from holdfast.core.limits import MAX_STREAM_RECORDS
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
    """Return the operation. Raise `InvalidRequest` for a limit above the maximum or an invalid iterator."""
    limit = request.get("Limit", MAX_STREAM_RECORDS)
    if limit > MAX_STREAM_RECORDS:
        raise InvalidRequest(f"{INVALID}Limit should be less than or equal to {MAX_STREAM_RECORDS}")
    return GetRecords(iterator=streams.decode_iterator(request["ShardIterator"]), limit=limit)


def encode(operation: GetRecords, result: GetRecordsResult, location: AwsLocation) -> Response:
    """Encode the records, and the next iterator unless a closed shard was read to its end."""
    stream = operation.iterator.stream
    response: Response = {"Records": [_encode_record(each, stream, location) for each in result.records]}
    if result.next is not None:
        response["NextShardIterator"] = streams.encode_iterator(result.next)
    return response


def _encode_record(record: StreamRecord, stream: StreamName, location: AwsLocation) -> Response:
    """Encode a record; one that the service made itself has the service as its user identity."""
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
    """Encode the keys and the images that the stream's view type includes."""
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
