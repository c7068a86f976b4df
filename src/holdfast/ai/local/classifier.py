"""A small classifier, trained when it is loaded: multinomial logistic regression on the features of a text.

Training starts from zero and takes a fixed number of accelerated gradient steps without randomness, so that
every load gives the same model. A model fitted to few examples is over- or underconfident. Training therefore
first holds out a fifth of the examples and fits on them the temperature that turns scores into probabilities;
then it trains the final model on all examples.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import save_file

from holdfast.ai.local.features import build_features
from holdfast.ai.local.folds import assign_folds
from holdfast.ai.ports import UNKNOWN, Classification, Embedder, Example, PrepareText
from holdfast.core.errors import InvalidRequest

# The L2 penalty on the weights, summed over all examples.
PENALTY: Final = 0.4
TRAINING_STEPS: Final = 100
HOLDOUT_FOLDS: Final = 5
TEMPERATURES: Final = tuple(float(each) for each in np.geomspace(0.1, 3.0, 60))
MAX_ALTERNATIVES: Final = 3
# The names in a saved classifier.
LABELS_NOTE: Final = "labels"
WEIGHTS_TENSOR: Final = "weights"

Matrix = NDArray[np.float32]
Indexes = NDArray[np.int64]


class LinearClassifier:
    """A classifier that scores every label linearly and returns the likeliest, or `unknown` below
    `confidence_min`.
    """

    def __init__(
        self,
        labels: tuple[str, ...],
        weights: Matrix,
        embedder: Embedder,
        confidence_min: float,
        prepare: PrepareText,
    ) -> None:
        self._labels, self._weights, self._embedder = labels, weights, embedder
        self._confidence_min, self._prepare = confidence_min, prepare

    @property
    def labels(self) -> tuple[str, ...]:
        return self._labels

    def classify(self, text: str) -> Classification:
        return self.classify_all([text])[0]

    def classify_all(self, texts: Sequence[str]) -> list[Classification]:
        """Classify the texts in one batch, in their order."""
        return [self._to_classification(row) for row in self.compute_probabilities(texts)]

    def compute_probabilities(self, texts: Sequence[str]) -> Matrix:
        """Return one row per text, with the probability of each label in the order of `labels`."""
        rows = build_features([self._prepare(text) for text in texts], self._embedder)
        return _compute_softmax(rows @ self._weights)

    def save(self, file: Path, notes: Mapping[str, str]) -> None:
        """Write labels, weights and `notes` into a file. Its bytes depend on nothing else."""
        metadata = {LABELS_NOTE: json.dumps(self._labels), **notes}
        save_file({WEIGHTS_TENSOR: np.ascontiguousarray(self._weights)}, file, metadata)

    def _to_classification(self, probabilities: Matrix) -> Classification:
        """Rank the labels; below `confidence_min` the result is `unknown` with the best labels as
        alternatives.
        """
        # Stable: of two equal probabilities, the first label wins on every machine.
        order = np.argsort(-probabilities, kind="stable")
        ranked = [(self._labels[place], float(probabilities[place])) for place in order]
        best, confidence = ranked[0]
        if confidence < self._confidence_min:
            return Classification(UNKNOWN, confidence, tuple(ranked[:MAX_ALTERNATIVES]))
        return Classification(best, confidence, tuple(ranked[1 : 1 + MAX_ALTERNATIVES]))


def train(
    examples: Sequence[Example], embedder: Embedder, confidence_min: float, prepare: PrepareText
) -> LinearClassifier:
    """Train a classifier on the examples. Raise `InvalidRequest` for fewer than two labels, for the label
    `unknown`, or for a label with fewer than five examples.
    """
    labels = tuple(sorted({example.label for example in examples}))
    _check_labels(labels)
    rows = build_features([prepare(example.text) for example in examples], embedder)
    wanted = np.array([labels.index(example.label) for example in examples])
    temperature = _fit_temperature(rows, wanted, np.array(assign_folds(examples, HOLDOUT_FOLDS)) == 0)
    return LinearClassifier(
        labels, _fit_weights(rows, wanted) / temperature, embedder, confidence_min, prepare
    )


def load(file: Path, embedder: Embedder, confidence_min: float, prepare: PrepareText) -> LinearClassifier:
    """Load a saved classifier. `embedder` and `prepare` must be those that it was trained with. Raise
    `InvalidRequest` if the weights do not fit the embedder.
    """
    with safe_open(file, framework="np") as opened:
        labels = tuple(json.loads(opened.metadata()[LABELS_NOTE]))
        weights: Matrix = opened.get_tensor(WEIGHTS_TENSOR)
    columns = build_features([""], embedder).shape[1]
    if weights.shape != (columns, len(labels)):
        raise InvalidRequest(
            f"Invalid classifier {file}: expected weights of {columns} features and {len(labels)} labels, "
            f"got "
            f"{weights.shape}. Train it again with this embedder."
        )
    return LinearClassifier(labels, weights, embedder, confidence_min, prepare)


def read_notes(file: Path) -> dict[str, str]:
    """Return the notes that a classifier was saved with."""
    with safe_open(file, framework="np") as opened:
        return {name: note for name, note in opened.metadata().items() if name != LABELS_NOTE}


def _check_labels(labels: Sequence[str]) -> None:
    """Raise `InvalidRequest` for fewer than two labels, or for the label `unknown`."""
    if len(labels) < 2:
        raise InvalidRequest("A classifier needs examples of two labels at least. Give more examples.")
    if UNKNOWN in labels:
        raise InvalidRequest(
            f"Invalid label {UNKNOWN!r}: a classifier returns it when it is not sure. Use another label "
            "for the examples."
        )


def _fit_weights(rows: Matrix, label_indexes: Indexes) -> Matrix:
    """Return the maximum-likelihood weights for the labels, with an L2 penalty (Nesterov's method)."""
    count, penalty = len(rows), np.float32(PENALTY / len(rows))
    targets = np.eye(int(label_indexes.max()) + 1, dtype=np.float32)[label_indexes]
    # Half the longest row's square bounds the gradient's Lipschitz constant: a step of its inverse never
    # overshoots.
    step = np.float32(1 / (0.5 * float(np.square(rows).sum(axis=1).max()) + float(penalty)))
    weights: Matrix = np.zeros((rows.shape[1], targets.shape[1]), np.float32)
    last = weights
    for number in range(TRAINING_STEPS):
        ahead: Matrix = weights + np.float32(number / (number + 3)) * (weights - last)
        slope: Matrix = (
            rows.T @ (_compute_softmax(rows @ ahead) - targets) / np.float32(count) + penalty * ahead
        )
        last, weights = weights, (ahead - step * slope).astype(np.float32)
    return weights


def _fit_temperature(rows: Matrix, label_indexes: Indexes, held_out: NDArray[np.bool_]) -> np.float32:
    """Return the temperature with the lowest log loss on the held-out rows."""
    scores = rows[held_out] @ _fit_weights(rows[~held_out], label_indexes[~held_out])
    labels = label_indexes[held_out]
    places = np.arange(len(labels))
    losses = [
        -np.log(np.maximum(_compute_softmax(scores / np.float32(each))[places, labels], 1e-12)).mean()
        for each in TEMPERATURES
    ]
    return np.float32(TEMPERATURES[int(np.argmin(losses))])


def _compute_softmax(scores: Matrix) -> Matrix:
    """Return the scores of each row as probabilities."""
    raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares: Matrix = raised / raised.sum(axis=1, keepdims=True)
    return shares
