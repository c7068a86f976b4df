"""Vectors of the table's width, and what their similarities mean for each model."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from holdfast.core.errors import DeclarationError
from tripcortex.domain.policy_search.query_words import extract_content_words
from tripcortex.policies.embedding import BOUNDS, LOCAL, NOVA, Bounds, Embedding, build_local_embedding


class Lengths:
    """Longer than 1 on purpose; a text without a letter has no vector."""

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


def parsed(vector: str | None) -> list[float]:
    assert vector is not None
    return [float(each) for each in vector.strip("[]").split(",")]


@pytest.mark.proves("TC-32")
@pytest.mark.proves("TC-38")
def test_a_vector_has_1024_dimensions_and_the_length_of_1_and_its_angle_stays() -> None:
    made = Embedding(Lengths(), "lengths", Bounds(0.5, 0.7))
    [vector] = made.embed_passages(["text"])
    assert len(parsed(vector)) == 1024
    assert parsed(vector)[:3] == pytest.approx([0.6, 0.8, 0])
    assert math.fsum(each**2 for each in parsed(vector)) == pytest.approx(1)
    local = build_local_embedding()
    assert math.fsum(each**2 for each in parsed(local.embed_question("a hotel in Boston"))) == pytest.approx(
        1
    )


def test_a_text_without_a_known_token_has_no_vector() -> None:
    made = Embedding(Lengths(), "lengths", Bounds(0.5, 0.7))
    assert made.embed_passages(["", "x"])[0] is None and made.embed_passages(["", "x"])[1] is not None
    assert made.embed_question("  ") is None
    assert made.embed_passages([]) == []


def test_a_model_whose_vectors_are_wider_than_the_table_is_refused() -> None:
    with pytest.raises(DeclarationError, match="at most 1024 dimensions, got 3072"):
        Embedding(Lengths(3072), "wide", Bounds(0.5, 0.7))
    with pytest.raises(DeclarationError, match="3072"):
        Embedding(Lengths(), "wide questions", Bounds(0.5, 0.7), question_embedder=Lengths(3072))


def test_questions_may_be_embedded_apart_and_are_widened_only_for_a_model_that_needs_it() -> None:
    passages, questions = Lengths(), Lengths()
    large = Embedding(passages, "large", Bounds(0.5, 0.7), question_embedder=questions)
    large.embed_question("Where is my cab?")
    assert (passages.asked, questions.asked) == ([], ["Where is my cab?"])
    small = Embedding(passages, "small", Bounds(0.5, 0.7), prepare=extract_content_words, adds_synonyms=True)
    small.embed_question("Where is my cab?")
    assert passages.asked[0].startswith("cab taxi ")


@pytest.mark.proves("TC-41")
def test_each_model_has_bounds_of_its_own_and_065_is_novas() -> None:
    assert BOUNDS[NOVA] == Bounds(0.65, 0.75)
    assert BOUNDS[LOCAL].threshold < 0.65
    told = {each: BOUNDS[NOVA].get_confidence(each) for each in (None, 0.6499, 0.65, 0.75, 0.7501, 0.89)}
    assert list(told.values()) == ["none", "none", "low", "low", "high", "high"]


def test_words_that_every_text_has_are_left_out_unless_there_are_no_others() -> None:
    assert extract_content_words("What may I do with the Hotel's invoice?") == "hotel's invoice"
    assert extract_content_words("What may I do?") == "What may I do?"
