"""Texts as vectors of the width that the table has, and what their similarities mean.

An `Embedding` is a model behind the port `holdfast.ai.Embedder` with the model's own bounds: 0.65 is what the document takes
for Nova's, and says nothing about another model. Vectors are of length 1 and, where the model's are shorter, filled up with
zeros, which changes no angle. A text in which the model knows no token has no vector.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from holdfast.ai import Embedder, local_embedder
from holdfast.errors import DeclarationError
from tripcortex.knowledge.schema import DIMENSIONS
from tripcortex.knowledge.synonyms import added_words
from tripcortex.knowledge.wording import content_words
from tripcortex.model import Confidence

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NOVA: Final = "amazon.nova-2-multimodal-embeddings-v1:0"
LOCAL: Final = "wordllama-l2-supercat-256"


@dataclass(frozen=True)
class Bounds:
    """`threshold`: below it a passage is not about the question. Above `high` it surely is."""

    threshold: float
    high: float

    def confidence(self, similarity: float | None) -> Confidence:
        if similarity is None or similarity < self.threshold:
            return "none"
        return "high" if similarity > self.high else "low"


# Nova's are the document's. The local model's were measured: docs/retrieval.md has the table and how to repeat it.
BOUNDS: Final[Mapping[str, Bounds]] = {NOVA: Bounds(0.65, 0.75), LOCAL: Bounds(0.28, 0.50)}


@dataclass(frozen=True)
class Embedding:
    """A model and what its similarities mean. `questions` embeds questions where the model wants to know that they are.

    A small model is helped: `prepare` is done to every text, and `is_widened` adds synonyms to questions.
    """

    embedder: Embedder
    model_id: str
    bounds: Bounds
    questions: Embedder | None = None
    prepare: Callable[[str], str] = str
    is_widened: bool = False
    dimensions: int = DIMENSIONS

    def __post_init__(self) -> None:
        widest = max(each.dimensions for each in (self.embedder, self.questions or self.embedder))
        if widest > self.dimensions:
            raise DeclarationError(
                f"{self.model_id} gives vectors of {widest} dimensions, and {self.dimensions} is what the table has: "
                "choose a model, or a width of it, that fits."
            )

    @property
    def threshold(self) -> float:
        return self.bounds.threshold

    def passages(self, texts: Sequence[str]) -> list[str | None]:
        """As pgvector takes them; None for a text without a known token."""
        return _vectors(self.embedder, [self.prepare(each) for each in texts], self.dimensions)

    def question(self, text: str) -> str | None:
        said = (
            _widened(self.prepare(text), self.prepare(" ".join(added_words(text))))
            if self.is_widened
            else self.prepare(text)
        )
        return _vectors(self.questions or self.embedder, [said], self.dimensions)[0]


def local_embedding() -> Embedding:
    """Without a model service: small, and says so."""
    return Embedding(local_embedder(), LOCAL, BOUNDS[LOCAL], prepare=content_words, is_widened=True)


def _widened(said: str, added: str) -> str:
    """With the added words, which count half: where they are many, what was said is said so often again. The mean of all would
    otherwise be about them."""
    times = round(len(added.split()) / 2 / max(1, len(said.split())))
    return " ".join(filter(None, [said, added, *[said] * (times - 1)]))


def _vectors(embedder: Embedder, texts: Sequence[str], dimensions: int) -> list[str | None]:
    return [_text_of(row, dimensions) for row in embedder.embed(texts)] if texts else []


def _text_of(vector: NDArray[np.float32], dimensions: int) -> str | None:
    """`[0.1,0.2,…]`, of length 1."""
    values = [float(value) for value in vector]
    length = sum(value * value for value in values) ** 0.5
    if length == 0:
        return None
    shown = [f"{value / length:.8g}" for value in values] + ["0"] * (dimensions - len(values))
    return f"[{','.join(shown)}]"
