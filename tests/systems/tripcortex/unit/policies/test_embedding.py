"""Tests of `Embedding` with a fake model: width and length of vectors, question model, thresholds."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from holdfast.core.errors import DeclarationError
from tripcortex.domain.policy_search.query_words import extract_content_words
from tripcortex.policies.embedding import BOUNDS, LOCAL, NOVA, Bounds, Embedding, build_local_embedding


class FakeModel:
    """Fake model with vectors longer than 1; a text without letters has no vector."""

    def __init__(self, dimensions: int = 3) -> None:
        self.dimensions = dimensions
        self.asked: list[str] = []

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.asked += texts
        rows = [
            [3.0, 4.0, *[0.0] * (self.dimensions - 2)] if text.strip() else [0.0] * self.dimensions
            for text in texts
        ]
        return np.array(rows, np.float32)


def parse_vector(vector: str | None) -> list[float]:
    assert vector is not None
    return [float(each) for each in vector.strip("[]").split(",")]


@pytest.mark.proves("TC-32", "TC-38")
def test_pads_to_1024_dimensions_and_normalizes_without_changing_the_angle() -> None:
    made = Embedding(FakeModel(), "lengths", Bounds(0.5, 0.7))
    [vector] = made.embed_passages(["text"])
    assert len(parse_vector(vector)) == 1024
    assert parse_vector(vector)[:3] == pytest.approx([0.6, 0.8, 0])
    assert math.fsum(each**2 for each in parse_vector(vector)) == pytest.approx(1)
    local = build_local_embedding()
    assert math.fsum(
        each**2 for each in parse_vector(local.embed_question("a hotel in Boston"))
    ) == pytest.approx(1)


def test_a_text_without_a_known_token_has_no_vector() -> None:
    made = Embedding(FakeModel(), "lengths", Bounds(0.5, 0.7))
    assert made.embed_passages(["", "x"])[0] is None and made.embed_passages(["", "x"])[1] is not None
    assert made.embed_question("  ") is None
    assert made.embed_passages([]) == []


def test_a_model_whose_vectors_are_wider_than_the_table_is_refused() -> None:
    with pytest.raises(DeclarationError, match="at most 1024 dimensions, got 3072"):
        Embedding(FakeModel(3072), "wide", Bounds(0.5, 0.7))
    with pytest.raises(DeclarationError, match="3072"):
        Embedding(FakeModel(), "wide questions", Bounds(0.5, 0.7), question_embedder=FakeModel(3072))


def test_embeds_questions_with_their_own_model_if_set() -> None:
    passages, questions = FakeModel(), FakeModel()
    large = Embedding(passages, "large", Bounds(0.5, 0.7), question_embedder=questions)
    large.embed_question("Where is my cab?")
    assert (passages.asked, questions.asked) == ([], ["Where is my cab?"])


@pytest.mark.proves("TC-41")
def test_each_model_has_its_own_threshold_and_novas_is_065() -> None:
    assert BOUNDS[NOVA] == Bounds(0.65, 0.75)
    assert BOUNDS[LOCAL].threshold < 0.65
    confidences = {
        each: BOUNDS[NOVA].get_confidence(each) for each in (None, 0.6499, 0.65, 0.75, 0.7501, 0.89)
    }
    assert list(confidences.values()) == ["none", "none", "low", "low", "high", "high"]


def test_drops_stop_words_unless_nothing_else_is_left() -> None:
    assert extract_content_words("What may I do with the Hotel's invoice?") == "hotel's invoice"
    assert extract_content_words("What may I do?") == "What may I do?"
