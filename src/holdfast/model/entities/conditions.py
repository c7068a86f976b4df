"""Conditions on an entity, in typed Python: `Booking.status.not_in(TERMINAL) & (Booking.version == 3)`.

A condition holds the same nodes that the wire parser produces from DynamoDB's text, so engines treat both
alike. It has no truth value: `and`, `or`, `not` and chained comparisons would silently drop half of it, and
no type checker sees them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, NoReturn, TypeVar

from holdfast.operations.expressions import nodes

if TYPE_CHECKING:
    from holdfast.model.entities.entity import Entity

E = TypeVar("E", bound="Entity")


@dataclass(frozen=True)
class Condition(Generic[E]):
    """A test on an item. Combine with `&`, `|` and `~`."""

    node: nodes.Condition

    def __and__(self, other: Condition[E]) -> Condition[E]:
        return Condition(nodes.And((*_flatten(nodes.And, self.node), *_flatten(nodes.And, other.node))))

    def __or__(self, other: Condition[E]) -> Condition[E]:
        return Condition(nodes.Or((*_flatten(nodes.Or, self.node), *_flatten(nodes.Or, other.node))))

    def __invert__(self) -> Condition[E]:
        return Condition(nodes.Not(self.node))

    def __bool__(self) -> NoReturn:
        raise TypeError(
            "A condition has no truth value. Combine conditions with & | ~ (each side in parentheses) "
            "instead of and, or, not and chained comparisons."
        )


def combine_all(first: nodes.Condition | None, rest: Iterable[Condition[E]]) -> nodes.Condition | None:
    """Return `first` and every condition of `rest` joined by AND, as a node; None if there are none.

    Raise `TypeError` for an argument that is not a condition.
    """
    for condition in rest:
        if not isinstance(condition, Condition):
            raise TypeError(
                f"Invalid condition {condition!r}: expected a test on an attribute, such as Booking.seat == "
                "'7A'."
            )
        first = condition.node if first is None else (Condition[E](first) & condition).node
    return first


def _flatten(kind: type[nodes.And | nodes.Or], node: nodes.Condition) -> tuple[nodes.Condition, ...]:
    """Return the members of an AND or OR node of this kind, otherwise the node alone."""
    return node.conditions if isinstance(node, kind) else (node,)
