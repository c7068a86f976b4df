"""Fingerprints of transactions: a repeat under the same client token must have the same actions.

Expressions count in DynamoDB's own text, and values with their types: neither depends on a Python name.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Final

import msgspec

from holdfast.operations import numbers
from holdfast.operations.expressions.renderer import Renderer
from holdfast.operations.tables import (
    ConditionCheck,
    DeleteItem,
    PutItem,
    TransactWrite,
    TransactWriteItems,
    UpdateItem,
)
from holdfast.operations.values import Value, get_type_tag, sort_elements

_ENCODER: Final = msgspec.msgpack.Encoder(order="deterministic")
_ACTION_NAMES: Final[dict[type, str]] = {
    PutItem: "PutItem",
    UpdateItem: "UpdateItem",
    DeleteItem: "DeleteItem",
    ConditionCheck: "ConditionCheck",
}


def compute_fingerprint(operation: TransactWriteItems) -> bytes:
    """Return the fingerprint of a transaction whose caller passes none."""
    return sha256(_ENCODER.encode([_describe(action) for action in operation.actions])).digest()


def compute_former_fingerprint(operation: TransactWriteItems) -> bytes:
    """Return the fingerprint that version 0.2 stored, for a repeat within ten minutes of an upgrade.

    It left out the kinds of conditions and the types of values.
    """
    kinds = [_ACTION_NAMES[type(action)] for action in operation.actions]
    return sha256(_ENCODER.encode((kinds, operation.actions))).digest()


def _describe(action: TransactWrite) -> list[Any]:
    """Return the action as plain values, in which every difference between two actions shows."""
    renderer = Renderer()
    condition = None if action.condition is None else renderer.render_condition(action.condition)
    has_update = isinstance(action, UpdateItem) and action.update is not None
    update = renderer.render_update(action.update) if has_update else None  # type: ignore[union-attr, arg-type]
    return [
        *(_ACTION_NAMES[type(action)], action.table, condition, update, action.returns_on_failure),
        _tag(action.item if isinstance(action, PutItem) else action.key),
        renderer.names,
        {name: _tag(value) for name, value in renderer.values.items()},
    ]


def _tag(value: Value) -> list[Any]:
    """Return the value with DynamoDB's name of its type, at every depth."""
    tag = get_type_tag(value)
    match value:
        case dict():
            return [tag, {name: _tag(each) for name, each in value.items()}]
        case list():
            return [tag, [_tag(each) for each in value]]
        case frozenset():
            return [tag, [_tag(each) for each in sort_elements(value)]]
        case _:
            return [tag, numbers.to_text(value) if tag == "N" else value]  # type: ignore[arg-type]
