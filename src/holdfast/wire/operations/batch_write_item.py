"""BatchWriteItem on the wire: decode the request into an operation, and encode its result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.core.errors import InvalidRequest
from holdfast.core.limits import MAX_BATCH_WRITES
from holdfast.operations.tables import BatchWrite, BatchWriteItem, BatchWriteItemResult, Delete, Put
from holdfast.wire import capacity
from holdfast.wire.shapes import Request, Response, item, list_of, map_of, parse_table_name, structure
from holdfast.wire.values import SEVERAL_VALUES, encode_item, to_plain_item
from holdfast.wire.writes import RETURN_ITEM_COLLECTION_METRICS, check_item_size, to_plain_put_item

if TYPE_CHECKING:
    from holdfast.wire.arns import AwsLocation

SHAPE: Final = structure(
    "BatchWriteItemInput",
    ReturnConsumedCapacity=capacity.RETURN_CONSUMED_CAPACITY,
    ReturnItemCollectionMetrics=RETURN_ITEM_COLLECTION_METRICS,
    RequestItems=map_of(
        list_of(
            structure(
                "WriteRequest",
                DeleteRequest=structure("DeleteRequest", Key=item(required=True)),
                PutRequest=structure("PutRequest", Item=item(required=True)),
            )
        ),
        required=True,
        is_keyed_by_table=True,
        list_lengths=(1, MAX_BATCH_WRITES),
    ),
)


def decode(request: Request) -> BatchWriteItem:
    """Return the operation. Raise `InvalidRequest` for too many writes or an invalid one."""
    _check_counts(request["RequestItems"])
    writes: list[BatchWrite] = []
    for name_or_arn, requests in request["RequestItems"].items():
        table = parse_table_name(name_or_arn)
        _check_one_kind_each(requests)
        writes += [_parse_write(table, each) for each in requests]
    return BatchWriteItem(writes=tuple(writes), capacity=request.get("ReturnConsumedCapacity", "NONE"))


def encode(operation: BatchWriteItem, result: BatchWriteItemResult, location: AwsLocation) -> Response:
    """Encode the writes that were not made, by table, as requests to send again."""
    unprocessed: dict[str, list[Response]] = {}
    for left in result.unprocessed:
        unprocessed.setdefault(left.table, []).append(_encode_unprocessed(left))
    return capacity.add_consumed_capacities(
        {"UnprocessedItems": unprocessed}, result.capacity, operation.capacity
    )


def _check_counts(by_table: dict[str, list[Request]]) -> None:
    """Raise `InvalidRequest` for no table, or for more than 25 writes in all."""
    if not by_table:
        raise InvalidRequest("The requestItems parameter is required for BatchWriteItem")
    if sum(map(len, by_table.values())) > MAX_BATCH_WRITES:
        raise InvalidRequest("Too many items requested for the BatchWriteItem call")


def _check_one_kind_each(requests: list[Request]) -> None:
    """Raise `InvalidRequest` unless each request is either a put or a delete. DynamoDB uses its attribute
    value text for this error.
    """
    if any(len(request) != 1 for request in requests):
        raise InvalidRequest(SEVERAL_VALUES)


def _parse_write(table: str, request: Request) -> BatchWrite:
    """Return one put or delete. Raise `InvalidRequest` for an invalid value or an item that is too large."""
    if "DeleteRequest" in request:
        return Delete(table=table, key=to_plain_item(request["DeleteRequest"]["Key"]))
    whole = to_plain_put_item(request["PutRequest"]["Item"])
    check_item_size(whole)
    return Put(table=table, item=whole)


def _encode_unprocessed(write: BatchWrite) -> Response:
    if isinstance(write, Put):
        return {"PutRequest": {"Item": encode_item(write.item)}}
    return {"DeleteRequest": {"Key": encode_item(write.key)}}
