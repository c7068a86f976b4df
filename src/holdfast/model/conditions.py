"""Conditions on an entity, in typed Python: `Booking.status.not_in(TERMINAL) & (Booking.version == 3)`.

A condition holds the same nodes that the wire's parser makes of DynamoDB's text, so that an engine cannot tell
which way an operation came. It has no truth value: `and`, `or`, `not` and chained comparisons would silently
drop half of it, and no type checker can see them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, NoReturn, TypeVar

from holdfast.operations.expressions import nodes

if TYPE_CHECKING:
    from holdfast.model.entity import Entity

E = TypeVar("E", bound="Entity")


@dataclass(frozen=True)
class Condition(Generic[E]):
    """What must hold of an item. Combine with `&`, `|` and `~`."""

    node: nodes.Condition

    def __and__(self, other: Condition[E]) -> Condition[E]:
        return Condition(nodes.And((*_flat(nodes.And, self.node), *_flat(nodes.And, other.node))))

    def __or__(self, other: Condition[E]) -> Condition[E]:
        return Condition(nodes.Or((*_flat(nodes.Or, self.node), *_flat(nodes.Or, other.node))))

    def __invert__(self) -> Condition[E]:
        return Condition(nodes.Not(self.node))

    def __bool__(self) -> NoReturn:
        raise TypeError(
            "a condition has no truth value: combine conditions with & | ~ (each side in parentheses) "
            "instead of and, or, not and chained comparisons"
        )


def all_of(first: nodes.Condition | None, rest: Iterable[Condition[E]]) -> nodes.Condition | None:
    """`first` and every one of `rest`; None where there is none."""
    for condition in rest:
        if not isinstance(condition, Condition):
            raise TypeError(
                f"{condition!r} is no condition: write one with an attribute, as Booking.seat == '7A'"
            )
        first = condition.node if first is None else (Condition[E](first) & condition).node
    return first


def _flat(kind: type[nodes.And | nodes.Or], node: nodes.Condition) -> tuple[nodes.Condition, ...]:
    return node.conditions if isinstance(node, kind) else (node,)
