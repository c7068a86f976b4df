"""Encoding of expressions as request members, with the names and values that they use."""

from __future__ import annotations

from typing import Any

from holdfast.operations.expressions.key_conditions import KeyCondition
from holdfast.operations.expressions.nodes import Condition, Projection, Update
from holdfast.operations.expressions.renderer import Renderer
from holdfast.stores.tables.dynamodb.values import encode_item


def encode_expressions(
    *,
    key_condition: KeyCondition | None = None,
    condition: Condition | None = None,
    page_filter: Condition | None = None,
    update: Update | None = None,
    projection: Projection | None = None,
) -> dict[str, Any]:
    """Build the members for the given expressions. `page_filter` is the filter of a query or scan."""
    renderer = Renderer()
    members: dict[str, Any] = {}
    if key_condition is not None:
        members["KeyConditionExpression"] = renderer.render_key_condition(key_condition)
    if condition is not None:
        members["ConditionExpression"] = renderer.render_condition(condition)
    if page_filter is not None:
        members["FilterExpression"] = renderer.render_condition(page_filter)
    if update is not None and update.actions:
        members["UpdateExpression"] = renderer.render_update(update)
    if projection is not None:
        members["ProjectionExpression"] = renderer.render_projection(projection)
    if renderer.names:
        members["ExpressionAttributeNames"] = renderer.names
    if renderer.values:
        members["ExpressionAttributeValues"] = encode_item(renderer.values)
    return members
