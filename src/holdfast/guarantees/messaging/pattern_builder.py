"""`PatternBuilder`: builds the numbered patterns of an outbox or an inbox; `BuiltPatterns` holds them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

from holdfast.guarantees.pattern_sets import build_pattern
from holdfast.model.operations import Operation
from holdfast.model.patterns import Example, Pattern, Rate

P = ParamSpec("P")
O = TypeVar("O", bound=Operation[Any])  # noqa: E741 - an operation, as in the model


@dataclass(frozen=True)
class PatternBuilder:
    """Builds patterns whose ids begin with `prefix`, and whose names begin with `name`.

    `place` is the outbox or table that their purposes mention.
    """

    prefix: str
    name: str
    place: str
    rate: Rate

    def build(
        self, number: int, name: str, purpose: str, method: Callable[P, O], example: Example = ()
    ) -> Pattern[P, O]:
        """Return the pattern that calls the method."""

        @functools.wraps(method)
        def function(*args: P.args, **kwargs: P.kwargs) -> O:
            return method(*args, **kwargs)

        id, purpose = f"{self.prefix}{number}", f"{purpose} ({self.place})"
        return build_pattern(function, id, f"{self.name}_{name}", purpose, rate=self.rate, example=example)


class BuiltPatterns:
    """Patterns, as attributes that are set in the order of their ids."""

    def __iter__(self) -> Iterator[Pattern[..., Any]]:
        return (each for each in vars(self).values() if isinstance(each, Pattern))
