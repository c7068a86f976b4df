"""Expression parameters, shared by the operations: check which may be combined, and parse them.

Each `decode` that takes expressions uses this module. The order is DynamoDB's: first `check_parameters`
(invalid combinations), then the values of items and keys, then `parse_placeholders` (expression attribute
names and values), then each expression, and last whether every name and value was used
(`Placeholders.check_all_used`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from holdfast.core.errors import InvalidRequest
from holdfast.operations.expressions.nodes import Condition, Projection, Update
from holdfast.operations.expressions.parser import (
    ConditionParameter,
    parse_condition,
    parse_projection,
    parse_update,
)
from holdfast.operations.expressions.placeholders import Placeholders
from holdfast.wire.shapes import (
    Request,
    Shape,
    attribute_value,
    boolean,
    item,
    list_of,
    map_of,
    string,
    structure,
)
from holdfast.wire.values import UncheckedItem, parse_attribute_value

# The legacy parameters, each with the expression that replaces it.
_REPLACEMENTS: Final = {
    "AttributesToGet": "ProjectionExpression",
    "AttributeUpdates": "UpdateExpression",
    "Expected": "ConditionExpression",
    "KeyConditions": "KeyConditionExpression",
    "QueryFilter": "FilterExpression",
    "ScanFilter": "FilterExpression",
    "ConditionalOperator": "AND and OR in an expression",
}
_COMPARISONS: Final = (
    "IN",
    "NULL",
    "BETWEEN",
    "LT",
    "NOT_CONTAINS",
    "EQ",
    "GT",
    "NOT_NULL",
    "NE",
    "LE",
    "BEGINS_WITH",
    "GE",
    "CONTAINS",
)

# --- shapes -------------------------------------------------------------------------------------------------

NAMES: Final[Shape] = map_of(string())
VALUES: Final[Shape] = item()
CONDITIONAL_OPERATOR: Final[Shape] = string(enum=("OR", "AND"))
ATTRIBUTES_TO_GET: Final[Shape] = list_of(string(), min_length=1, max_length=255)
EXPECTED: Final[Shape] = map_of(
    structure(
        "ExpectedAttributeValue",
        AttributeValueList=list_of(attribute_value()),
        ComparisonOperator=string(enum=_COMPARISONS),
        Exists=boolean(),
        Value=attribute_value(),
    )
)
CONDITIONS: Final[Shape] = map_of(
    structure(
        "Condition",
        AttributeValueList=list_of(attribute_value()),
        ComparisonOperator=string(required=True, enum=_COMPARISONS),
    )
)
ATTRIBUTE_UPDATES: Final[Shape] = map_of(
    structure("AttributeValueUpdate", Action=string(), Value=attribute_value())
)


# --- which parameters may go together -----------------------------------------------------------------------


def check_parameters(request: Request, expressions: Sequence[str], legacy: Sequence[str] = ()) -> None:
    """Raise `InvalidRequest` for expressions mixed with legacy parameters, for names or values without an
    expression, and for a non-empty legacy parameter, which Holdfast does not support.
    """
    used = [parameter for parameter in expressions if parameter in request]
    older = [parameter for parameter in legacy if parameter in request]
    if used and older:
        _check_not_mixed(request, used, older)
    if not used and "ExpressionAttributeNames" in request:
        raise InvalidRequest("ExpressionAttributeNames can only be specified when using expressions")
    if "ExpressionAttributeValues" in request:
        _check_values_allowed(request, expressions)
    for parameter in older:
        if request[parameter]:
            raise InvalidRequest(
                f"The parameter {parameter} is not supported yet: use {_REPLACEMENTS[parameter]} instead"
            )


def _check_not_mixed(request: Request, used: Sequence[str], older: Sequence[str]) -> None:
    """Raise for mixed parameters. Without a KeyConditionExpression, KeyConditions do not count: other
    expressions may be used with them.
    """
    if "KeyConditionExpression" not in request:
        older = [parameter for parameter in older if parameter != "KeyConditions"]
    if older:
        raise InvalidRequest(
            "Can not use both expression and non-expression parameters in the same request: "
            f"Non-expression parameters: {{{', '.join(older)}}} Expression parameters: {{{', '.join(used)}}}"
        )


def _check_values_allowed(request: Request, expressions: Sequence[str]) -> None:
    """Raise for values without an expression that can use them; a projection cannot."""
    value_parameters = [parameter for parameter in expressions if parameter != "ProjectionExpression"]
    if not any(parameter in request for parameter in value_parameters):
        raise InvalidRequest(
            "ExpressionAttributeValues can only be specified when using expressions: "
            f"{' and '.join(value_parameters)} {'are' if len(value_parameters) > 1 else 'is'} null"
        )


# --- parsing ------------------------------------------------------------------------------------------------


def parse_placeholders(request: Request) -> Placeholders:
    """Return the expression attribute names and values, each checked as DynamoDB does."""
    names, values = request.get("ExpressionAttributeNames"), request.get("ExpressionAttributeValues")
    if type(values) is UncheckedItem:
        # DynamoDB checks the keys before any value.
        Placeholders(names, dict.fromkeys(values.tagged))
        values = {key: _parse_value(key, tagged) for key, tagged in values.tagged.items()}
    return Placeholders(names, values)


def _parse_value(key: str, tagged: Request) -> object:
    """Return the plain value of a `:key`. Raise `InvalidRequest`, which names the key."""
    try:
        return parse_attribute_value(tagged)
    except InvalidRequest as error:
        raise InvalidRequest(
            f"ExpressionAttributeValues contains invalid value: {error.message} for key {key}"
        ) from None


def parse_condition_parameter(
    request: Request, parameter: ConditionParameter, given: Placeholders
) -> Condition | None:
    """Return the parsed condition in this parameter, or None if the request does not have it."""
    text = request.get(parameter)
    return None if text is None else parse_condition(text, parameter, given)


def parse_projection_parameter(request: Request, given: Placeholders) -> Projection | None:
    """Return the parsed ProjectionExpression, or None if the request does not have it."""
    text = request.get("ProjectionExpression")
    return None if text is None else parse_projection(text, given)


def parse_update_parameter(request: Request, given: Placeholders) -> Update | None:
    """Return the parsed UpdateExpression, or None if the request does not have it."""
    text = request.get("UpdateExpression")
    return None if text is None else parse_update(text, given)


def parse_only_condition(request: Request) -> Condition | None:
    """Parse and fully check the condition of a request that can have no other expression. None if absent."""
    if "ConditionExpression" not in request:
        return None
    given = parse_placeholders(request)
    parsed = parse_condition_parameter(request, "ConditionExpression", given)
    given.check_all_used()
    return parsed


def parse_only_projection(request: Request) -> Projection | None:
    """Parse and fully check the projection of a request that can have no other expression. None if absent."""
    if "ProjectionExpression" not in request:
        return None
    given = parse_placeholders(request)
    parsed = parse_projection_parameter(request, given)
    given.check_all_used()
    return parsed
