"""BatchGetItem on the wire."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.errors import InvalidRequest
from holdfast.core.limits import BATCH_READS_MAX
from holdfast.operations.tables import BatchGetItem, BatchGetItemResult, KeysOfTable
from holdfast.operations.values import Item
from holdfast.wire import capacity
from holdfast.wire.expressions import (
    ATTRIBUTES_TO_GET,
    NAMES,
    check_parameters,
    only_projection,
)
from holdfast.wire.shapes import (
    Answer,
    Request,
    bare_complaint,
    boolean,
    item,
    list_of,
    map_of,
    name_of_table,
    string,
    structure,
)
from holdfast.wire.values import settled, tagged_item

if TYPE_CHECKING:
    from holdfast.wire.arns import Place

SHAPE: Final = structure(
    "BatchGetItemInput",
    RequestItems=map_of(
        structure(
            "KeysAndAttributes",
            Keys=list_of(item(), required=True, shortest=1, longest=BATCH_READS_MAX, bare=True),
            AttributesToGet=ATTRIBUTES_TO_GET,
            ConsistentRead=boolean(),
            ProjectionExpression=string(),
            ExpressionAttributeNames=NAMES,
        ),
        required=True,
        by_table=True,
        shown_as_json=True,
    ),
    ReturnConsumedCapacity=capacity.RETURN_CONSUMED_CAPACITY,
)
_WORDING: Final = ("ProjectionExpression", "ExpressionAttributeNames")


def decode(request: Request) -> BatchGetItem:
    _check_counts(request["RequestItems"])
    return BatchGetItem(
        requests=tuple(_keys_of_table(table, wanted) for table, wanted in request["RequestItems"].items()),
        capacity=request.get("ReturnConsumedCapacity", "NONE"),
    )


def encode(operation: BatchGetItem, result: BatchGetItemResult, place: Place) -> Answer:
    wordings = {asked.table: asked.wording for asked in operation.requests}
    answer: Answer = {
        "Responses": {table: [tagged_item(each) for each in items] for table, items in result.items.items()},
        "UnprocessedKeys": {left.table: _left(left, wordings[left.table]) for left in result.unprocessed},
    }
    return capacity.tell_all(answer, result.capacity, operation.capacity)


def _check_counts(by_table: dict[str, Request]) -> None:
    if not by_table:
        raise bare_complaint("RequestItems", "Member must have length greater than or equal to 1")
    if sum(len(wanted["Keys"]) for wanted in by_table.values()) > BATCH_READS_MAX:
        raise InvalidRequest("Too many items requested for the BatchGetItem call")


def _keys_of_table(table: str, wanted: Request) -> KeysOfTable:
    check_parameters(wanted, ("ProjectionExpression",), ("AttributesToGet",))
    projection = only_projection(wanted)
    return KeysOfTable(
        table=name_of_table(table),
        keys=_distinct_keys(wanted["Keys"]),
        consistent=wanted.get("ConsistentRead", False),
        projection=projection,
        wording={name: wanted[name] for name in _WORDING if name in wanted} or None,
    )


def _distinct_keys(keys: list[Any]) -> tuple[Item, ...]:
    seen: set[bytes] = set()
    distinct = []
    for read in keys:
        key = settled(read)
        form = msgspec.json.encode(tagged_item(key), order="sorted")
        if form in seen:
            raise InvalidRequest("Provided list of item keys contains duplicates")
        seen.add(form)
        distinct.append(key)
    return tuple(distinct)


def _left(left: KeysOfTable, wording: Answer | None) -> Answer:
    """Build a request for the keys that were not read, with the client's own expressions, so that it can be
    sent again.
    """
    answer: Answer = {"Keys": [tagged_item(key) for key in left.keys]}
    if left.consistent:
        answer["ConsistentRead"] = True
    return answer | (wording or {})
