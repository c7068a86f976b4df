"""`build_pattern`, with which guarantees build their access patterns at runtime; and the time in UTC.

A guarantee is declared with a prefix, a rate and its entity, and builds its patterns from them. A system
lists these patterns with its own and grants each component the ones it needs.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, ParamSpec, TypeVar

from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.model import Operation, Pattern, Rate
from holdfast.model.patterns import Example

P = ParamSpec("P")
O = TypeVar("O", bound=Operation[Any])  # noqa: E741 - an operation, as in the model


def build_pattern(
    function: Callable[P, O],
    id: str,
    name: str,
    purpose: str,
    *,
    rate: Rate,
    example: Example = (),
    argument_types: dict[str, Any] | None = None,
) -> Pattern[P, O]:
    """Build a pattern from a function defined at runtime, which it renames to `name`.

    `argument_types` replaces annotations that are known only at runtime.
    """
    function.__name__ = function.__qualname__ = name
    function.__annotations__ |= argument_types or {}
    return Pattern(function, id, purpose, rate, example)


def utc_now(clock: Clock = SYSTEM_CLOCK) -> datetime:
    """Return the clock's time as a UTC datetime."""
    return datetime.fromtimestamp(clock.now(), UTC)
