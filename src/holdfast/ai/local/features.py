"""Features of a text for the classifier: its embedding, plus its words and word pairs.

The embedding covers words that are in no example; the words restore distinctions that a mean of vectors blurs
("cancel my order" and "change my order"). Words are hashed into a fixed number of columns by CRC-32, which is
the same on every machine.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from holdfast.ai.ports import Embedder

WORD_COLUMNS: Final = 1024
# The weight of the words relative to the embedding; 1.0 and 0.5 were not better.
WORDS_WEIGHT: Final = 0.7
WORD: Final = re.compile(r"[^\W_]+(?:'[^\W_]+)?")


def build_features(texts: Sequence[str], embedder: Embedder) -> NDArray[np.float32]:
    """Return one row per text; the last column is 1, for the model's intercept."""
    ones = np.ones((len(texts), 1))
    return np.hstack([embedder.embed(texts), WORDS_WEIGHT * _hash_words(texts), ones]).astype(np.float32)


def _hash_words(texts: Sequence[str]) -> NDArray[np.float32]:
    """Return one normalised row per text: the counts of its distinct words and word pairs by hash column."""
    found = np.zeros((len(texts), WORD_COLUMNS), np.float32)
    for row, text in enumerate(texts):
        words = WORD.findall(text)
        for piece in {*words, *map(" ".join, pairwise(words))}:
            found[row, zlib.crc32(piece.encode("utf-8", "replace")) % WORD_COLUMNS] += 1
    lengths = np.linalg.norm(found, axis=1, keepdims=True)
    found /= np.where(lengths == 0, 1, lengths)
    return found
