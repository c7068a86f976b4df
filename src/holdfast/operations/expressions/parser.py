"""The entry points of the parser: parse an expression's text and its placeholders into nodes.

    text → lexer → grammar (a template, cached by its text) → bind (the request's names and values) → nodes

An expression that DynamoDB rejects raises an error here with DynamoDB's complete text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias, TypeVar

from holdfast.core.errors import InvalidRequest
from holdfast.operations.expressions.bind import bind_condition, bind_projection, bind_update
from holdfast.operations.expressions.grammar import condition_template, projection_template, update_template
from holdfast.operations.expressions.nodes import Condition, Projection, Update
from holdfast.operations.expressions.placeholders import Placeholders
from holdfast.operations.expressions.refusal import Refused

ConditionParameter: TypeAlias = Literal["ConditionExpression", "FilterExpression", "KeyConditionExpression"]

_Template = TypeVar("_Template")
_Node = TypeVar("_Node")


def parse_condition(text: str, parameter: ConditionParameter, placeholders: Placeholders) -> Condition:
    return _parse(text, parameter, placeholders, condition_template, bind_condition)


def parse_projection(text: str, placeholders: Placeholders) -> Projection:
    return _parse(text, "ProjectionExpression", placeholders, projection_template, bind_projection)


def parse_update(text: str, placeholders: Placeholders) -> Update:
    return _parse(text, "UpdateExpression", placeholders, update_template, bind_update)


def _parse(
    text: str,
    parameter: str,
    placeholders: Placeholders,
    read: Callable[[str], _Template],
    bind: Callable[[_Template, Placeholders], _Node],
) -> _Node:
    try:
        return bind(read(text), placeholders)
    except Refused as refused:
        raise InvalidRequest(f"Invalid {parameter}: {refused.reason}") from None
