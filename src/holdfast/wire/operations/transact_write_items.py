"""TransactWriteItems on the wire."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.errors import InvalidRequest
from holdfast.core.limits import TRANSACTION_ACTIONS_MAX, TRANSACTION_BYTES_MAX
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
from holdfast.wire.expressions import NAMES, VALUES, check_parameters, only_condition, placeholders
from holdfast.wire.shapes import (
    Answer,
    Request,
    Shape,
    Structure,
    item,
    list_of,
    string,
    structure,
    table_name,
)
from holdfast.wire.values import settled, tagged_item
from holdfast.wire.writes import (
    RETURN_ITEM_COLLECTION_METRICS,
    RETURN_VALUES_ON_FAILURE,
    check_item_size,
    settled_item,
)

if TYPE_CHECKING:
    from holdfast.wire.arns import Place


def _action_shape(kind: str, **members: Shape) -> Structure:
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
    ClientRequestToken=string(shortest=1, longest=36),
    ReturnConsumedCapacity=capacity.RETURN_CONSUMED_CAPACITY,
    ReturnItemCollectionMetrics=RETURN_ITEM_COLLECTION_METRICS,
    TransactItems=list_of(
        structure(
            "TransactWriteItem",
            ConditionCheck=_action_shape(
                "ConditionCheck", Key=item(required=True), ConditionExpression=string(required=True)
            ),
            Put=_action_shape("Put", Item=item(required=True), ConditionExpression=string()),
            Delete=_action_shape("Delete", Key=item(required=True), ConditionExpression=string()),
            Update=_action_shape(
                "Update",
                Key=item(required=True),
                UpdateExpression=string(required=True),
                ConditionExpression=string(),
            ),
        ),
        required=True,
        shortest=1,
        longest=TRANSACTION_ACTIONS_MAX,
    ),
)
_ATTRIBUTE_MAPS: Final = frozenset({"Item", "Key", "ExpressionAttributeValues"})


def decode(request: Request) -> TransactWriteItems:
    _check_one_kind_each(request["TransactItems"])
    actions = tuple(_action(each) for each in request["TransactItems"])
    _check_size(actions)
    return TransactWriteItems(
        actions=actions,
        token=request.get("ClientRequestToken"),
        fingerprint=_fingerprint(request) if "ClientRequestToken" in request else b"",
        capacity=request.get("ReturnConsumedCapacity", "NONE"),
    )


def encode(operation: TransactWriteItems, result: TransactWriteItemsResult, place: Place) -> Answer:
    return capacity.tell_all({}, result.capacity, operation.capacity)


def _check_one_kind_each(requests: list[Request]) -> None:
    for request in requests:
        if not request:
            raise InvalidRequest(
                "Invalid Request: TransactWriteRequest should contain Delete or Put or Update request"
            )
        if len(request) > 1:
            raise InvalidRequest("TransactItems can only contain one of Check, Put, Update or Delete")


def _action(request: Request) -> TransactWrite:
    [(kind, parameters)] = request.items()
    returns_on_failure = parameters.get("ReturnValuesOnConditionCheckFailure", "NONE")
    if kind == "Put":
        return _put(parameters, returns_on_failure)
    if kind == "Delete":
        return _delete(parameters, returns_on_failure)
    if kind == "Update":
        return _update(parameters, returns_on_failure)
    return _condition_check(parameters, returns_on_failure)


def _put(parameters: Request, returns_on_failure: Any) -> PutItem:
    check_parameters(parameters, ("ConditionExpression",))
    whole = settled_item(parameters["Item"])
    check_item_size(whole)
    return PutItem(
        table=parameters["TableName"],
        item=whole,
        condition=only_condition(parameters),
        returns_on_failure=returns_on_failure,
    )


def _delete(parameters: Request, returns_on_failure: Any) -> DeleteItem:
    check_parameters(parameters, ("ConditionExpression",))
    condition = only_condition(parameters)
    return DeleteItem(
        table=parameters["TableName"],
        key=settled(parameters["Key"]),
        condition=condition,
        returns_on_failure=returns_on_failure,
    )


def _update(parameters: Request, returns_on_failure: Any) -> UpdateItem:
    key = settled(parameters["Key"])
    given = placeholders(parameters)
    update = expressions.update(parameters, given)
    condition = expressions.condition(parameters, "ConditionExpression", given)
    given.check_all_used()
    return UpdateItem(
        table=parameters["TableName"],
        key=key,
        update=update,
        condition=condition,
        returns_on_failure=returns_on_failure,
    )


def _condition_check(parameters: Request, returns_on_failure: Any) -> ConditionCheck:
    key = settled(parameters["Key"])
    given = placeholders(parameters)
    condition = parse_condition(parameters["ConditionExpression"], "ConditionExpression", given)
    given.check_all_used()
    return ConditionCheck(
        table=parameters["TableName"], key=key, condition=condition, returns_on_failure=returns_on_failure
    )


def _check_size(actions: tuple[TransactWrite, ...]) -> None:
    """Check the size of the request's data. The store adds the size of the updated items."""
    if sum(item_size(_brought(action)) for action in actions) > TRANSACTION_BYTES_MAX:
        raise InvalidRequest("Transaction payload size cannot exceed 4 MB")


def _brought(action: TransactWrite) -> Item:
    return action.item if isinstance(action, PutItem) else action.key


def _fingerprint(request: Request) -> bytes:
    """Hash the request without its token. Equal requests have the same hash, however their JSON is
    written.
    """
    asked = [
        {kind: {name: _form(name, each) for name, each in parameters.items()}}
        for action in request["TransactItems"]
        for kind, parameters in action.items()
    ]
    others = {name: request.get(name) for name in ("ReturnConsumedCapacity", "ReturnItemCollectionMetrics")}
    return blake2b(msgspec.json.encode([asked, others], order="sorted"), digest_size=32).digest()


def _form(name: str, parameter: Any) -> Any:
    return tagged_item(settled(parameter)) if name in _ATTRIBUTE_MAPS else parameter
