"""`ToolFunction` and `Prompt`: what a system offers to agents in addition to patterns.

    async def who_is_hit(stores: Stores, flight_number: str, day: date) -> Report:
        \"\"\"Assess a flight disruption: who and what it affects.\"\"\"

    ToolFunction(who_is_hit, example={"flight_number": "EY11", "day": "2026-01-30"},
         errors={NotFound: "no such flight departs on that day"})

Agents read the docstring of a function, the descriptions of its arguments and the declared errors. The tests
of a system call each tool with its example.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from holdfast.core.errors import HoldfastError

__all__ = [
    "Prompt",
    "ToolFunction",
]


@dataclass(frozen=True)
class ToolFunction:
    """A function over several patterns that agents may call. Its first argument is the stores."""

    function: Callable[..., Awaitable[Any]]
    _: KW_ONLY
    # JSON arguments with which it succeeds on the sample data.
    example: Mapping[str, Any] = field(default_factory=dict)
    # The errors that a valid call may get, and when: `{NotFound: "no booking has this id"}`.
    errors: Mapping[type[HoldfastError], str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.function.__name__

    def __call__(self, *args: Any, **kwargs: Any) -> Awaitable[Any]:
        return self.function(*args, **kwargs)


@dataclass(frozen=True)
class Prompt:
    """A typical job for an agent: a function that takes texts and returns the message that starts the job.

    Its docstring says what the job achieves. A user chooses the prompt and fills in its arguments.
    """

    function: Callable[..., str]
    _: KW_ONLY
    example: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.function.__name__

    def __call__(self, *args: str, **kwargs: str) -> str:
        return self.function(*args, **kwargs)
