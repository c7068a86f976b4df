"""The door to the local engines: refuses in words where their packages are missing, loads them otherwise."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from functools import cache
from typing import Final

from holdfast.ai.ports import Classifier, Embedder, Example, Prepare
from holdfast.ai.reports import Accuracy
from holdfast.errors import SettingsError

PACKAGES: Final = ("wordllama", "safetensors", "tokenizers", "numpy")
# Below this probability no label is given.
CONFIDENCE_MIN: Final = 0.4
FOLDS: Final = 5


@cache
def local_embedder() -> Embedder:
    """Mean of WordLlama's token vectors, 256 dimensions. Loaded once in a process; nothing is downloaded."""
    _require("local embeddings")
    from holdfast.ai.local.embeddings import load_embedder

    return load_embedder()


def local_classifier(
    examples: Sequence[Example],
    *,
    confidence_min: float = CONFIDENCE_MIN,
    prepare: Prepare = str.casefold,
    embedder: Embedder | None = None,
) -> Classifier:
    """A linear classifier, trained on the examples here and now. `prepare` is done to every text before it is seen."""
    _require("the local classifier")
    from holdfast.ai.local.classifier import train

    return train(examples, embedder or local_embedder(), confidence_min, prepare)


def measure(
    examples: Sequence[Example],
    *,
    folds: int = FOLDS,
    confidence_min: float = CONFIDENCE_MIN,
    prepare: Prepare = str.casefold,
    embedder: Embedder | None = None,
) -> Accuracy:
    """How often the local classifier is right on examples that it was not trained on: cross-validation in `folds` parts."""
    _require("the local classifier")
    from holdfast.ai.local.evaluation import cross_validate

    return cross_validate(examples, embedder or local_embedder(), folds, confidence_min, prepare)


def _require(what: str) -> None:
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise SettingsError(
            f"{what[0].upper()}{what[1:]} needs {', '.join(missing)}, which this installation does not have: "
            "pip install '.[ai]' in the clone of Holdfast, or make setup."
        )
