"""Random runs of the tables engine, in every form, compared with the model; and planted bugs that are found.

A failure prints the seed and the shortest run that still fails. `comparison.check(opener, seed, steps)`
repeats it.
"""

from __future__ import annotations

import os
from random import SystemRandom
from typing import Any

import pytest

from holdfast.stores.tables.embedded.plan import capacity
from holdfast.stores.tables.embedded.storage.writer import Writer

from .comparison import Opener, check
from .drivers import open_in_memory, open_on_file, open_over_http, open_several_processes

SCALE = 10 if os.environ.get("HOLDFAST_SOAK") == "1" else 1


@pytest.mark.parametrize(
    ("opener", "steps"),
    [(open_in_memory, 4000), (open_on_file, 2000), (open_over_http, 1000), (open_several_processes, 1000)],
    ids=["in memory", "on a file", "over HTTP", "by several processes"],
)
def test_engine_answers_random_steps_as_the_model_does(opener: Opener, steps: int) -> None:
    seed = SystemRandom().randrange(2**32)
    print(f"seed {seed}")  # noqa: T201
    check(opener, seed, steps * SCALE)


@pytest.mark.parametrize("seed", range(4 * SCALE))
def test_engine_answers_steps_of_known_seeds_as_the_model_does(seed: int) -> None:
    check(open_in_memory, seed, 150)


def test_planted_missing_index_row_is_found_and_shrunk_to_two_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    apply_edit = Writer._apply_edit

    def skip_one_row(self: Writer, edit: Any, change: Any, row: int) -> None:
        moved = edit.old is not None and edit.new is not None and edit.old != edit.new
        if not (moved and edit.index.name == "by_k"):
            apply_edit(self, edit, change, row)

    monkeypatch.setattr(Writer, "_apply_edit", skip_one_row)
    with pytest.raises(AssertionError, match="by_k") as failure:
        check(open_in_memory, 1, 600)
    assert "seed 1, 2 steps" in str(failure.value)


def test_planted_wrong_capacity_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity, "WRITE_UNIT_BYTES", 1000)
    with pytest.raises(AssertionError, match="CapacityUnits"):
        check(open_in_memory, 1, 600)
