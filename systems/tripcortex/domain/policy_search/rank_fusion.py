"""Reciprocal rank fusion of two orders of the same chunks: by vector similarity and by full text. Pure.

Only the rank in each order counts, not the scores, which have no common scale.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import Final, TypeVar

T = TypeVar("T", bound=Hashable)

# The constant k of reciprocal rank fusion: the smaller, the more the first ranks outweigh the next ones.
RANK_CONSTANT: Final = 10.0


def fuse(by_meaning: Sequence[T], by_words: Sequence[T]) -> list[T]:
    """Merge both orders, best first. Of equals, the one that is first in `by_meaning` comes first."""
    scores: dict[T, float] = {}
    for order in (by_meaning, by_words):
        for place, each in enumerate(order, start=1):
            scores[each] = scores.get(each, 0.0) + 1 / (RANK_CONSTANT + place)
    return sorted(scores, key=lambda each: -scores[each])


def spread_over_sections(order: Sequence[T], sections: Mapping[T, Hashable], count: int) -> list[T]:
    """Return at most `count` items in their order, with at most half of them, rounded up, of one section.

    Five paragraphs of one section are less useful than some of each of several sections. If there are too few
    others, the rest is of the same section.
    """
    most = (count + 1) // 2
    taken: Counter[Hashable] = Counter()
    first: list[T] = []
    rest: list[T] = []
    for each in order:
        taken[sections[each]] += 1
        (first if taken[sections[each]] <= most else rest).append(each)
    return [*first, *rest][:count]
