"""The models that the settings name: who embeds policies and questions, and who makes a plan of a sentence.

    TRIPCORTEX_EMBEDDING = local | bedrock     TRIPCORTEX_PLANNER = sentences | bedrock

Bedrock's are not proved against the service (`holdfast.ai.bedrock`). Chunks that one embedding made are not found by another: after
a change of it, policies are uploaded anew.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from holdfast.ai import BedrockConverse, open_bedrock_runtime
from tripcortex.knowledge.embedding import Embedding, local_embedding
from tripcortex.planning.ports import Planner
from tripcortex.settings import BEDROCK, TripCortexSettings


def open_embedding(settings: TripCortexSettings) -> Embedding:
    """Reads a model from the disk, or opens a client of the SDK: the first time takes a moment."""
    if settings.embedding != BEDROCK:
        return local_embedding()
    from tripcortex.knowledge.bedrock import bedrock_embedding

    return bedrock_embedding(client=_runtime(settings.bedrock))


def open_planner(settings: TripCortexSettings) -> Planner:
    if settings.planner != BEDROCK:
        from tripcortex.planning.sentences import SentencePlanner

        return SentencePlanner()
    from tripcortex.planning.bedrock import nova_planner

    return nova_planner(BedrockConverse(_runtime(settings.bedrock)))


@cache
def _runtime(address: str) -> Any:
    """One client for all in a process: any thread may use it."""
    return open_bedrock_runtime(address)
