"""Two orders of the same chunks made one: by meaning, and by words. Pure; `retrieving` calls it.

Reciprocal rank fusion: what counts is the place in each order and not its numbers, which are of no common scale. A heading is
no answer: it has brought its words to the chunks that stand under it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Final, TypeVar

T = TypeVar("T", bound=Hashable)

# How much the first places count more than the next ones: the smaller, the more.
FLATNESS: Final = 20.0
MEANING: Final = 1.0
WORDS: Final = 1.0


def fused(
    by_meaning: Sequence[T], by_words: Sequence[T], *, meaning: float = MEANING, words: float = WORDS
) -> list[T]:
    """All that are in either, the best first; of equals, the one that is nearer in meaning."""
    scores: dict[T, float] = {}
    for weight, order in ((meaning, by_meaning), (words, by_words)):
        for place, each in enumerate(order, start=1):
            scores[each] = scores.get(each, 0.0) + weight / (FLATNESS + place)
    return sorted(scores, key=lambda each: -scores[each])


def spread(order: Sequence[T], sections: Mapping[T, Hashable], count: int, *, per_section: int) -> list[T]:
    """The first of an order, not more than so many of one section while others are left."""
    taken: dict[Hashable, int] = {}
    first: list[T] = []
    rest: list[T] = []
    for each in order:
        section = sections.get(each, each)
        taken[section] = taken.get(section, 0) + 1
        (first if taken[section] <= per_section else rest).append(each)
    return (first + rest)[:count]
