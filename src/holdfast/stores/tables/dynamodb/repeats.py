"""Repeat policies: which requests may be sent again if it is unknown whether the first one was done.

    read    changes nothing
    token   carries a client token: the service executes it once, however often it is sent
    same    idempotent, in effect and in response
    once    not idempotent: a counter would count twice

A throttled or refused request was not done and may always be retried. This module is about timeouts,
connections lost after sending, and 5xx responses.

A condition alone does not make a write safe to repeat: after a lost response the repeat may fail because of
its own effect, which `service.py` reports as `OutcomeUnknown` and never as `ConditionFailed`. The exception
is the condition of optimistic locking: `version = :seen` together with `SET version = version + :one` can
pass only once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

from holdfast.operations.expressions import nodes
from holdfast.operations.expressions.nodes import Condition, Path, Update
from holdfast.operations.tables import DeleteItem, PutItem, UpdateItem

RepeatPolicy: TypeAlias = Literal["read", "token", "same", "once"]


def choose_repeat_policy(operation: PutItem | UpdateItem | DeleteItem) -> RepeatPolicy:
    """Return the repeat policy of a write.

    A write that returns old values is not idempotent: the repeat would return its own effect.
    """
    if operation.returns in ("ALL_OLD", "UPDATED_OLD"):
        return "once"
    if not isinstance(operation, UpdateItem) or operation.update is None:
        return "same"
    repeatable = _is_repeatable(operation.update) or _is_locked(operation.update, operation.condition)
    return "same" if repeatable else "once"


def _is_repeatable(update: Update) -> bool:
    """Return whether a second update would change nothing.

    It must add no numbers, append to no list and name no list position, which may hold another element next
    time.
    """
    if any(isinstance(step, int) for action in update.actions for step in action.path.steps):
        return False
    sets = all(_is_constant(action) for action in update.sets)
    return sets and all(isinstance(action.value, frozenset) for action in update.adds)


def _is_constant(action: nodes.SetAction) -> bool:
    """Return whether the action sets a value that does not depend on the item."""
    operand = action.operand
    if isinstance(operand, nodes.IfNotExists) and operand.path == action.path:
        operand = operand.operand
    return isinstance(operand, nodes.Literal)


def _is_locked(update: Update, condition: Condition | None) -> bool:
    """Return whether the condition requires an exact value of a number that the update then changes."""
    pinned = set(_find_pinned_paths(condition))
    return any(path in pinned for path in _find_counted_paths(update))


def _find_pinned_paths(condition: Condition | None) -> Iterator[Path]:
    """Yield the paths that must have one exact value for the condition to hold."""
    if isinstance(condition, nodes.And):
        for part in condition.conditions:
            yield from _find_pinned_paths(part)
    elif (
        isinstance(condition, nodes.Compare)
        and condition.operator == "="
        and isinstance(condition.left, Path)
        and isinstance(condition.right, nodes.Literal)
    ):
        yield condition.left


def _find_counted_paths(update: Update) -> Iterator[Path]:
    """Yield the paths whose number the update changes, whatever the old value was."""
    for action in update.adds:
        if not isinstance(action.value, frozenset) and action.value:
            yield action.path
    for set_action in update.sets:
        operand = set_action.operand
        if (
            isinstance(operand, nodes.Plus | nodes.Minus)
            and operand.left == set_action.path
            and isinstance(operand.right, nodes.Literal)
            and operand.right.value
        ):
            yield set_action.path
