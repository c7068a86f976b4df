"""Embedding of passages and questions: a model, its vectors in pgvector's text form, its similarity bounds.

An `Embedding` is a model behind the port `holdfast.ai.Embedder` together with that model's bounds: the design
document's 0.65 holds for Nova only. Vectors have length 1; shorter ones are padded with zeros, which changes
no angle. A text without a token that the model knows has no vector.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from holdfast.ai import Embedder, open_sentence_embedder
from holdfast.core.errors import DeclarationError
from tripcortex.model.entities import Confidence
from tripcortex.model.policies.schema import DIMENSIONS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NOVA: Final = "amazon.nova-2-multimodal-embeddings-v1:0"
LOCAL: Final = "all-MiniLM-L6-v2"


@dataclass(frozen=True)
class Bounds:
    """Similarity bounds: below `threshold` a passage is not relevant, above `high` it surely is."""

    threshold: float
    high: float

    def get_confidence(self, similarity: float | None) -> Confidence:
        """Return "none" below the threshold or without a similarity, "high" above `high`, else "low"."""
        if similarity is None or similarity < self.threshold:
            return "none"
        return "high" if similarity > self.high else "low"


# Nova's are the design document's. The local model's were measured (docs/systems/tripcortex/retrieval.md).
BOUNDS: Final[Mapping[str, Bounds]] = {NOVA: Bounds(0.65, 0.75), LOCAL: Bounds(0.25, 0.45)}


@dataclass(frozen=True)
class Embedding:
    """A model with its similarity bounds.

    `question_embedder` embeds questions if the model treats them differently. Raise `DeclarationError` if the
    model has more dimensions than the table.
    """

    embedder: Embedder
    model_id: str
    bounds: Bounds
    question_embedder: Embedder | None = None
    dimensions: int = DIMENSIONS

    def __post_init__(self) -> None:
        widest = max(each.dimensions for each in (self.embedder, self.question_embedder or self.embedder))
        if widest > self.dimensions:
            raise DeclarationError(
                f"Invalid embedding model {self.model_id}: expected at most {self.dimensions} dimensions, "
                f"got {widest}. Choose a model or an output size that fits the table."
            )

    @property
    def threshold(self) -> float:
        """Return the similarity below which a passage is not relevant."""
        return self.bounds.threshold

    def embed_passages(self, texts: Sequence[str]) -> list[str | None]:
        """Return the vectors in pgvector's text form; None for a text without a known token."""
        return _embed(self.embedder, texts, self.dimensions)

    def embed_question(self, text: str) -> str | None:
        """Return the question's vector in pgvector's text form, or None without a known token."""
        return _embed(self.question_embedder or self.embedder, [text], self.dimensions)[0]


def build_local_embedding() -> Embedding:
    """Return the embedding of the local model, which needs no model service."""
    return Embedding(open_sentence_embedder(), LOCAL, BOUNDS[LOCAL])


def _embed(embedder: Embedder, texts: Sequence[str], dimensions: int) -> list[str | None]:
    """Embed the texts in one call of the embedder; return a vector of pgvector's text form for each.

    Vectors are scaled to length 1 and padded to `dimensions`. A text is None if its vector is zero: it has no
    known token.
    """
    return [_format_vector(row, dimensions) for row in embedder.embed(texts)] if texts else []


def _format_vector(vector: NDArray[np.float32], dimensions: int) -> str | None:
    """Return the vector as `[0.1,0.2,…]`, scaled to length 1 and zero-padded; None for a zero vector."""
    values = [float(value) for value in vector]
    length = sum(value * value for value in values) ** 0.5
    if length == 0:
        return None
    shown = [f"{value / length:.8g}" for value in values] + ["0"] * (dimensions - len(values))
    return f"[{','.join(shown)}]"
