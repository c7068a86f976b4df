"""Benchmarks of the stores at small sizes: they run and return figures, which are not checked."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.stores import fifo_queue


def test_measures_a_queue_next_to_rows_written_by_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fifo_queue, "ROUNDS", 1)
    monkeypatch.setattr(fifo_queue, "MESSAGES", fifo_queue.TASKS * fifo_queue.RECEIVE_BATCH)

    figures = fifo_queue.run(tmp_path)

    assert len(figures) == len(fifo_queue.OPERATIONS)
    assert all(figure.rate > 0 and figure.floor_rate > 0 for figure in figures)
