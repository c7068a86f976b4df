"""The index of a write-ahead log: each frame must be found by its page number."""

from __future__ import annotations

from array import array
from random import Random

import pytest

from holdfast.stores.sqlite.log_index import _HASH_FACTOR, _SLOTS, _finds_all, _finds_frames

DAMAGES = 40


def build_slots(pages: array[int]) -> array[int]:
    """Return the hash table that SQLite builds for these pages of frames."""
    slots = array("H", bytes(2 * _SLOTS))
    for frame, page in enumerate(pages, 1):
        slot = page * _HASH_FACTOR % _SLOTS
        while slots[slot]:
            slot = (slot + 1) % _SLOTS
        slots[slot] = frame
    return slots


def finds_each(pages: array[int], slots: array[int]) -> bool:
    """Return whether a search for each page meets its frame."""
    return _finds_frames(pages, slots)


# The first slot of page 385 is the last of the table: its frames reach over the end.
@pytest.mark.parametrize("page_choices", [[6], [385], [6, 385, 8191], range(1, 3000)])
@pytest.mark.parametrize("frames", [1, 2, 300])
def test_damaged_hash_table_is_found_as_a_search_finds_it(frames: int, page_choices: list[int]) -> None:
    rng = Random(frames)
    pages = array("I", rng.choices(page_choices, k=frames))
    sound = build_slots(pages)
    assert _finds_all(pages, sound)
    used = [slot for slot in range(_SLOTS) if sound[slot]]
    outcomes = set()
    for _ in range(DAMAGES):
        slots = array("H", sound)
        slot = rng.choice(used)
        slots[slot] = rng.choice([0, slots[slot] ^ 1, rng.randrange(2**16)])
        outcomes.add(_finds_all(pages, slots))
        assert _finds_all(pages, slots) == finds_each(pages, slots)
    assert False in outcomes


def test_full_hash_table_is_damaged() -> None:
    pages = array("I", [1])
    assert not _finds_all(pages, array("H", [1] * _SLOTS))
