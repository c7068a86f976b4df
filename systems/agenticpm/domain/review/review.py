"""Review a project: its signals, its health, and proposals for its RAID log."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from agenticpm.domain.review.findings import Proposal, ReviewKind, ReviewSignal, Severity
from agenticpm.domain.review.observation import Observation
from agenticpm.domain.review.proposals import propose
from agenticpm.domain.review.records import ProjectRecord
from agenticpm.domain.review.sprint_signals import find_sprint_signals
from agenticpm.domain.review.ticket_signals import find_ticket_signals
from agenticpm.domain.thresholds import Thresholds

_SEVERITIES: Final = (Severity.critical, Severity.high, Severity.medium, Severity.low)


class HealthColour(StrEnum):
    green = "green"
    amber = "amber"
    red = "red"


@dataclass(frozen=True, slots=True)
class Review:
    """The result of a review; signals are ordered by severity, kind and ticket."""

    health: HealthColour
    signals: tuple[ReviewSignal, ...]
    proposals: tuple[Proposal, ...]


def review(
    project: ProjectRecord,
    now: datetime,
    thresholds: Thresholds | None = None,
    dismissed: Collection[str] = (),
) -> Review:
    """Review a project at a time. `dismissed` are the keys of signals that a person dismissed for good."""
    seen = Observation(project, now, thresholds or Thresholds())
    found = [*find_ticket_signals(seen), *find_sprint_signals(seen)]
    kept = [each for each in {each.key: each for each in found}.values() if each.key not in dismissed]
    return Review(judge_health(kept), tuple(sorted(kept, key=_get_sort_key)), tuple(propose(seen)))


def judge_health(signals: Iterable[ReviewSignal]) -> HealthColour:
    """Return red with a critical signal, amber with a high or medium one, else green."""
    severities = {each.severity for each in signals}
    if Severity.critical in severities:
        return HealthColour.red
    return HealthColour.amber if severities & {Severity.high, Severity.medium} else HealthColour.green


def _get_sort_key(signal: ReviewSignal) -> tuple[int, int, str, int, str]:
    project, _, number = (signal.ticket or "").rpartition("-")
    return (
        _SEVERITIES.index(signal.severity),
        list(ReviewKind).index(signal.kind),
        project,
        int(number) if number.isdigit() else 0,
        signal.subject,
    )
