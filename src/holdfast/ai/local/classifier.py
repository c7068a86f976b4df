"""A small classifier that is trained when it is loaded: multinomial logistic regression on the features of a text.

Training starts from zero and takes a fixed number of accelerated gradient steps: nothing is drawn at random, so that
every load gives the same model. A model that is fitted to little is too sure of itself or not sure enough; so a fifth of
the examples is held out first, and on them the temperature is set that turns scores into probabilities, before the
model that is used is trained on all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from holdfast.ai.local.features import features
from holdfast.ai.local.parts import stratified
from holdfast.ai.ports import UNKNOWN, Classification, Embedder, Example, Prepare
from holdfast.errors import InvalidRequest

# How much large weights are held down, over all examples together.
PENALTY: Final = 0.4
STEPS: Final = 100
HELD_OUT: Final = 5
TEMPERATURES: Final = tuple(float(each) for each in np.geomspace(0.1, 3.0, 60))
ALTERNATIVES_MAX: Final = 3

Matrix = NDArray[np.float32]
Places = NDArray[np.int64]


class LinearClassifier:
    """Scores of a text for every label, and the label with the best one."""

    def __init__(
        self,
        labels: tuple[str, ...],
        weights: Matrix,
        embedder: Embedder,
        confidence_min: float,
        prepare: Prepare,
    ) -> None:
        self._labels, self._weights, self._embedder = labels, weights, embedder
        self._confidence_min, self._prepare = confidence_min, prepare

    @property
    def labels(self) -> tuple[str, ...]:
        return self._labels

    def classify(self, text: str) -> Classification:
        return self.classify_all([text])[0]

    def classify_all(self, texts: Sequence[str]) -> list[Classification]:
        rows = features([self._prepare(text) for text in texts], self._embedder)
        return [self._classification(row) for row in _softmax(rows @ self._weights)]

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
    temperature = _temperature(rows, wanted, np.array(stratified(examples, HELD_OUT)) == 0)
    return LinearClassifier(labels, _fitted(rows, wanted) / temperature, embedder, confidence_min, prepare)


def _refuse(labels: Sequence[str]) -> None:
    if len(labels) < 2:
        raise InvalidRequest("A classifier needs examples of two labels at least: give more.")
    if UNKNOWN in labels:
        raise InvalidRequest(
            f"{UNKNOWN!r} is what a classifier says when it is not sure, and cannot be the label of an example: "
            "name it otherwise."
        )


def _fitted(rows: Matrix, wanted: Places) -> Matrix:
    """The weights under which the wanted labels are likeliest, large weights held down (Nesterov's method)."""
    count, penalty = len(rows), np.float32(PENALTY / len(rows))
    targets = np.eye(int(wanted.max()) + 1, dtype=np.float32)[wanted]
    # The slope changes by no more than half the longest row's square: a step of its inverse never overshoots.
    step = np.float32(1 / (0.5 * float(np.square(rows).sum(axis=1).max()) + float(penalty)))
    weights: Matrix = np.zeros((rows.shape[1], targets.shape[1]), np.float32)
    last = weights
    for number in range(STEPS):
        ahead: Matrix = weights + np.float32(number / (number + 3)) * (weights - last)
        slope: Matrix = rows.T @ (_softmax(rows @ ahead) - targets) / np.float32(count) + penalty * ahead
        last, weights = weights, (ahead - step * slope).astype(np.float32)
    return weights


def _temperature(rows: Matrix, wanted: Places, held_out: NDArray[np.bool_]) -> np.float32:
    """The one under which the labels of the held-out rows are the least surprising."""
    scores = rows[held_out] @ _fitted(rows[~held_out], wanted[~held_out])
    labels = wanted[held_out]
    places = np.arange(len(labels))
    losses = [
        -np.log(np.maximum(_softmax(scores / np.float32(each))[places, labels], 1e-12)).mean()
        for each in TEMPERATURES
    ]
    return np.float32(TEMPERATURES[int(np.argmin(losses))])


def _softmax(scores: Matrix) -> Matrix:
    raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares: Matrix = raised / raised.sum(axis=1, keepdims=True)
    return shares
