"""What the classifier sees of a text: its embedding, and beside it which words and pairs of words are in it.

The embedding brings the meaning of words that no example has; the words bring back what a mean of vectors blurs
("cancel my order" against "change my order"). Words are hashed into a fixed number of columns, by CRC-32, which is the
same on every machine.
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

COLUMNS: Final = 1024
# How much the words count beside the embedding: as much as both, or half, was no better.
WEIGHT: Final = 0.7
WORD: Final = re.compile(r"[^\W_]+(?:'[^\W_]+)?")


def features(texts: Sequence[str], embedder: Embedder) -> NDArray[np.float32]:
    """One row per text; the last column is 1, for the model's constant."""
    ones = np.ones((len(texts), 1))
    return np.hstack([embedder.embed(texts), WEIGHT * _words(texts), ones]).astype(np.float32)


def _words(texts: Sequence[str]) -> NDArray[np.float32]:
    found = np.zeros((len(texts), COLUMNS), np.float32)
    for row, text in enumerate(texts):
        words = WORD.findall(text)
        for piece in {*words, *map(" ".join, pairwise(words))}:
            found[row, zlib.crc32(piece.encode("utf-8", "replace")) % COLUMNS] += 1
    lengths = np.linalg.norm(found, axis=1, keepdims=True)
    found /= np.where(lengths == 0, 1, lengths)
    return found
