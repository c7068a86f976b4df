"""GetRecords on the wire: the changes of a table from a shard position on, in order."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from holdfast.core.errors import InvalidRequest
from holdfast.core.limits import STREAM_RECORDS_MAX
from holdfast.operations.tables import GetRecords, GetRecordsResult, StreamName, StreamRecord
from holdfast.wire import streams
from holdfast.wire.arns import Place
from holdfast.wire.descriptions import seconds
from holdfast.wire.shapes import Answer, Request, integer, string, structure
from holdfast.wire.values import INVALID, tagged_item

EVENT_VERSION: Final = "1.1"
EVENT_SOURCE: Final = "aws:dynamodb"
# The user identity of a time-to-live deletion: consumers recognise such records by exactly this.
SERVICE_IDENTITY: Final = {"Type": "Service", "PrincipalId": "dynamodb.amazonaws.com"}
EVENT_ID_BYTES: Final = 16

SHAPE = structure(
    "GetRecordsInput",
    ShardIterator=string(required=True, shortest=1, longest=2048),
    Limit=integer(least=1),
)


def decode(request: Request) -> GetRecords:
    limit = request.get("Limit", STREAM_RECORDS_MAX)
    if limit > STREAM_RECORDS_MAX:
        raise InvalidRequest(f"{INVALID}Limit should be less than or equal to {STREAM_RECORDS_MAX}")
    return GetRecords(iterator=streams.iterator(request["ShardIterator"]), limit=limit)


def encode(operation: GetRecords, result: GetRecordsResult, place: Place) -> Answer:
    stream = operation.iterator.stream
    answer: Answer = {"Records": [_record(each, stream, place) for each in result.records]}
    if result.next is not None:
        answer["NextShardIterator"] = streams.iterator_text(result.next)
    return answer


def _record(record: StreamRecord, stream: StreamName, place: Place) -> Answer:
    told: Answer = {
        "eventID": _event_id(record, stream),
        "eventName": record.event,
        "eventVersion": EVENT_VERSION,
        "eventSource": EVENT_SOURCE,
        "awsRegion": place.region,
        "dynamodb": _change(record),
    }
    if record.by_service:
        told["userIdentity"] = SERVICE_IDENTITY
    return told


def _event_id(record: StreamRecord, stream: StreamName) -> str:
    """Return the record's id: unique, and the same on every read."""
    named = f"{stream.table}/{stream.label}/{record.sequence_number}"
    return blake2b(named.encode(), digest_size=EVENT_ID_BYTES).hexdigest()


def _change(record: StreamRecord) -> Answer:
    told: Answer = {
        "ApproximateCreationDateTime": seconds(record.at),
        "Keys": tagged_item(record.keys),
        "SequenceNumber": streams.sequence_number_text(record.sequence_number),
        "SizeBytes": record.size_bytes,
        "StreamViewType": record.view,
    }
    if record.new is not None:
        told["NewImage"] = tagged_item(record.new)
    if record.old is not None:
        told["OldImage"] = tagged_item(record.old)
    return told
