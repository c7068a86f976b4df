"""The access patterns that a guarantee brings along: made for one entity, with ids of one prefix.

A guarantee is declared with a prefix, a rate and the entity it works on, and makes its patterns of them. A system lists
them among its own, and gives each component those that it needs.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, ParamSpec, TypeVar

from holdfast.clock import SYSTEM_CLOCK, Clock
from holdfast.model import Operation, Pattern, Rate
from holdfast.model.patterns import Example

P = ParamSpec("P")
O = TypeVar("O", bound=Operation[Any])  # noqa: E741 - an operation, as in the model


def made_pattern(
    function: Callable[P, O],
    id: str,
    name: str,
    purpose: str,
    *,
    rate: Rate,
    example: Example = (),
    takes: dict[str, Any] | None = None,
) -> Pattern[P, O]:
    """A pattern of a function that was made here. `takes` are the types of arguments known only now."""
    function.__name__ = function.__qualname__ = name
    function.__annotations__ |= takes or {}
    return Pattern(function, id, purpose, rate, example)


def moment(clock: Clock = SYSTEM_CLOCK) -> datetime:
    """Now, as a time that can be kept."""
    return datetime.fromtimestamp(clock.now(), UTC)
