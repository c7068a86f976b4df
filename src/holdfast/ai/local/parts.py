"""Examples dealt out into parts, for holding some of them back: every label is in each part with its share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from holdfast.ai.ports import Example
from holdfast.errors import InvalidRequest


def stratified(examples: Sequence[Example], parts: int) -> list[int]:
    """The part each example is in, by its place among those of its label."""
    dealt: Counter[str] = Counter()
    found: list[int] = []
    for example in examples:
        found.append(dealt[example.label] % parts)
        dealt[example.label] += 1
    scarce = sorted(label for label, count in dealt.items() if count < parts)
    if parts < 2 or scarce:
        raise InvalidRequest(
            f"Examples are dealt out into {parts} parts, and each needs one of every label at least: give more examples of "
            f"{', '.join(scarce) or 'each label'}, and two parts or more."
        )
    return found
