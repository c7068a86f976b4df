"""The door to the engines: refuses in words where their packages are missing, loads them otherwise."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cache
from typing import TYPE_CHECKING, Final

from holdfast.ai.ports import Classifier, Embedder, Example, Prepare
from holdfast.ai.reasoning import Reasoner
from holdfast.ai.reports import Accuracy
from holdfast.errors import SettingsError
from holdfast.settings import RULES, Settings

if TYPE_CHECKING:
    import httpx2

PACKAGES: Final = ("wordllama", "safetensors", "tokenizers", "numpy")
CLIENT_PACKAGES: Final = ("httpx2",)
# An answer comes all at once: a page of words takes a model some seconds.
ANSWER_S: Final = 45.0
CONNECT_S: Final = 10.0
# Below this probability no label is given.
CONFIDENCE_MIN: Final = 0.4
FOLDS: Final = 5


@cache
def local_embedder() -> Embedder:
    """Mean of WordLlama's token vectors, 256 dimensions. Loaded once in a process; nothing is downloaded."""
    _require("local embeddings")
    from holdfast.ai.local.embeddings import load_embedder

    return load_embedder()


def local_classifier(
    examples: Sequence[Example],
    *,
    confidence_min: float = CONFIDENCE_MIN,
    prepare: Prepare = str.casefold,
    embedder: Embedder | None = None,
) -> Classifier:
    """A linear classifier, trained on the examples here and now. `prepare` is done to every text before it is seen."""
    _require("the local classifier")
    from holdfast.ai.local.classifier import train

    return train(examples, embedder or local_embedder(), confidence_min, prepare)


def measure(
    examples: Sequence[Example],
    *,
    folds: int = FOLDS,
    confidence_min: float = CONFIDENCE_MIN,
    prepare: Prepare = str.casefold,
    embedder: Embedder | None = None,
) -> Accuracy:
    """How often the local classifier is right on examples that it was not trained on: cross-validation in `folds` parts."""
    _require("the local classifier")
    from holdfast.ai.local.evaluation import cross_validate

    return cross_validate(examples, embedder or local_embedder(), folds, confidence_min, prepare)


@asynccontextmanager
async def open_reasoner(settings: Settings | None = None) -> AsyncIterator[Reasoner | None]:
    """Whom the settings name, for as long as this is entered; None where rules are to write."""
    settings = settings or Settings.load()
    if settings.reasoner == RULES:
        yield None
        return
    _require("Claude", CLIENT_PACKAGES, "agenticpm")
    from holdfast.ai.claude import ClaudeReasoner
    from holdfast.ai.models import models_in, shipped_models

    file = settings.reasoner_prices_file
    models = shipped_models() if file is None else models_in(file)
    async with _client(settings) as http:
        yield ClaudeReasoner(http, settings.reasoner_model, models)


def _client(settings: Settings) -> httpx2.AsyncClient:
    """The key is looked up for each request: one that is set or rotated later is the one that is sent."""
    import httpx2

    from holdfast.ai.claude import KEY_HEADER
    from holdfast.security.secrets import open_secrets

    secrets = open_secrets(settings.secrets, settings.secrets_file, clock=settings.clock)

    async def give_key(request: httpx2.Request) -> None:
        secret = await asyncio.to_thread(secrets.get, settings.reasoner_secret)
        request.headers[KEY_HEADER] = secret.current

    return httpx2.AsyncClient(
        base_url=settings.reasoner_url,
        timeout=httpx2.Timeout(ANSWER_S, connect=CONNECT_S),
        event_hooks={"request": [give_key]},
    )


def _require(what: str, packages: Sequence[str] = PACKAGES, extra: str = "ai") -> None:
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        raise SettingsError(
            f"{what[0].upper()}{what[1:]} needs {', '.join(missing)}, which this installation does not have: "
            f"pip install '.[{extra}]' in the clone of Holdfast, or make setup."
        )
