"""The input and output of every design rule: a `Design` in, `Finding`s out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeAlias, TypeVar

from holdfast.model.load import Load, Volume
from holdfast.model.operations import Operation
from holdfast.model.patterns import Pattern
from holdfast.model.system import System
from holdfast.reports.cost.price_lists import SECONDS_PER_MONTH
from holdfast.reports.examples import Example, list_examples
from holdfast.reports.measurement.pattern_measures import Measure, Target

Severity: TypeAlias = Literal["error", "warning", "info"]


OperationT = TypeVar("OperationT", bound=Operation[Any])


@dataclass(frozen=True)
class Finding:
    """One result of the design check. A finding of severity "error" makes the check fail."""

    system: str
    severity: Severity
    subject: str
    message: str
    remedy: str


@dataclass(frozen=True)
class Design:
    """A system with the examples of its patterns and their measures."""

    system: System
    measures: Mapping[str, Measure] = field(default_factory=dict)
    # False if the patterns ran on empty tables: a failing example is then not a finding about the design.
    has_data: bool = False
    # Number of partition keys in the data, by table or index, where keys have several items on average.
    key_counts: Mapping[Target, int] = field(default_factory=dict)

    @property
    def load(self) -> Load:
        """The expected load of the system."""
        return self.system.design.load

    @cached_property
    def examples(self) -> tuple[Example, ...]:
        """The example of every pattern, in declaration order."""
        return list_examples(self.system)

    def find_parts(self, kind: type[OperationT]) -> Iterable[tuple[Pattern[..., Any], OperationT]]:
        """Yield every part of the examples' operations that is an instance of `kind`, with its pattern."""
        for example in self.examples:
            for part in example.parts:
                if isinstance(part, kind):
                    yield example.pattern, part

    def get_volume(self, pattern: Pattern[..., Any]) -> Volume | None:
        """Return the volume that the pattern's rate refers to, or None if the system declares none."""
        return self.load.volumes.get(pattern.rate.per)

    def compute_peak_rate(self, pattern: Pattern[..., Any]) -> float:
        """Return the pattern's calls per second at the declared peak.

        The result is 0 if its rate has no volume, which another rule reports.
        """
        volume = self.get_volume(pattern)
        if volume is None:
            return 0.0
        per_second = pattern.rate.times * volume.per_month / SECONDS_PER_MONTH
        return per_second * self.load.peak_factor

    def error(self, subject: str, message: str, remedy: str) -> Finding:
        """Return a finding of severity "error"."""
        return Finding(self.system.name, "error", subject, message, remedy)

    def warning(self, subject: str, message: str, remedy: str) -> Finding:
        """Return a finding of severity "warning"."""
        return Finding(self.system.name, "warning", subject, message, remedy)

    def info(self, subject: str, message: str, remedy: str) -> Finding:
        """Return a finding of severity "info"."""
        return Finding(self.system.name, "info", subject, message, remedy)


Rule: TypeAlias = Callable[[Design], Iterable[Finding]]


def format_pattern(pattern: Pattern[..., Any]) -> str:
    """Return the pattern's id and name, as findings print them."""
    return f"{pattern.id} {pattern.name}"


def join_words(names: Iterable[str]) -> str:
    """Join one or more words as `a, b and c`."""
    *rest, last = names
    return f"{', '.join(rest)} and {last}" if rest else last
