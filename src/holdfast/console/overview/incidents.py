"""Incidents of the last hour: what was wrong, from when to when, found in the samples.

A condition that stops and comes back within a minute is one incident. One that holds in the oldest sample may
have begun before. Dead letters are an incident when they become more, until they are as few as before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from holdfast.console.overview.records import SAMPLE_EVERY_S
from holdfast.console.overview.samples import SQL_IDLE, ProcessState, Sample, SystemSample
from holdfast.console.work.declared import build_url

__all__ = [
    "ERROR_RATE_THRESHOLD",
    "MIN_FAILURES",
    "Incident",
    "compute_error_rate",
    "has_many_errors",
    "list_incidents",
]

ERROR_RATE_THRESHOLD: Final = 0.05
"""The share of failed requests or operations from which on it is an incident."""
# One failure of two requests is not an incident.
MIN_FAILURES: Final = 3
MERGED_WITHIN_S: Final = 60.0
QUEUE: Final = "queue"
OUTBOX: Final = "outbox"

Kind = Literal["process", "restart", "store", "dead letters", "breaker", "errors"]


@dataclass(frozen=True)
class Incident:
    """Something that was wrong with a system. `end` is None while it lasts; `is_older` says that it may have
    begun before `start`, which is the oldest sample.
    """

    system: str
    kind: Kind
    subject: str
    text: str
    start: float
    end: float | None = None
    is_older: bool = False

    @property
    def is_over(self) -> bool:
        return self.end is not None

    @property
    def url(self) -> str:
        """The page that shows what it concerns."""
        if self.kind == "breaker":
            return build_url("breakers", self.system)
        if self.kind == "dead letters":
            what, _, name = self.subject.partition(" ")
            if what == QUEUE:
                return build_url("queues", self.system, name, "dead")
            return build_url("outbox", self.system, name)
        return f"#system-{self.system}"


@dataclass(frozen=True)
class _Condition:
    kind: Kind
    subject: str
    text: str


def list_incidents(samples: Sequence[Sample], system: str) -> list[Incident]:
    """Return the incidents of a system in these samples, the last one first."""
    tracker = _Tracker(system)
    before: SystemSample | None = None
    for sample in samples:
        now = sample.systems.get(system)
        if now is None:
            continue
        tracker.follow(sample.at, [*_iter_conditions(now), *tracker.compare_dead_letters(before, now)])
        if before is not None:
            tracker.add(_iter_restarts(system, before, now))
        before = now
    return sorted(tracker.incidents, key=lambda each: (each.start, each.subject), reverse=True)


def compute_error_rate(sample: SystemSample) -> float | None:
    """Return the higher of the shares of failed requests and operations; None without any."""
    rates = sample.rates
    if rates is None:
        return None
    shares = [
        failed / total
        for failed, total in (
            (rates.failed_requests, rates.requests),
            (rates.failed_operations, rates.operations),
        )
        if total
    ]
    return max(shares, default=None)


def has_many_errors(sample: SystemSample) -> bool:
    """Return whether the share of errors is an incident."""
    rates, share = sample.rates, compute_error_rate(sample)
    if rates is None or share is None or share < ERROR_RATE_THRESHOLD:
        return False
    return max(rates.failed_requests, rates.failed_operations) * SAMPLE_EVERY_S >= MIN_FAILURES


def _iter_conditions(now: SystemSample) -> Iterator[_Condition]:
    """Yield what is wrong in a sample by itself."""
    for process in now.processes:
        if process.failure:
            yield _Condition(
                "process", process.url, f"The process at {process.url} did not answer: {process.failure}"
            )
    for store, reason in _collect_stores(now).items():
        yield _Condition("store", store, f"The store {store} was not ready: {reason}")
    for service in now.open_breakers:
        yield _Condition("breaker", service, f"The breaker of {service} was open: it was not called")
    if has_many_errors(now):
        yield _Condition(
            "errors", "", f"At least {ERROR_RATE_THRESHOLD:.0%} of the requests or operations failed"
        )


def _collect_stores(now: SystemSample) -> dict[str, str]:
    """Return the stores that the console or a process finds not ready, each with one reason."""
    own = {store: reason for store, reason in now.stores.items() if reason and reason != SQL_IDLE}
    for process in now.processes:
        own = {**process.not_ready, **own}
    return own


def _iter_restarts(system: str, before: SystemSample, now: SystemSample) -> Iterator[Incident]:
    """Yield the processes that have another start time than before."""
    known: dict[str, ProcessState] = {each.url: each for each in before.processes}
    for each in now.processes:
        earlier = known.get(each.url)
        if earlier is None or not earlier.started_at or not each.started_at:
            continue
        if each.started_at != earlier.started_at:
            text = f"The process at {each.url} was restarted"
            yield Incident(system, "restart", each.url, text, each.started_at, each.started_at)


class _Tracker:
    """The incidents so far. The last one of each condition continues if the condition still holds."""

    def __init__(self, system: str) -> None:
        self._system = system
        self._found: list[Incident] = []
        self._last: dict[tuple[Kind, str], int] = {}
        self._is_first = True
        # The dead letters of a queue or outbox before they became more.
        self._dead_before: dict[str, int] = {}

    @property
    def incidents(self) -> list[Incident]:
        return self._found

    def add(self, incidents: Iterable[Incident]) -> None:
        """Add incidents that are over."""
        self._found += incidents

    def follow(self, at: float, conditions: Iterable[_Condition]) -> None:
        """Begin, continue or end incidents with the conditions of a sample."""
        holding = {(each.kind, each.subject): each for each in conditions}
        for key, position in self._last.items():
            if key not in holding and self._found[position].end is None:
                self._found[position] = replace(self._found[position], end=at)
        for key, condition in holding.items():
            self._continue(at, key, condition)
        self._is_first = False

    def _continue(self, at: float, key: tuple[Kind, str], condition: _Condition) -> None:
        """Continue the last incident of a condition, or begin a new one."""
        position = self._last.get(key)
        last = None if position is None else self._found[position]
        if (
            position is not None
            and last is not None
            and (last.end is None or at - last.end <= MERGED_WITHIN_S)
        ):
            self._found[position] = replace(last, end=None, text=condition.text)
            return
        self._last[key] = len(self._found)
        self._found.append(
            Incident(
                self._system,
                condition.kind,
                condition.subject,
                condition.text,
                at,
                is_older=self._is_first,
            )
        )

    def compare_dead_letters(self, before: SystemSample | None, now: SystemSample) -> list[_Condition]:
        """Return where there are more dead letters than before they began to become more."""
        earlier = {} if before is None else count_dead_letters(before)
        found = []
        for name, dead in count_dead_letters(now).items():
            if name not in self._dead_before and dead > earlier.get(name, dead):
                self._dead_before[name] = earlier[name]
            if name not in self._dead_before:
                continue
            added = dead - self._dead_before[name]
            if added <= 0:
                del self._dead_before[name]
            else:
                noun = "message" if added == 1 else "messages"
                found.append(
                    _Condition("dead letters", name, f"{added} {noun} of {name} became dead letters")
                )
        return found


def count_dead_letters(sample: SystemSample) -> dict[str, int]:
    """Return the dead letters by queue and outbox."""
    queues = {f"{QUEUE} {name}": each.dead for name, each in sample.queues.items() if each.dead is not None}
    return {**queues, **{f"{OUTBOX} {name}": each.dead for name, each in sample.outboxes.items()}}
