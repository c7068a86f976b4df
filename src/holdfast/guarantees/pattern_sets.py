"""`Guarantee`: the attributes that every guarantee has; `build_pattern`, which builds its access patterns.

A guarantee is declared with what it is about, a prefix and a rate, and builds its patterns from them. A
component uses all of them, or those of one role.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, ParamSpec, TypeAlias, TypeVar

from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.model.operations import Operation
from holdfast.model.patterns import Example, Pattern, Rate

P = ParamSpec("P")
O = TypeVar("O", bound=Operation[Any])  # noqa: E741 - an operation, as in the model

Patterns: TypeAlias = tuple[Pattern[..., Any], ...]


@dataclass(frozen=True)
class PatternSet:
    """The typed patterns of a guarantee: the fields of a derived dataclass. A field may be None."""

    def __iter__(self) -> Iterator[Pattern[..., Any]]:
        values = (getattr(self, each.name) for each in fields(self))
        return (each for each in values if each is not None)


@dataclass(frozen=True)
class Role:
    """The patterns that a component in a role runs, and the guarantees that can report on their state."""

    patterns: Patterns
    figure_sources: tuple[Any, ...] = ()


class Guarantee:
    """A guarantee: its name, and its patterns as attributes of `pattern_set` and as tuples."""

    name: str
    pattern_set: Any

    @property
    def patterns(self) -> Patterns:
        """All patterns, in the order of their ids."""
        return tuple(self.pattern_set)

    def adopt_patterns(self) -> None:
        """Let each pattern name this guarantee, so that `System.guarantees` finds it by any of them."""
        for each in self.patterns:
            each.guarantee = self

    @cached_property
    def reads(self) -> Patterns:
        """The patterns that only read."""
        return tuple(each for each in self.patterns if not each.build_example().writes)

    @cached_property
    def writes(self) -> Patterns:
        """The patterns that write."""
        return tuple(each for each in self.patterns if each.build_example().writes)


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
