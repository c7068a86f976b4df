"""Ports of the small models: `Embedder` (texts to vectors) and `Classifier` (a text to its label)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    # One row per text, normalised to length 1; all zeros for a text without a known token.
    Vectors: TypeAlias = NDArray[np.float32]

UNKNOWN: Final = "unknown"
"""The label of a text that the classifier is not sure enough about."""

# A transformation of every text before a model sees it.
PrepareText: TypeAlias = Callable[[str], str]


class Embedder(Protocol):
    """An engine that maps texts to vectors: similar meaning, small angle."""

    @property
    def dimensions(self) -> int: ...

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one row per text: a vector of length 1, or zeros for a text without content."""
        ...


@dataclass(frozen=True)
class Classification:
    """The label of a text. `confidence` is the probability of the best label, even if it is too low to return
    that label.

    `alternatives` are the next labels with their probabilities, the likeliest first.
    """

    label: str
    confidence: float
    alternatives: tuple[tuple[str, float], ...] = ()

    @property
    def is_known(self) -> bool:
        return self.label != UNKNOWN


class Classifier(Protocol):
    """An engine that assigns a text one label of a fixed set, or `unknown`."""

    @property
    def labels(self) -> tuple[str, ...]: ...

    def classify(self, text: str) -> Classification: ...


class TrainedClassifier(Classifier, Protocol):
    """A classifier that also returns the probability of every label, and can be saved."""

    def compute_probabilities(self, texts: Sequence[str]) -> Vectors:
        """Return one row per text, with one column per label in the order of `labels`."""
        ...

    def save(self, file: Path, notes: Mapping[str, str]) -> None:
        """Write the labels and weights into a file, with `notes` for `read_classifier_notes`."""
        ...


@dataclass(frozen=True)
class Example:
    """A text and its correct label."""

    text: str
    label: str
