"""Intent classifier: its examples, and its accuracy on unseen texts."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from holdfast.ai import (
    UNKNOWN,
    Accuracy,
    Classification,
    Embedder,
    Example,
    measure_accuracy,
    open_sentence_embedder,
    read_classifier_notes,
    train_local_classifier,
)
from richpanel.api.intent_accuracy import load_labelled, main
from richpanel.domain.intents import (
    EXAMPLES_NOTE,
    LABELS,
    MODEL_FILE,
    Intent,
    MessageClassifier,
    OtherLabel,
    get_intent_classifier,
    hash_examples,
    load_examples,
    prepare_text,
)
from richpanel.domain.risks import Risk
from richpanel.domain.routing import RISK_INTENTS, find_risks

ROOT = Path(__file__).parents[4]
BANKING77 = (
    Path(os.environ.get("HOLDFAST_REAL_DATA", ROOT.parent / "shared" / "data")) / "richpanel" / "banking77"
)

# Minimum accuracy on unseen texts. docs/systems/richpanel/intents.md has the measured values.
MIN_ACCURACY = 0.78
MIN_KNOWN_ACCURACY = 0.80
MIN_RISKS_NOTICED = 0.90
MAX_FALSE_ALARMS = 0.05
MIN_BANKING77_ACCURACY = 0.82


class RememberingEmbedder:
    """Embeds each text once, because every fold asks for most of them."""

    def __init__(self, inner: Embedder) -> None:
        self._inner = inner
        self._known: dict[str, NDArray[np.float32]] = {}

    @property
    def dimensions(self) -> int:
        return self._inner.dimensions

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        new = list(dict.fromkeys(text for text in texts if text not in self._known))
        self._known.update(zip(new, self._inner.embed(new), strict=True))
        return np.array([self._known[text] for text in texts])


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    return RememberingEmbedder(open_sentence_embedder())


@pytest.fixture(scope="module")
def accuracy(embedder: Embedder) -> Accuracy:
    return measure_accuracy(load_examples(), prepare=prepare_text, embedder=embedder)


def test_each_label_has_distinct_examples_and_each_intent_at_least_fifty() -> None:
    texts = [prepare_text(example.text) for example in load_examples()]
    counts = Counter(example.label for example in load_examples())

    assert len(set(texts)) == len(texts)
    assert counts.keys() == set(LABELS)
    assert min(counts[each] for each in Intent) >= 50
    assert counts[OtherLabel.out_of_scope] >= 200


def test_shipped_model_was_trained_on_the_examples() -> None:
    notes = read_classifier_notes(ROOT / "systems" / "richpanel" / MODEL_FILE)

    assert notes[EXAMPLES_NOTE] == hash_examples(load_examples()), (
        "The examples changed: run python -m richpanel.api.intent_accuracy --train"
    )


def test_shipped_model_equals_a_trained_one(embedder: Embedder) -> None:
    trained = train_local_classifier(
        load_examples(), confidence_min=0.0, prepare=prepare_text, embedder=embedder
    )
    texts = [example.text for example in load_examples()[::40]]

    for text in texts:
        fresh, shipped = MessageClassifier(trained).classify(text), get_intent_classifier().classify(text)
        assert fresh.label == shipped.label and abs(fresh.confidence - shipped.confidence) < 0.01


def test_accuracy_on_unseen_texts_is_high_enough(accuracy: Accuracy) -> None:
    assert accuracy.overall >= MIN_ACCURACY
    assert accuracy.when_known >= MIN_KNOWN_ACCURACY
    assert len(accuracy.outcomes) == len(load_examples())


def test_finds_unseen_risks_with_few_false_alarms(embedder: Embedder) -> None:
    noticed: list[bool] = []
    alarmed: list[bool] = []
    for number in range(5):
        seen = [example for place, example in enumerate(load_examples()) if place % 5 != number]
        model = train_local_classifier(seen, confidence_min=0.0, prepare=prepare_text, embedder=embedder)
        for example in load_examples()[number::5]:
            found = find_risks(example.text, MessageClassifier(model).classify(example.text))
            (noticed if example.label in RISK_INTENTS else alarmed).append(bool(found))

    assert sum(noticed) / len(noticed) >= MIN_RISKS_NOTICED
    assert sum(alarmed) / len(alarmed) <= MAX_FALSE_ALARMS


def test_risk_words_are_rare_in_harmless_texts() -> None:
    harmless = [each for each in load_examples() if each.label not in RISK_INTENTS]
    alarmed = [each.text for each in harmless if find_risks(each.text, Classification(UNKNOWN, 0.0))]

    assert len(alarmed) <= len(harmless) * 0.01
    assert find_risks("charge-back!", Classification(UNKNOWN, 0.0)) == {Risk.chargeback}


@pytest.mark.parametrize(
    "text",
    [
        "what will the weather be in Leeds tomorrow",
        "We help shops to rank first on search engines, may I call you?",
        "My name is Ben and I would like to apply for the job in your warehouse.",
    ],
)
def test_messages_out_of_scope_have_no_intent(text: str) -> None:
    assert not get_intent_classifier().classify(text).is_known


def test_the_sentence_that_says_what_is_wanted_decides() -> None:
    story = "Hello,\n\nmy sister moved in summer and we bought the lamp for her. "
    found = get_intent_classifier().classify(story + "Please cancel the order before you send it.")

    assert found.label == Intent.cancel_order


@pytest.mark.parametrize(
    ("text", "intent"),
    [
        ("Where is my order #99172?", Intent.order_status),
        ("please cancel the order I placed today", Intent.cancel_order),
        ("I'd like to return these boots and get a refund", Intent.return_or_refund),
        ("My bank opened a chargeback dispute", Intent.chargeback),
        ("thanks a lot!", Intent.greeting_or_thanks),
        ("I forgot my password and cannot log in", Intent.account_access),
    ],
)
def test_classifies_plain_requests(text: str, intent: Intent) -> None:
    found = get_intent_classifier().classify(text)

    assert found.label == intent and found.confidence > 0.5


def test_order_number_does_not_change_the_intent() -> None:
    one = get_intent_classifier().classify("where is order #48213")

    assert (
        one == get_intent_classifier().classify("where is order #90-1182")
        and one.label == Intent.order_status
    )


def test_documentation_states_the_measured_accuracy(accuracy: Accuracy) -> None:
    page = (ROOT / "docs" / "systems" / "richpanel" / "intents.md").read_text(encoding="utf-8")
    stated = re.search(r"\*\*([\d.]+) %\*\* of (\d+) texts", page)

    # Rounding differs between machines, and one or two texts may be classified differently.
    assert stated is not None and int(stated[2]) == len(accuracy.outcomes)
    assert abs(float(stated[1]) / 100 - accuracy.overall) < 0.02


def test_command_line_measures_accuracy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "own.csv"
    table.write_text("text,category\n" + "a red rose,flower\nsteel bolt,part\n" * 10, encoding="utf-8")

    main([str(table)])
    assert "Right on 100.0% of 20 texts" in capsys.readouterr().out


@pytest.mark.skipif(
    not (BANKING77 / "train.csv").is_file(),
    reason="needs real data: set HOLDFAST_REAL_DATA to a folder with richpanel/banking77",
)
def test_same_method_classifies_bank_questions() -> None:
    place: Counter[str] = Counter()
    taken: list[Example] = []
    unseen: list[Example] = []
    for example in load_labelled(BANKING77 / "train.csv"):
        place[example.label] += 1
        if place[example.label] <= 20:
            taken.append(example)
        elif place[example.label] <= 26:
            unseen.append(example)

    model = train_local_classifier(
        taken, prepare=prepare_text, confidence_min=0.0, embedder=open_sentence_embedder()
    )
    hits = [model.classify(each.text).label == each.label for each in unseen]
    assert len(hits) > 400 and sum(hits) / len(hits) >= MIN_BANKING77_ACCURACY
