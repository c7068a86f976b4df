"""Opens the AI models that the settings choose: the embedding of policies and questions, and the planner.

    TRIPCORTEX_EMBEDDING = local | bedrock     TRIPCORTEX_PLANNER = sentences | bedrock

The Bedrock models are not tested against the service (`holdfast.ai.bedrock`). Chunks embedded by one model
are not found by another: upload the policies again after changing the embedding.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from holdfast.ai import BedrockConverse, open_bedrock_runtime
from tripcortex.domain.planner.ports import Planner
from tripcortex.policies.embedding import Embedding, build_local_embedding
from tripcortex.settings import BEDROCK, TripCortexSettings


def open_embedding(settings: TripCortexSettings) -> Embedding:
    """Open the embedding of the settings: the local model, or Nova on Bedrock.

    It loads a model from disk or opens an SDK client, so the first call takes a moment.
    """
    if settings.embedding != BEDROCK:
        return build_local_embedding()
    from tripcortex.policies.bedrock import build_bedrock_embedding

    return build_bedrock_embedding(client=_open_runtime(settings.bedrock))


def open_planner(settings: TripCortexSettings) -> Planner:
    """Return the planner of the settings: `SentencePlanner`, or Nova on Bedrock, checked by the rules."""
    if settings.planner != BEDROCK:
        from tripcortex.domain.planner.sentence_planner import SentencePlanner

        return SentencePlanner()
    from tripcortex.integrations.planner_models.checked_planner import CheckedPlanner
    from tripcortex.integrations.planner_models.nova import build_nova_planner

    return CheckedPlanner(build_nova_planner(BedrockConverse(_open_runtime(settings.bedrock))))


@cache
def _open_runtime(address: str) -> Any:
    """Return the Bedrock client of this process for the address, created once. It is thread-safe."""
    return open_bedrock_runtime(address)
