"""BatchGetItem on the wire: decode the request into an operation, and encode its result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.errors import InvalidRequest
from holdfast.core.limits import MAX_BATCH_READS
from holdfast.operations.tables import BatchGetItem, BatchGetItemResult, KeysAndAttributes
from holdfast.operations.values import Item
from holdfast.wire import capacity
from holdfast.wire.expressions import ATTRIBUTES_TO_GET, NAMES, check_parameters, parse_only_projection
from holdfast.wire.shapes import (
    Request,
    Response,
    boolean,
    build_violation_error,
    item,
    list_of,
    map_of,
    parse_table_name,
    string,
    structure,
)
from holdfast.wire.values import encode_item, to_plain_item

if TYPE_CHECKING:
    from holdfast.wire.arns import AwsLocation

SHAPE: Final = structure(
    "BatchGetItemInput",
    RequestItems=map_of(
        structure(
            "KeysAndAttributes",
            Keys=list_of(item(), required=True, min_length=1, max_length=MAX_BATCH_READS, omits_value=True),
            AttributesToGet=ATTRIBUTES_TO_GET,
            ConsistentRead=boolean(),
            ProjectionExpression=string(),
            ExpressionAttributeNames=NAMES,
        ),
        required=True,
        is_keyed_by_table=True,
        is_shown_as_json=True,
    ),
    ReturnConsumedCapacity=capacity.RETURN_CONSUMED_CAPACITY,
)
_EXPRESSION_PARAMETERS: Final = ("ProjectionExpression", "ExpressionAttributeNames")


def decode(request: Request) -> BatchGetItem:
    """Return the operation. Raise `InvalidRequest` for too many keys, duplicates or an invalid projection."""
    _check_counts(request["RequestItems"])
    return BatchGetItem(
        requests=tuple(_parse_table_keys(table, wanted) for table, wanted in request["RequestItems"].items()),
        capacity=request.get("ReturnConsumedCapacity", "NONE"),
    )


def encode(operation: BatchGetItem, result: BatchGetItemResult, location: AwsLocation) -> Response:
    """Encode the items by table, and the keys that were not read as a request to send again."""
    raw_expressions = {request.table: request.raw_expressions for request in operation.requests}
    response: Response = {
        "Responses": {table: [encode_item(each) for each in items] for table, items in result.items.items()},
        "UnprocessedKeys": {
            left.table: _encode_unprocessed(left, raw_expressions[left.table]) for left in result.unprocessed
        },
    }
    return capacity.add_consumed_capacities(response, result.capacity, operation.capacity)


def _check_counts(by_table: dict[str, Request]) -> None:
    """Raise `InvalidRequest` for no table, or for more than 100 keys in all."""
    if not by_table:
        raise build_violation_error("RequestItems", "Member must have length greater than or equal to 1")
    if sum(len(wanted["Keys"]) for wanted in by_table.values()) > MAX_BATCH_READS:
        raise InvalidRequest("Too many items requested for the BatchGetItem call")


def _parse_table_keys(table: str, request: Request) -> KeysAndAttributes:
    """Return the keys to read from one table, with its projection."""
    check_parameters(request, ("ProjectionExpression",), ("AttributesToGet",))
    projection = parse_only_projection(request)
    return KeysAndAttributes(
        table=parse_table_name(table),
        keys=_parse_distinct_keys(request["Keys"]),
        consistent=request.get("ConsistentRead", False),
        projection=projection,
        raw_expressions={name: request[name] for name in _EXPRESSION_PARAMETERS if name in request} or None,
    )


def _parse_distinct_keys(keys: list[Any]) -> tuple[Item, ...]:
    """Return the plain keys. Raise `InvalidRequest` if two are equal."""
    seen: set[bytes] = set()
    distinct = []
    for read in keys:
        key = to_plain_item(read)
        form = msgspec.json.encode(encode_item(key), order="sorted")
        if form in seen:
            raise InvalidRequest("Provided list of item keys contains duplicates")
        seen.add(form)
        distinct.append(key)
    return tuple(distinct)


def _encode_unprocessed(unprocessed: KeysAndAttributes, raw_expressions: Response | None) -> Response:
    """Build a request for the keys that were not read, with the client's own expressions, so that it can be
    sent again.
    """
    response: Response = {"Keys": [encode_item(key) for key in unprocessed.keys]}
    if unprocessed.consistent:
        response["ConsistentRead"] = True
    return response | (raw_expressions or {})
