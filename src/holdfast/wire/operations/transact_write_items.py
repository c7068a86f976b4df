"""TransactWriteItems on the wire: decode the request into an operation, and encode its result.

A request with a ClientRequestToken also gets a fingerprint, by which the store recognises a repeat.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.errors import InvalidRequest
from holdfast.core.limits import MAX_TRANSACTION_ACTIONS, MAX_TRANSACTION_BYTES
from holdfast.operations.expressions.parser import parse_condition
from holdfast.operations.tables import (
    ConditionCheck,
    DeleteItem,
    PutItem,
    TransactWrite,
    TransactWriteItems,
    TransactWriteItemsResult,
    UpdateItem,
)
from holdfast.operations.values import Item, item_size
from holdfast.wire import capacity, expressions
from holdfast.wire.expressions import (
    NAMES,
    VALUES,
    check_parameters,
    parse_only_condition,
    parse_placeholders,
)
from holdfast.wire.shapes import (
    Request,
    Response,
    Shape,
    Structure,
    item,
    list_of,
    string,
    structure,
    table_name,
)
from holdfast.wire.values import encode_item, to_plain_item
from holdfast.wire.writes import (
    RETURN_ITEM_COLLECTION_METRICS,
    RETURN_VALUES_ON_FAILURE,
    check_item_size,
    to_plain_put_item,
)

if TYPE_CHECKING:
    from holdfast.wire.arns import AwsLocation


def _build_action_shape(kind: str, **members: Shape) -> Structure:
    """Return the shape of one kind of action: its own members, then those that all kinds share."""
    return structure(
        kind,
        required=False,
        **members,
        TableName=table_name(),
        ExpressionAttributeNames=NAMES,
        ExpressionAttributeValues=VALUES,
        ReturnValuesOnConditionCheckFailure=RETURN_VALUES_ON_FAILURE,
    )


SHAPE: Final = structure(
    "TransactWriteItemsInput",
    ClientRequestToken=string(min_length=1, max_length=36),
    ReturnConsumedCapacity=capacity.RETURN_CONSUMED_CAPACITY,
    ReturnItemCollectionMetrics=RETURN_ITEM_COLLECTION_METRICS,
    TransactItems=list_of(
        structure(
            "TransactWriteItem",
            ConditionCheck=_build_action_shape(
                "ConditionCheck", Key=item(required=True), ConditionExpression=string(required=True)
            ),
            Put=_build_action_shape("Put", Item=item(required=True), ConditionExpression=string()),
            Delete=_build_action_shape("Delete", Key=item(required=True), ConditionExpression=string()),
            Update=_build_action_shape(
                "Update",
                Key=item(required=True),
                UpdateExpression=string(required=True),
                ConditionExpression=string(),
            ),
        ),
        required=True,
        min_length=1,
        max_length=MAX_TRANSACTION_ACTIONS,
    ),
)
_ATTRIBUTE_MAPS: Final = frozenset({"Item", "Key", "ExpressionAttributeValues"})


def decode(request: Request) -> TransactWriteItems:
    """Return the operation, with a fingerprint if it has a token. Raise `InvalidRequest` for the first
    invalid action, or more than 4 MB of data.
    """
    _check_one_kind_each(request["TransactItems"])
    actions = tuple(_parse_action(each) for each in request["TransactItems"])
    _check_size(actions)
    return TransactWriteItems(
        actions=actions,
        token=request.get("ClientRequestToken"),
        fingerprint=_compute_fingerprint(request) if "ClientRequestToken" in request else b"",
        capacity=request.get("ReturnConsumedCapacity", "NONE"),
    )


def encode(
    operation: TransactWriteItems, result: TransactWriteItemsResult, location: AwsLocation
) -> Response:
    """Encode an empty response, with capacity if requested."""
    return capacity.add_consumed_capacities({}, result.capacity, operation.capacity)


def _check_one_kind_each(requests: list[Request]) -> None:
    """Raise `InvalidRequest` unless each entry has exactly one action."""
    for request in requests:
        if not request:
            raise InvalidRequest(
                "Invalid Request: TransactWriteRequest should contain Delete or Put or Update request"
            )
        if len(request) > 1:
            raise InvalidRequest("TransactItems can only contain one of Check, Put, Update or Delete")


def _parse_action(request: Request) -> TransactWrite:
    """Return the one action of an entry: a put, delete, update or condition check."""
    [(kind, parameters)] = request.items()
    returns_on_failure = parameters.get("ReturnValuesOnConditionCheckFailure", "NONE")
    if kind == "Put":
        return _parse_put(parameters, returns_on_failure)
    if kind == "Delete":
        return _parse_delete(parameters, returns_on_failure)
    if kind == "Update":
        return _parse_update(parameters, returns_on_failure)
    return _parse_condition_check(parameters, returns_on_failure)


def _parse_put(parameters: Request, returns_on_failure: Any) -> PutItem:
    check_parameters(parameters, ("ConditionExpression",))
    whole = to_plain_put_item(parameters["Item"])
    check_item_size(whole)
    return PutItem(
        table=parameters["TableName"],
        item=whole,
        condition=parse_only_condition(parameters),
        returns_on_failure=returns_on_failure,
    )


def _parse_delete(parameters: Request, returns_on_failure: Any) -> DeleteItem:
    check_parameters(parameters, ("ConditionExpression",))
    condition = parse_only_condition(parameters)
    return DeleteItem(
        table=parameters["TableName"],
        key=to_plain_item(parameters["Key"]),
        condition=condition,
        returns_on_failure=returns_on_failure,
    )


def _parse_update(parameters: Request, returns_on_failure: Any) -> UpdateItem:
    key = to_plain_item(parameters["Key"])
    given = parse_placeholders(parameters)
    update = expressions.parse_update_parameter(parameters, given)
    condition = expressions.parse_condition_parameter(parameters, "ConditionExpression", given)
    given.check_all_used()
    return UpdateItem(
        table=parameters["TableName"],
        key=key,
        update=update,
        condition=condition,
        returns_on_failure=returns_on_failure,
    )


def _parse_condition_check(parameters: Request, returns_on_failure: Any) -> ConditionCheck:
    key = to_plain_item(parameters["Key"])
    given = parse_placeholders(parameters)
    condition = parse_condition(parameters["ConditionExpression"], "ConditionExpression", given)
    given.check_all_used()
    return ConditionCheck(
        table=parameters["TableName"], key=key, condition=condition, returns_on_failure=returns_on_failure
    )


def _check_size(actions: tuple[TransactWrite, ...]) -> None:
    """Raise `InvalidRequest` if the request's items and keys exceed 4 MB. The store adds the size of the
    updated items.
    """
    if sum(item_size(_get_payload(action)) for action in actions) > MAX_TRANSACTION_BYTES:
        raise InvalidRequest("Transaction payload size cannot exceed 4 MB")


def _get_payload(action: TransactWrite) -> Item:
    """Return the data that an action sends: the item of a put, else the key."""
    return action.item if isinstance(action, PutItem) else action.key


def _compute_fingerprint(request: Request) -> bytes:
    """Hash the request without its token. Equal requests have the same hash, however their JSON is
    written.
    """
    actions = [
        {kind: {name: _normalize_parameter(name, each) for name, each in parameters.items()}}
        for action in request["TransactItems"]
        for kind, parameters in action.items()
    ]
    others = {name: request.get(name) for name in ("ReturnConsumedCapacity", "ReturnItemCollectionMetrics")}
    return blake2b(msgspec.json.encode([actions, others], order="sorted"), digest_size=32).digest()


def _normalize_parameter(name: str, parameter: Any) -> Any:
    """Return a parameter in a form that does not depend on how its JSON was written."""
    return encode_item(to_plain_item(parameter)) if name in _ATTRIBUTE_MAPS else parameter
