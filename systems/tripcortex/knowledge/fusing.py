"""Two orders of the same chunks made one: by meaning, and by words. Pure; `retrieving` calls it.

Reciprocal rank fusion: what counts is the place in each order and not its numbers, which are of no common scale.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Final, TypeVar

T = TypeVar("T", bound=Hashable)

# How much the first places count more than the next ones: the smaller, the more.
FLATNESS: Final = 5.0


def fused(by_meaning: Sequence[T], by_words: Sequence[T]) -> list[T]:
    """All that are in either, the best first; of equals, the one that is nearer in meaning."""
    scores: dict[T, float] = {}
    for order in (by_meaning, by_words):
        for place, each in enumerate(order, start=1):
            scores[each] = scores.get(each, 0.0) + 1 / (FLATNESS + place)
    return sorted(scores, key=lambda each: -scores[each])


def spread(order: Sequence[T], sections: Mapping[T, Hashable], count: int) -> list[T]:
    """So many, the best of each section first: five paragraphs of one section say less than one of five. Where there are fewer
    sections, the next best follow."""
    first: dict[Hashable, T] = {}
    for each in order:
        first.setdefault(sections[each], each)
    best = list(first.values())
    return (best + [each for each in order if each not in set(best)])[:count]
