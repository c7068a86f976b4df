"""A small classifier that is trained when it is loaded: ridge regression on the features, made into probabilities.

Ridge regression has a closed form: no random start, no number of rounds, the same model on every load. The same
algebra gives what the model would have said of each example had it not been trained on it (leave-one-out), exactly and
without training again. On those answers the temperature is set that turns scores into probabilities, so that 0.8 means
right about eight times in ten.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from holdfast.ai.local.features import features
from holdfast.ai.opening import Prepare
from holdfast.ai.ports import UNKNOWN, Classification, Embedder, Example
from holdfast.errors import InvalidRequest

STRENGTH: Final = 0.5
TEMPERATURES: Final = tuple(float(each) for each in np.geomspace(0.02, 1.0, 60))
ALTERNATIVES_MAX: Final = 3

Matrix = NDArray[np.float64]


class LinearClassifier:
    """Scores of a text for every label, and the label with the best one."""

    def __init__(
        self,
        labels: tuple[str, ...],
        weights: Matrix,
        temperature: float,
        embedder: Embedder,
        confidence_min: float,
        prepare: Prepare,
    ) -> None:
        self._labels, self._weights, self._embedder = labels, weights, embedder
        self.temperature, self._confidence_min, self._prepare = temperature, confidence_min, prepare

    @property
    def labels(self) -> tuple[str, ...]:
        return self._labels

    def classify(self, text: str) -> Classification:
        return self.classify_all([text])[0]

    def classify_all(self, texts: Sequence[str]) -> list[Classification]:
        rows = features([self._prepare(text) for text in texts], self._embedder)
        return [self._classification(row) for row in _softmax(rows @ self._weights / self.temperature)]

    def _classification(self, probabilities: Matrix) -> Classification:
        # Stable, so that of two equals the first in the order of labels wins, everywhere.
        order = np.argsort(-probabilities, kind="stable")
        ranked = [(self._labels[place], float(probabilities[place])) for place in order]
        best, confidence = ranked[0]
        if confidence < self._confidence_min:
            return Classification(UNKNOWN, confidence, tuple(ranked[:ALTERNATIVES_MAX]))
        return Classification(best, confidence, tuple(ranked[1 : 1 + ALTERNATIVES_MAX]))


def train(
    examples: Sequence[Example], embedder: Embedder, confidence_min: float, prepare: Prepare
) -> LinearClassifier:
    labels = tuple(sorted({example.label for example in examples}))
    _refuse(labels)
    rows = features([prepare(example.text) for example in examples], embedder)
    wanted = np.array([labels.index(example.label) for example in examples])
    weights, unseen = _ridge(rows, np.eye(len(labels))[wanted])
    return LinearClassifier(labels, weights, _temperature(unseen, wanted), embedder, confidence_min, prepare)


def _refuse(labels: Sequence[str]) -> None:
    if len(labels) < 2:
        raise InvalidRequest("A classifier needs examples of two labels at least: give more.")
    if UNKNOWN in labels:
        raise InvalidRequest(
            f"{UNKNOWN!r} is what a classifier says when it is not sure, and cannot be the label of an example: name it otherwise."
        )


def _ridge(rows: Matrix, targets: Matrix) -> tuple[Matrix, Matrix]:
    """The weights, and the scores each row would get from a model that was trained without it."""
    inverse = np.linalg.inv(rows.T @ rows + STRENGTH * np.eye(rows.shape[1]))
    weights = inverse @ rows.T @ targets
    leverage = np.einsum("ij,jk,ik->i", rows, inverse, rows, optimize=True)[:, None]
    return weights, (rows @ weights - leverage * targets) / (1 - leverage)


def _temperature(scores: Matrix, wanted: NDArray[np.int64]) -> float:
    """The one under which the labels that were wanted are the least surprising."""
    places = np.arange(len(wanted))
    losses = [
        -np.log(np.maximum(_softmax(scores / each)[places, wanted], 1e-12)).mean() for each in TEMPERATURES
    ]
    return TEMPERATURES[int(np.argmin(losses))]


def _softmax(scores: Matrix) -> Matrix:
    raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares: Matrix = raised / raised.sum(axis=1, keepdims=True)
    return shares
