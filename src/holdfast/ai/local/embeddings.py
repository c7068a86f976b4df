"""Embeddings without a model service: the mean of WordLlama's token vectors.

Weights and tokenizer are files in the installed wheel. This module reads them directly and never imports the
package: its own loader looks elsewhere, and uses the network if the files are missing.
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

PACKAGE: Final = "wordllama"
WEIGHTS: Final = "weights/l2_supercat_256.safetensors"
TENSOR: Final = "embedding.weight"
TOKENIZER: Final = "tokenizers/l2_supercat_tokenizer_config.json"
# The rest of a longer text is ignored.
MAX_TOKENS: Final = 512


class TokenEmbedder:
    """An embedder that returns the normalised mean of the first 512 token vectors. The same text always gives
    the same vector, in any batch.
    """

    def __init__(self, weights: NDArray[np.float32], tokenizer: Tokenizer) -> None:
        self._weights, self._tokenizer = weights, tokenizer

    @property
    def dimensions(self) -> int:
        return int(self._weights.shape[1])

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one vector of length 1 per text; a text without tokens gets zeros."""
        vectors = np.zeros((len(texts), self.dimensions), np.float32)
        # The tokenizer refuses a lone surrogate.
        clean = [text.encode("utf-8", "replace").decode("utf-8") for text in texts]
        for row, found in enumerate(self._tokenizer.encode_batch(clean, add_special_tokens=False)):
            if found.ids:
                vectors[row] = self._weights[found.ids[:MAX_TOKENS]].mean(axis=0)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        vectors /= np.where(lengths == 0, 1, lengths)
        return vectors


def load_embedder() -> TokenEmbedder:
    """Load the weights and the tokenizer. Raise `SettingsError` if the installed package lacks them."""
    folder = _find_package_folder()
    weights = load_file(folder / WEIGHTS)[TENSOR].astype(np.float32)
    return TokenEmbedder(weights, Tokenizer.from_file(str(folder / TOKENIZER)))


def _find_package_folder() -> Path:
    """Return the folder of the installed wheel that has the files. Raise `SettingsError` if there is none."""
    spec = importlib.util.find_spec(PACKAGE)
    for place in (spec.submodule_search_locations or ()) if spec else ():
        if (Path(place) / WEIGHTS).is_file() and (Path(place) / TOKENIZER).is_file():
            return Path(place)
    raise SettingsError(
        f"The installed {PACKAGE} lacks {WEIGHTS} or {TOKENIZER}. Run {format_install_command('ai')} to "
        "install a version that has them."
    )
