"""What the overview shows of each system: its health in words, and its figures of the last minute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from holdfast.console.overview.incidents import compute_error_rate, count_dead_letters, has_many_errors
from holdfast.console.overview.rates import average_rates
from holdfast.console.overview.records import SAMPLE_EVERY_S
from holdfast.console.overview.samples import SQL_IDLE, ProcessState, Rates, Sample, SystemSample
from holdfast.console.overview.spend import Spend, compute_spend
from holdfast.model.system import System
from holdfast.reports.cost.price_lists import PriceList

Health = Literal["good", "warn", "bad", "plain"]

# A console that missed so many samples is not up to date.
STALE_AFTER_S: Final = 4 * SAMPLE_EVERY_S

# The labels of probes that say more in words.
REASONS: Final = {"NotFound": "a table, queue or bucket of the system does not exist"}


@dataclass(frozen=True)
class SystemSummary:
    """One system now. Figures are None while they are unknown."""

    system: System
    health: Health
    # One word for the badge, and what is wrong.
    word: str
    problems: Sequence[str]
    sample: SystemSample
    rates: Rates | None
    error_rate: float | None
    has_many_errors: bool
    backlog: int
    oldest_s: float | None
    dead_letters: int
    for_person: int
    waits: Sequence[str]
    spend: Spend | None

    @property
    def name(self) -> str:
        return self.system.name

    @property
    def title(self) -> str:
        return self.system.title or self.system.name


@dataclass
class _Findings:
    bad: list[str] = field(default_factory=list)
    warn: list[str] = field(default_factory=list)


def summarize(system: System, current: Sequence[Sample], prices: PriceList) -> SystemSummary | None:
    """Return the state of a system in the last samples; None if they have none of it."""
    samples = [each.systems[system.name] for each in current if system.name in each.systems]
    if not samples:
        return None
    now = samples[-1]
    rates = average_rates([each.rates for each in samples if each.rates is not None])
    dead = sum(count_dead_letters(now).values())
    findings = _find_problems(now, dead)
    waits = _list_waits(now)
    return SystemSummary(
        system,
        *_judge(now, findings),
        [*findings.bad, *findings.warn],
        now,
        rates,
        compute_error_rate(SystemSample(rates=rates)),
        has_many_errors(now),
        sum(each.visible + each.delayed for each in now.queues.values())
        + sum(each.pending for each in now.outboxes.values()),
        _find_oldest(now),
        dead,
        sum(count for count, _ in waits),
        [f"{count:,} {what}" for count, what in waits if count],
        None if rates is None else compute_spend(system, rates, prices),
    )


def _judge(now: SystemSample, findings: _Findings) -> tuple[Health, str]:
    """Return the colour and the word of the health."""
    if findings.bad:
        return "bad", "not ready"
    if findings.warn:
        return "warn", "needs attention"
    return ("good", "ready") if now.processes else ("plain", "stores ready")


def _find_problems(now: SystemSample, dead: int) -> _Findings:
    """Return what is wrong now, in sentences."""
    found = _Findings()
    for process in now.processes:
        found.bad += _describe_process(process)
    for store, reason in now.stores.items():
        if reason and reason != SQL_IDLE:
            found.bad.append(f"The store {store} is not ready: {explain_reason(reason)}.")
    if has_many_errors(now):
        found.warn.append("Many requests or operations fail.")
    for service in now.open_breakers:
        found.warn.append(f"The breaker of {service} is open.")
    if dead:
        found.warn.append(f"{dead:,} dead {'letter waits' if dead == 1 else 'letters wait'} to be redriven.")
    if parked := sum(each.parked for each in now.flows.values()):
        found.warn.append(f"{parked:,} parked {'execution waits' if parked == 1 else 'executions wait'}.")
    found.warn += [f"The figures of {each} could not be read." for each in now.unread]
    return found


def explain_reason(reason: str) -> str:
    """Return why a store is not ready, in words."""
    return REASONS.get(reason, reason)


def _describe_process(process: ProcessState) -> list[str]:
    if process.failure:
        return [f"The process at {process.url} does not answer: {process.failure}."]
    return [
        f"The process at {process.url} finds {store} not ready: {explain_reason(reason)}."
        for store, reason in process.not_ready.items()
    ]


def _list_waits(now: SystemSample) -> list[tuple[int, str]]:
    """Return how much waits for a person, by kind."""
    return [
        (sum(each.for_person for each in now.flows.values()), "to answer"),
        (now.questions, "to decide"),
        (sum(each.parked for each in now.flows.values()), "parked"),
        (sum(each.waiting for each in now.actions.values()), "delayed"),
    ]


def _find_oldest(now: SystemSample) -> float | None:
    """Return the age of the oldest message of all queues and outboxes; None if nothing waits or it is
    unknown.
    """
    ages = [each.oldest_s for each in now.queues.values() if each.visible and each.oldest_s is not None]
    ages += [each.oldest_s for each in now.outboxes.values() if each.pending]
    return max(ages, default=None)
