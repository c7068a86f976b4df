"""The embedding of production: Amazon Nova's multimodal embeddings on Bedrock, 1,024 dimensions wide.

Not proved against the service (`holdfast.ai.bedrock` says what it is made after). Chunks are embedded for an index and questions for
retrieval from it, which is how the model wants it. The bounds are the design document's; `calibrating` measures them anew.
"""

from __future__ import annotations

from typing import Any, Final

from holdfast.ai import NovaEmbedder, open_bedrock_runtime
from tripcortex.knowledge.embedding import BOUNDS, NOVA, Embedding

ADDRESS: Final = "bedrock://us-east-1"


def bedrock_embedding(address: str = ADDRESS, *, client: Any = None) -> Embedding:
    """`client` has `invoke_model`; without one, the SDK's for this address."""
    runtime = open_bedrock_runtime(address) if client is None else client
    return Embedding(
        NovaEmbedder(runtime, purpose="GENERIC_INDEX", model_id=NOVA),
        NOVA,
        BOUNDS[NOVA],
        questions=NovaEmbedder(runtime, purpose="TEXT_RETRIEVAL", model_id=NOVA),
    )
