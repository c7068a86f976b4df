"""The local embedder and classifier: deterministic, offline, and clear errors for missing packages."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.ai import UNKNOWN, Example, measure_accuracy, open_local_embedder, train_local_classifier
from holdfast.core.errors import InvalidRequest, SettingsError

FRUIT = ["a ripe apple", "sweet banana", "juicy orange", "green pear", "fresh cherries", "a bowl of grapes"]
FRUIT += ["a basket of plums", "dried figs"]
METAL = ["iron rod", "a steel beam", "copper wire", "rusty nail", "aluminium sheet", "a brass screw"]
METAL += ["a tin can", "zinc coating"]
EXAMPLES = [Example(text, "fruit") for text in FRUIT] + [Example(text, "metal") for text in METAL]


def test_vectors_have_256_dimensions_and_length_one() -> None:
    vectors = open_local_embedder().embed(["hello", "a rather longer text, with punctuation!"])

    assert vectors.shape == (2, open_local_embedder().dimensions) == (2, 256)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1)


def test_empty_text_has_a_zero_vector() -> None:
    assert not open_local_embedder().embed([""]).any()


@given(st.lists(st.text(max_size=30), min_size=1, max_size=4))
def test_text_has_the_same_vector_alone_and_in_a_batch(texts: list[str]) -> None:
    together = open_local_embedder().embed(texts)

    assert all(
        np.array_equal(together[row], open_local_embedder().embed([text])[0])
        for row, text in enumerate(texts)
    )


def test_accepts_a_lone_surrogate() -> None:
    assert open_local_embedder().embed(["\ud800 hello"]).shape == (1, 256)


def test_similar_texts_have_similar_vectors() -> None:
    parcel, package, banana = open_local_embedder().embed(
        ["my parcel is late", "my package is delayed", "banana bread"]
    )

    assert parcel @ package > 0.5 > parcel @ banana


def test_never_imports_the_package_of_the_weights() -> None:
    program = (
        "import sys; from holdfast.ai import open_local_embedder; open_local_embedder().embed(['x']); "
        "sys.exit('wordllama' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode == 0


def test_names_a_missing_package_and_the_extra_that_brings_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = importlib.util.find_spec

    def without(name: str, *rest: Any) -> Any:
        return None if name == "tokenizers" else found(name, *rest)

    monkeypatch.setattr(importlib.util, "find_spec", without)
    with pytest.raises(SettingsError, match=r"needs tokenizers.*pip install 'holdfast-state\[ai\]'"):
        train_local_classifier(EXAMPLES)


def test_classifier_generalizes_to_unseen_words() -> None:
    classifier = train_local_classifier(EXAMPLES, confidence_min=0.5)

    assert classifier.labels == ("fruit", "metal")
    assert classifier.classify("ripe mango").label == "fruit"
    assert classifier.classify("titanium bolt").label == "metal"


def test_probabilities_add_up_to_one_in_descending_order() -> None:
    found = train_local_classifier(EXAMPLES, confidence_min=0.0).classify("an apple")

    assert found.confidence + sum(share for _, share in found.alternatives) == pytest.approx(1, abs=1e-5)
    assert found.confidence >= found.alternatives[0][1]


def test_answers_unknown_below_the_threshold_and_names_the_likeliest_label() -> None:
    found = train_local_classifier(EXAMPLES, confidence_min=1.01).classify("an apple")

    assert (found.label, found.is_known) == (UNKNOWN, False)
    assert found.alternatives[0] == ("fruit", found.confidence)


def test_classifiers_with_the_same_training_answer_alike() -> None:
    one, other = train_local_classifier(EXAMPLES), train_local_classifier(EXAMPLES)

    assert one.classify("a tin can of peaches") == other.classify("a tin can of peaches")


@pytest.mark.parametrize(
    ("examples", "why"),
    [
        ([], "two labels"),
        (EXAMPLES[:8], "two labels"),
        ([*EXAMPLES, *[Example("x", UNKNOWN)] * 5], "Invalid label"),
        ([*EXAMPLES, Example("x", "rare")], "rare"),
    ],
)
def test_rejects_too_few_labels_or_examples_and_the_label_unknown(examples: list[Example], why: str) -> None:
    with pytest.raises(InvalidRequest, match=why):
        train_local_classifier(examples)


def test_evaluation_classifies_each_example_once_and_only_unseen() -> None:
    # A unique word for each text: only a model that has seen it can know its label.
    """Give labels that only memory can know: the trained model knows them, cross-validation does not."""
    words = "oak elm ash fir yew box bay fig gum nut sky sea mud ice fog dew sun air fire rain".split()
    unpredictable = [Example(word, "even" if zlib.crc32(word.encode()) % 2 else "odd") for word in words]
    seen = train_local_classifier(unpredictable, confidence_min=0.0)

    found = measure_accuracy(unpredictable)
    assert all(seen.classify(each.text).label == each.label for each in unpredictable)
    assert len(found.outcomes) == len(words) and found.overall < 0.9


def test_evaluation_table_has_a_line_per_label_and_a_total() -> None:
    lines = measure_accuracy(EXAMPLES, folds=3).to_markdown().splitlines()

    assert len(lines) == 2 + 2 + 1 and lines[-1].startswith("| **all** | 16 |")
