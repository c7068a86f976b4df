"""The embedder of sentences: the published model, computed without the library that trained it."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.ai import factory, open_sentence_embedder
from holdfast.ai.local import sentences
from holdfast.core.errors import SettingsError

# As the model's publisher lists them.
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"


def test_similarities_are_those_that_the_model_was_published_with() -> None:
    texts = ["The cat sits outside", "The dog plays in the garden"]
    texts += ["The new movie is awesome", "The new movie is so great"]

    cat, dog, awesome, great = open_sentence_embedder().embed(texts)

    assert (cat @ dog, awesome @ great) == (pytest.approx(0.2838, abs=2e-4), pytest.approx(0.8939, abs=2e-4))


def test_vectors_have_384_dimensions_and_length_one() -> None:
    vectors = open_sentence_embedder().embed(["hello", "a rather longer text, with punctuation!"])

    assert vectors.shape == (2, open_sentence_embedder().dimensions) == (2, 384)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1)


@settings(max_examples=10)
@given(st.lists(st.text(max_size=30), min_size=1, max_size=4))
def test_text_has_the_same_vector_alone_and_in_a_batch(texts: list[str]) -> None:
    together = open_sentence_embedder().embed(texts)

    assert all(
        np.array_equal(together[row], open_sentence_embedder().embed([text])[0])
        for row, text in enumerate(texts)
    )


def test_empty_text_has_a_zero_vector_and_a_lone_surrogate_is_accepted() -> None:
    empty, odd = open_sentence_embedder().embed(["  ", "\ud800 hello"])

    assert not empty.any() and odd.any()


def test_ignores_what_follows_the_length_that_the_model_was_trained_on() -> None:
    kept, longer = open_sentence_embedder().embed(["fare " * 400, "fare " * 400 + "hotel"])

    assert np.array_equal(kept, longer)


def test_the_installed_weights_and_tokenizer_are_the_published_ones() -> None:
    folder = sentences._find_package_folder()

    assert hashlib.sha256((folder / sentences.WEIGHTS).read_bytes()).hexdigest() == WEIGHTS_SHA256
    assert hashlib.sha256((folder / sentences.TOKENIZER).read_bytes()).hexdigest() == TOKENIZER_SHA256


def test_never_imports_the_package_of_the_weights() -> None:
    program = (
        "import sys; from holdfast.ai import open_sentence_embedder; open_sentence_embedder().embed(['x']); "
        f"sys.exit({sentences.PACKAGE!r} in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=240).returncode == 0


def test_names_a_missing_package_or_file_and_the_extra_that_brings_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(factory, "SENTENCE_PACKAGES", ("no_such_package",))
        with pytest.raises(SettingsError, match=r"holdfast-state\[sentences\]"):
            open_sentence_embedder.__wrapped__()
    (tmp_path / "empty_package").mkdir()
    (tmp_path / "empty_package" / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sentences, "PACKAGE", "empty_package")
    with pytest.raises(SettingsError, match=r"lacks .*model\.safetensors"):
        sentences.load_sentence_embedder()
