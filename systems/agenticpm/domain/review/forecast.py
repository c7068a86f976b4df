"""Forecast by Monte Carlo simulation: how likely is it that so much work is done in so much time?

The past throughput is sampled with replacement, by weeks, with a fixed seed: the same facts give the same
answer. `back_test` measures how good such forecasts were on sprints that are finished.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

TRIALS: Final = 2000
SEED: Final = 20_261
WEEKS: Final = 10
MIN_WEEKS: Final = 3
MIN_FINISHED: Final = 5
_WEEK: Final = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Completion:
    """A finished piece of work: when, and how much."""

    at: datetime
    amount: float


def list_weeks(done: Sequence[Completion], now: datetime) -> list[float]:
    """Return the work done in each of the last whole weeks before `now`, from the first one with work."""
    ages = [(int((now - each.at) / _WEEK), each.amount) for each in done if each.at <= now]
    count = min(WEEKS, max((age for age, _ in ages), default=-1) + 1)
    weeks = [0.0] * count
    for age, amount in ages:
        if age < count:
            weeks[age] += amount
    return weeks


def forecast_chance(
    weekly: Sequence[float], remaining: float, left: timedelta, seed: int = SEED
) -> float | None:
    """Return the chance that `remaining` is done in the time left, or None without enough history."""
    if len(weekly) < MIN_WEEKS or sum(1 for each in weekly if each) < 2:
        return None
    if remaining <= 0:
        return 1.0
    totals = simulate(weekly, left, seed)
    return sum(each >= remaining for each in totals) / len(totals)


def simulate(weekly: Sequence[float], left: timedelta, seed: int = SEED) -> list[float]:
    """Return the simulated amounts of work done in the time left, in ascending order."""
    source = random.Random(seed)
    whole, part = divmod(max(left, timedelta(0)) / _WEEK, 1.0)
    return sorted(
        sum(source.choice(weekly) for _ in range(int(whole))) + part * source.choice(weekly)
        for _ in range(TRIALS)
    )


@dataclass(frozen=True, slots=True)
class BackTest:
    """How many past periods were forecast, and in how many the real amount was inside the 90 % range."""

    periods: int
    hits: int


def back_test(done: Sequence[Completion], periods: Sequence[tuple[datetime, datetime]]) -> BackTest:
    """Forecast each finished period from what was known at its start, and compare with what was done."""
    tested = hits = 0
    for start, end in periods:
        weekly = list_weeks([each for each in done if each.at < start], start)
        if len(weekly) < MIN_WEEKS:
            continue
        totals = simulate(weekly, end - start)
        low, high = totals[len(totals) // 20], totals[-len(totals) // 20]
        real = sum(each.amount for each in done if start <= each.at < end)
        tested += 1
        hits += low <= real <= high
    return BackTest(tested, hits)
