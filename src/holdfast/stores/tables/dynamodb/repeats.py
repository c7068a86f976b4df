"""Which requests may be sent again when it is not known whether the first one was done.

    read    changes nothing
    token   carries a client token: the service does it once, however often it comes
    same    done twice is as done once, in effect and in answer
    once    done twice is not as done once: a counter would count twice

A throttled or refused request was not done and may always come again; this is about time-outs, connections
lost after sending, and answers 5xx.

A condition makes a write no safer by itself: after a lost answer its repeat may fail because of its own
effect, which `service.py` tells as `OutcomeUnknown` and never as `ConditionFailed`. But there is one
condition that does, and it is the one of optimistic locking: `version = :seen` beside `SET version = version
+ :one` can pass once only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

from holdfast.operations.expressions import nodes
from holdfast.operations.expressions.nodes import Condition, Path, Update
from holdfast.operations.tables import DeleteItem, PutItem, UpdateItem

Repeat: TypeAlias = Literal["read", "token", "same", "once"]


def repeat_of(operation: PutItem | UpdateItem | DeleteItem) -> Repeat:
    """A write that returns what was there before would return its own effect the second time."""
    if operation.returns in ("ALL_OLD", "UPDATED_OLD"):
        return "once"
    if not isinstance(operation, UpdateItem) or operation.update is None:
        return "same"
    repeatable = _is_repeatable(operation.update) or _is_locked(operation.update, operation.condition)
    return "same" if repeatable else "once"


def _is_repeatable(update: Update) -> bool:
    """Numbers are not added, lists not appended to, and no list position is named: it may be another next
    time.
    """
    if any(isinstance(step, int) for action in update.actions for step in action.path.steps):
        return False
    sets = all(_is_fixed(action) for action in update.sets)
    return sets and all(isinstance(action.value, frozenset) for action in update.adds)


def _is_fixed(action: nodes.SetAction) -> bool:
    operand = action.operand
    if isinstance(operand, nodes.IfNotExists) and operand.path == action.path:
        operand = operand.operand
    return isinstance(operand, nodes.Literal)


def _is_locked(update: Update, condition: Condition | None) -> bool:
    """Whether the condition names one value of an attribute that the update then moves on from."""
    demanded = set(_pinned(condition))
    return any(path in demanded for path in _counted(update))


def _pinned(condition: Condition | None) -> Iterator[Path]:
    """The paths that must have one certain value for the condition to hold at all."""
    if isinstance(condition, nodes.And):
        for part in condition.conditions:
            yield from _pinned(part)
    elif (
        isinstance(condition, nodes.Compare)
        and condition.operator == "="
        and isinstance(condition.left, Path)
        and isinstance(condition.right, nodes.Literal)
    ):
        yield condition.left


def _counted(update: Update) -> Iterator[Path]:
    """The paths whose number the update changes, whatever it was."""
    for action in update.adds:
        if not isinstance(action.value, frozenset) and action.value:
            yield action.path
    for step in update.sets:
        operand = step.operand
        if (
            isinstance(operand, nodes.Plus | nodes.Minus)
            and operand.left == step.path
            and isinstance(operand.right, nodes.Literal)
            and operand.right.value
        ):
            yield step.path
