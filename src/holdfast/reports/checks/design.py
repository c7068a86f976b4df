"""What a rule looks at and what it gives: a `Design` in, `Finding`s out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeAlias, TypeVar

from holdfast.model.operations import Operation
from holdfast.model.patterns import Pattern
from holdfast.model.system import System, Volume
from holdfast.reports.examples import Example, examples_of
from holdfast.reports.measuring import Measure, Target
from holdfast.reports.prices import SECONDS_PER_MONTH

Severity: TypeAlias = Literal["error", "warning", "info"]


O = TypeVar("O", bound=Operation[Any])  # noqa: E741 - an operation


@dataclass(frozen=True)
class Finding:
    """Something to know of a design. An error makes the check fail."""

    system: str
    severity: Severity
    subject: str
    message: str
    remedy: str


@dataclass(frozen=True)
class Design:
    """A system, its patterns called with their examples, and what each used where it was run."""

    system: System
    measures: Mapping[str, Measure] = field(default_factory=dict)
    # Whether the examples met data: if not, one that fails when it is run says nothing about the design.
    has_data: bool = False
    # How many partition keys the data has, by table or index, where most of them have several items.
    keys_seen: Mapping[Target, int] = field(default_factory=dict)

    @cached_property
    def examples(self) -> tuple[Example, ...]:
        return examples_of(self.system)

    def parts(self, kind: type[O]) -> Iterable[tuple[Pattern[..., Any], O]]:
        """Every part of an operation that is of this kind, with the pattern that makes it."""
        for example in self.examples:
            for part in example.parts:
                if isinstance(part, kind):
                    yield example.pattern, part

    def volume(self, pattern: Pattern[..., Any]) -> Volume | None:
        return self.system.load.volumes.get(pattern.rate.per)

    def calls_per_second_at_peak(self, pattern: Pattern[..., Any]) -> float:
        """Nought where the rate names no volume, which is a finding of its own."""
        volume = self.volume(pattern)
        if volume is None:
            return 0.0
        per_second = pattern.rate.times * volume.per_month / SECONDS_PER_MONTH
        return per_second * self.system.load.peak_factor

    def error(self, subject: str, message: str, remedy: str) -> Finding:
        return Finding(self.system.name, "error", subject, message, remedy)

    def warning(self, subject: str, message: str, remedy: str) -> Finding:
        return Finding(self.system.name, "warning", subject, message, remedy)

    def info(self, subject: str, message: str, remedy: str) -> Finding:
        return Finding(self.system.name, "info", subject, message, remedy)


Rule: TypeAlias = Callable[[Design], Iterable[Finding]]


def named(pattern: Pattern[..., Any]) -> str:
    """A pattern as findings call it."""
    return f"{pattern.id} {pattern.name}"


def listed(names: Iterable[str]) -> str:
    """`a, b and c`."""
    *rest, last = names
    return f"{', '.join(rest)} and {last}" if rest else last
