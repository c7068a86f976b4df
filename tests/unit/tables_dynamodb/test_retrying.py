"""How long an operation is tried for, and how long between two tries."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.core.errors import SettingsError
from holdfast.stores.retrying import Patience
from holdfast.stores.tables.dynamodb import Backoff

from .endpoints import Pauses


def pauses_of(backoff: Backoff, *, chance: float = 1.0, renewed_after: int | None = None) -> list[float]:
    taken = Pauses(chance)

    async def lose_patience() -> None:
        patience = Patience(backoff, taken.waiting)
        while await patience.pause():
            if len(taken) == renewed_after:
                patience.renew()

    asyncio.run(lose_patience())
    return list(taken)


def test_pauses_double_up_to_their_bound() -> None:
    backoff = Backoff(attempts_max=7, first_pause_s_max=0.1, pause_s_max=1.0)

    assert pauses_of(backoff) == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.0, 1.0])


def test_chance_decides_how_much_of_a_pause_is_taken() -> None:
    backoff = Backoff(attempts_max=4, first_pause_s_max=0.1)

    assert pauses_of(backoff, chance=0.5) == pytest.approx([0.05, 0.1, 0.2])
    assert pauses_of(backoff, chance=0.0) == [0.0, 0.0, 0.0]


def test_no_pause_goes_past_the_deadline() -> None:
    backoff = Backoff(attempts_max=100, first_pause_s_max=1.0, pause_s_max=1.0, deadline_s=3.5)

    assert pauses_of(backoff) == [1.0, 1.0, 1.0]


def test_progress_makes_pauses_small_again_but_moves_no_deadline() -> None:
    backoff = Backoff(attempts_max=4, first_pause_s_max=1.0, pause_s_max=10.0, deadline_s=8.0)

    assert pauses_of(backoff, renewed_after=2) == [1.0, 2.0, 1.0, 2.0]


def test_one_attempt_means_no_pause() -> None:
    assert pauses_of(Backoff(attempts_max=1)) == []


def test_a_policy_that_cannot_be_is_refused() -> None:
    with pytest.raises(SettingsError, match="at least one attempt"):
        Backoff(attempts_max=0)
    with pytest.raises(SettingsError, match="below zero"):
        Backoff(deadline_s=-1)
