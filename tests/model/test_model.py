"""Random runs on every face of the engine against the model; and runs that must fail, to show that they can.

A failure prints the seed and the shortest run that still fails. `play.check(opener, seed, steps)` repeats it.
"""

from __future__ import annotations

import os
from random import SystemRandom
from typing import Any

import pytest

from holdfast.stores.tables.embedded.plan import capacity
from holdfast.stores.tables.embedded.storage.writer import Writer

from .drivers import in_memory, on_a_file, over_http, several_processes
from .play import Opener, check

SCALE = 10 if os.environ.get("HOLDFAST_SOAK") == "1" else 1


@pytest.mark.parametrize(
    ("opener", "steps"),
    [(in_memory, 4000), (on_a_file, 2000), (over_http, 1000), (several_processes, 1000)],
    ids=["in memory", "on a file", "over HTTP", "by several processes"],
)
def test_every_answer_is_the_models(opener: Opener, steps: int) -> None:
    seed = SystemRandom().randrange(2**32)
    print(f"seed {seed}")  # noqa: T201
    check(opener, seed, steps * SCALE)


@pytest.mark.parametrize("seed", range(4 * SCALE))
def test_short_runs_with_known_seeds(seed: int) -> None:
    check(in_memory, seed, 150)


def test_a_forgotten_index_row_is_found_and_told_in_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    apply_edit = Writer._apply_edit

    def forgetful(self: Writer, edit: Any, change: Any, row: int) -> None:
        moved = edit.old is not None and edit.new is not None and edit.old != edit.new
        if not (moved and edit.index.name == "by_k"):
            apply_edit(self, edit, change, row)

    monkeypatch.setattr(Writer, "_apply_edit", forgetful)
    with pytest.raises(AssertionError, match="by_k") as told:
        check(in_memory, 1, 600)
    assert "seed 1, 2 steps" in str(told.value)


def test_a_wrong_capacity_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity, "WRITE_UNIT_BYTES", 1000)
    with pytest.raises(AssertionError, match="CapacityUnits"):
        check(in_memory, 1, 600)
