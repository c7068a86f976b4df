"""The entry points of the parser: parse an expression's text and its placeholders into nodes.

    text → lexer → grammar (a template, cached by its text) → bind (the request's names and values) → nodes

An expression that DynamoDB rejects raises an error here with DynamoDB's complete text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias, TypeVar

from holdfast.core.errors import InvalidRequest
from holdfast.operations.expressions.binder import bind_condition, bind_projection, bind_update
from holdfast.operations.expressions.errors import ExpressionError
from holdfast.operations.expressions.grammar import (
    parse_condition_template,
    parse_projection_template,
    parse_update_template,
)
from holdfast.operations.expressions.nodes import Condition, Projection, Update
from holdfast.operations.expressions.placeholders import Placeholders

ConditionParameter: TypeAlias = Literal["ConditionExpression", "FilterExpression", "KeyConditionExpression"]

_Template = TypeVar("_Template")
_Node = TypeVar("_Node")


def parse_condition(text: str, parameter: ConditionParameter, placeholders: Placeholders) -> Condition:
    """Parse a condition. Raise `InvalidRequest` with DynamoDB's text, which names the request parameter."""
    return _parse(text, parameter, placeholders, parse_condition_template, bind_condition)


def parse_projection(text: str, placeholders: Placeholders) -> Projection:
    """Parse a ProjectionExpression into its paths. Raise `InvalidRequest` with DynamoDB's text."""
    return _parse(text, "ProjectionExpression", placeholders, parse_projection_template, bind_projection)


def parse_update(text: str, placeholders: Placeholders) -> Update:
    """Parse an UpdateExpression. Raise `InvalidRequest` with DynamoDB's text."""
    return _parse(text, "UpdateExpression", placeholders, parse_update_template, bind_update)


def _parse(
    text: str,
    parameter: str,
    placeholders: Placeholders,
    parse_template: Callable[[str], _Template],
    bind: Callable[[_Template, Placeholders], _Node],
) -> _Node:
    """Parse the text into a template, bind it, and turn an `ExpressionError` into `InvalidRequest`."""
    try:
        return bind(parse_template(text), placeholders)
    except ExpressionError as error:
        raise InvalidRequest(f"Invalid {parameter}: {error.reason}") from None
