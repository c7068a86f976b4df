"""Expressions of a request: nodes rendered into request members, with the names and values they use."""

from __future__ import annotations

from typing import Any

from holdfast.operations.expressions.key_conditions import KeyCondition
from holdfast.operations.expressions.nodes import Condition, Projection, Update
from holdfast.operations.expressions.render import Renderer
from holdfast.stores.tables.dynamodb.values import tagged_item


def expressed(
    *,
    key_condition: KeyCondition | None = None,
    condition: Condition | None = None,
    keeps: Condition | None = None,
    update: Update | None = None,
    projection: Projection | None = None,
) -> dict[str, Any]:
    """Build the members for the expressions that are given. `keeps` is the filter of a page."""
    renderer = Renderer()
    members: dict[str, Any] = {}
    if key_condition is not None:
        members["KeyConditionExpression"] = renderer.key_condition(key_condition)
    if condition is not None:
        members["ConditionExpression"] = renderer.condition(condition)
    if keeps is not None:
        members["FilterExpression"] = renderer.condition(keeps)
    if update is not None and update.actions:
        members["UpdateExpression"] = renderer.update(update)
    if projection is not None:
        members["ProjectionExpression"] = renderer.projection(projection)
    if renderer.names:
        members["ExpressionAttributeNames"] = renderer.names
    if renderer.values:
        members["ExpressionAttributeValues"] = tagged_item(renderer.values)
    return members
