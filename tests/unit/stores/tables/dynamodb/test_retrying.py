"""Retries with backoff, with fake pauses: their length, jitter, deadline and number."""

from __future__ import annotations

import pytest

from holdfast.core.errors import SettingsError
from holdfast.stores.retries import Retries
from holdfast.stores.tables.dynamodb import Backoff

from .endpoints import FakePauses


async def collect_pauses(
    backoff: Backoff, *, chance: float = 1.0, renewed_after: int | None = None
) -> list[float]:
    """Return the pauses of an operation that always fails. Progress is reported after `renewed_after` pauses.

    `chance` is the number that every draw of the jitter returns.
    """
    taken = FakePauses(chance)

    patience = Retries(backoff, taken.timing)
    while await patience.pause():
        if len(taken) == renewed_after:
            patience.reset()
    return list(taken)


async def test_pauses_double_up_to_their_bound() -> None:
    backoff = Backoff(max_attempts=7, first_pause_s_max=0.1, pause_s_max=1.0)

    assert await collect_pauses(backoff) == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.0, 1.0])


async def test_pause_has_random_jitter() -> None:
    backoff = Backoff(max_attempts=4, first_pause_s_max=0.1)

    assert await collect_pauses(backoff, chance=0.5) == pytest.approx([0.05, 0.1, 0.2])
    assert await collect_pauses(backoff, chance=0.0) == [0.0, 0.0, 0.0]


async def test_no_pause_goes_past_the_deadline() -> None:
    backoff = Backoff(max_attempts=100, first_pause_s_max=1.0, pause_s_max=1.0, deadline_s=3.5)

    assert await collect_pauses(backoff) == [1.0, 1.0, 1.0]


async def test_progress_resets_pauses_but_not_the_deadline() -> None:
    backoff = Backoff(max_attempts=4, first_pause_s_max=1.0, pause_s_max=10.0, deadline_s=8.0)

    assert await collect_pauses(backoff, renewed_after=2) == [1.0, 2.0, 1.0, 2.0]


async def test_single_attempt_has_no_pause() -> None:
    assert await collect_pauses(Backoff(max_attempts=1)) == []


def test_rejects_an_invalid_backoff() -> None:
    with pytest.raises(SettingsError, match="at least one attempt"):
        Backoff(max_attempts=0)
    with pytest.raises(SettingsError, match="no negative pause"):
        Backoff(deadline_s=-1)
