"""Reciprocal rank fusion of two orders of the same chunks: by vector similarity and by full text. Pure.

Only the rank in each order counts, not the scores, which have no common scale.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Final, TypeVar

T = TypeVar("T", bound=Hashable)

# The constant k of reciprocal rank fusion: the smaller, the more the first ranks outweigh the next ones.
RANK_CONSTANT: Final = 5.0


def fuse(by_meaning: Sequence[T], by_words: Sequence[T]) -> list[T]:
    """Merge both orders, best first. Of equals, the one that is first in `by_meaning` comes first."""
    scores: dict[T, float] = {}
    for order in (by_meaning, by_words):
        for place, each in enumerate(order, start=1):
            scores[each] = scores.get(each, 0.0) + 1 / (RANK_CONSTANT + place)
    return sorted(scores, key=lambda each: -scores[each])


def spread_over_sections(order: Sequence[T], sections: Mapping[T, Hashable], count: int) -> list[T]:
    """Return at most `count` items: the best of each section first, then the next best ones.

    Five paragraphs of one section are less useful than one paragraph of each of five sections.
    """
    first: dict[Hashable, T] = {}
    for each in order:
        first.setdefault(sections[each], each)
    best = list(first.values())
    return (best + [each for each in order if each not in set(best)])[:count]
