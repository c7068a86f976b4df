"""Stratified folds: each fold has its share of the examples of every label."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from holdfast.ai.ports import Example
from holdfast.core.errors import InvalidRequest


def assign_folds(examples: Sequence[Example], folds: int) -> list[int]:
    """Return the fold number of each example, dealing out the examples of a label in turn. Raise
    `InvalidRequest` for fewer than two folds, or a label with fewer examples than folds.
    """
    dealt: Counter[str] = Counter()
    found: list[int] = []
    for example in examples:
        found.append(dealt[example.label] % folds)
        dealt[example.label] += 1
    scarce = sorted(label for label, count in dealt.items() if count < folds)
    if folds < 2 or scarce:
        raise InvalidRequest(
            f"Too few examples for {folds} folds: each fold needs at least one example of every label. "
            f"Give more examples of {', '.join(scarce) or 'each label'}, and at least two folds."
        )
    return found
