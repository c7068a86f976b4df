"""What a system asks of a model: vectors of texts, and the label of a text. Engines stand behind these ports."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    # One row per text, each of length 1, or all zeros for a text without a single known token.
    Vectors: TypeAlias = NDArray[np.float32]

# The label of a text that the classifier is not sure enough about.
UNKNOWN: Final = "unknown"

# What is done to every text before a model sees it.
Prepare: TypeAlias = Callable[[str], str]


class Embedder(Protocol):
    """Texts as vectors: alike in meaning, near in angle."""

    @property
    def dimensions(self) -> int: ...

    def embed(self, texts: Sequence[str]) -> Vectors: ...


@dataclass(frozen=True)
class Classification:
    """What a text is about. `confidence` is the probability given to the best label, also where it is too small for it.

    `alternatives` are the labels that come next, the likeliest first, with theirs.
    """

    label: str
    confidence: float
    alternatives: tuple[tuple[str, float], ...] = ()

    @property
    def is_known(self) -> bool:
        return self.label != UNKNOWN


class Classifier(Protocol):
    """One label of a fixed set for a text, or `unknown`."""

    @property
    def labels(self) -> tuple[str, ...]: ...

    def classify(self, text: str) -> Classification: ...


@dataclass(frozen=True)
class Example:
    """A text and the label it should be given."""

    text: str
    label: str
