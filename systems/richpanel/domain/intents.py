"""Customer intents, examples of each, and the classifier trained on them.

The examples are in `intent_examples/`, one file per label, one text per line. Three labels are no intents:
what no shop can answer, danger to people, and legal threats. The weights trained from the examples are in
`intent_model.safetensors`, so that a worker starts without training; `api/intent_accuracy.py` trains them
again. docs/systems/richpanel/intents.md reports the accuracy on unseen texts.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Sequence
from enum import StrEnum
from functools import cache
from importlib.resources import as_file, files
from typing import Final

import numpy as np
from numpy.typing import NDArray

from holdfast.ai import (
    UNKNOWN,
    Classification,
    Classifier,
    Example,
    TrainedClassifier,
    load_local_classifier,
    open_sentence_embedder,
    train_local_classifier,
)
from richpanel.domain.risks import split_sentences

FOLDER: Final = "intent_examples"
MODEL_FILE: Final = "intent_model.safetensors"
# The note in the model's file: the examples that it was trained on.
EXAMPLES_NOTE: Final = "examples_sha256"
# The presence of an order number helps to classify; its digits do not.
NUMBER: Final = re.compile(r"#?\b[\w-]*\d[\w-]*")
# A greeting says nothing about the intent of the sentences below it.
GREETING: Final = re.compile(
    r"(?:hello|hi|hiya|hey|dear|good (?:morning|afternoon|evening|day)|"
    r"to whom it may concern)\b[^.?!]{0,40}[,.!:]*",
    re.IGNORECASE,
)
MAX_SENTENCES: Final = 8
MIN_SENTENCE_WORDS: Final = 2


class Intent(StrEnum):
    """The intents. Each value is also the name of its file of examples."""

    order_status = "order_status"
    delivery_problem = "delivery_problem"
    return_or_refund = "return_or_refund"
    cancel_order = "cancel_order"
    change_order = "change_order"
    product_question = "product_question"
    discount_or_promo = "discount_or_promo"
    account_access = "account_access"
    payment_problem = "payment_problem"
    chargeback = "chargeback"
    fraud_report = "fraud_report"
    complaint = "complaint"
    shipping_policy = "shipping_policy"
    human_request = "human_request"
    greeting_or_thanks = "greeting_or_thanks"


class OtherLabel(StrEnum):
    """The labels of the classifier that are no intents."""

    out_of_scope = "out_of_scope"
    safety_report = "safety_report"
    legal_threat = "legal_threat"


LABELS: Final = (*Intent, *OtherLabel)
# Labels that mean a risk, and the probability from which one sentence is enough.
RISK_LABELS: Final = (
    Intent.chargeback,
    Intent.fraud_report,
    OtherLabel.safety_report,
    OtherLabel.legal_threat,
)
MIN_CLEAR_RISK: Final = 0.6


class MessageClassifier:
    """A classifier of messages, which have several sentences: often a story, and one that says what is
    wanted.

    The probabilities of the whole message and those of its sentences count the same; of the sentences, those
    count most that are clear. `alternatives` holds every other label. A message whose likeliest label is out
    of scope is `unknown`.
    """

    def __init__(self, model: TrainedClassifier) -> None:
        self._model = model

    @property
    def labels(self) -> tuple[str, ...]:
        return self._model.labels

    def classify(self, text: str) -> Classification:
        """Return the label of a message. `alternatives` may contain a risk that only one sentence names."""
        if not text.strip():
            return Classification(UNKNOWN, 0.0)
        sentences = split_message(text)
        rows = self._model.compute_probabilities([text, *sentences] if len(sentences) > 1 else [text])
        return self._rank(rows[0] if len(rows) == 1 else self._combine(rows[0], rows[1:]))

    def _combine(self, whole: NDArray[np.float32], sentences: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the mean of the message's probabilities and its sentences', weighted by their clarity. A
        risk that one sentence clearly names keeps that sentence's probability.
        """
        clarity = np.square(sentences.max(axis=1))
        combined: NDArray[np.float32] = (
            whole + (clarity[:, None] * sentences).sum(axis=0) / clarity.sum()
        ) / 2
        for column in (self.labels.index(each) for each in RISK_LABELS if each in self.labels):
            clearest = sentences[:, column].max()
            if clearest >= MIN_CLEAR_RISK:
                combined[column] = max(combined[column], clearest)
        return combined

    def _rank(self, probabilities: NDArray[np.float32]) -> Classification:
        """Rank the labels. Of two equal ones the first wins, on every machine."""
        order = np.argsort(-probabilities, kind="stable")
        ranked = [(self.labels[place], float(probabilities[place])) for place in order]
        label, confidence = ranked[0]
        if label == OtherLabel.out_of_scope:
            return Classification(UNKNOWN, confidence, tuple(ranked))
        return Classification(label, confidence, tuple(ranked[1:]))


def split_message(text: str) -> list[str]:
    """Return the sentences of a message that say something, without greetings."""
    paragraphs = [" ".join(each.split()) for each in re.split(r"\n\s*\n", text)]
    sentences = [each for paragraph in paragraphs for each in split_sentences(paragraph)]
    long = [each for each in sentences if len(each.split()) >= MIN_SENTENCE_WORDS]
    return [each for each in long if not GREETING.fullmatch(each)][:MAX_SENTENCES]


@cache
def get_intent_classifier() -> Classifier:
    """Return the classifier, loaded once per process."""
    with as_file(files("richpanel").joinpath(MODEL_FILE)) as file:
        model = load_local_classifier(
            file, confidence_min=0.0, prepare=prepare_text, embedder=open_sentence_embedder()
        )
    return MessageClassifier(model)


def train_intent_model(examples: Sequence[Example]) -> TrainedClassifier:
    """Train the model on examples."""
    return train_local_classifier(
        examples, confidence_min=0.0, prepare=prepare_text, embedder=open_sentence_embedder()
    )


def load_examples() -> tuple[Example, ...]:
    """Load the examples of all labels, one per line that is not blank."""
    found: list[Example] = []
    for label in LABELS:
        lines = files("richpanel").joinpath(FOLDER, f"{label}.txt").read_text("utf-8").splitlines()
        found += [Example(line.strip(), label) for line in lines if line.strip()]
    return tuple(found)


def hash_examples(examples: Sequence[Example]) -> str:
    """Return the hash of examples: a model with another one was trained on others."""
    lines = "\n".join(f"{each.label}\t{each.text}" for each in examples)
    return hashlib.sha256(lines.encode("utf-8")).hexdigest()


def prepare_text(text: str) -> str:
    """Return a text as the classifier reads it: NFKC, case folded, every number replaced by 0."""
    folded = unicodedata.normalize("NFKC", text).casefold().replace("’", "'")
    return NUMBER.sub("0", folded)
