"""Cross-validation of the local classifier: classify each fold with a model trained on the other folds."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.ai.accuracy import Accuracy, Outcome
from holdfast.ai.local.classifier import train
from holdfast.ai.local.folds import assign_folds
from holdfast.ai.ports import Embedder, Example, PrepareText


def cross_validate(
    examples: Sequence[Example], embedder: Embedder, folds: int, confidence_min: float, prepare: PrepareText
) -> Accuracy:
    """Return the accuracy of the local classifier over `folds` folds."""
    parts = assign_folds(examples, folds)
    outcomes: list[Outcome] = []
    for number in range(folds):
        seen = [example for example, part in zip(examples, parts, strict=True) if part != number]
        unseen = [example for example, part in zip(examples, parts, strict=True) if part == number]
        model = train(seen, embedder, confidence_min, prepare)
        for example, found in zip(unseen, model.classify_all([each.text for each in unseen]), strict=True):
            best = found.label if found.is_known else found.alternatives[0][0]
            outcomes.append(Outcome(example.label, best, found.label))
    return Accuracy(tuple(outcomes))
