"""The production embedding: Amazon Nova multimodal embeddings on Bedrock, with 1,024 dimensions.

Not verified against the service (`holdfast.ai.bedrock` names the documentation it follows). Chunks are
embedded for indexing and questions for retrieval, as the model expects. The bounds are the design document's;
`calibration` measures them.
"""

from __future__ import annotations

from typing import Any, Final

from holdfast.ai import NovaEmbedder, open_bedrock_runtime
from tripcortex.policies.embedding import BOUNDS, NOVA, Embedding

ADDRESS: Final = "bedrock://us-east-1"


def build_bedrock_embedding(address: str = ADDRESS, *, client: Any = None) -> Embedding:
    """Return the embedding.

    `client` needs `invoke_model`; without one, an SDK client for `address` is created.
    """
    runtime = open_bedrock_runtime(address) if client is None else client
    return Embedding(
        NovaEmbedder(runtime, purpose="GENERIC_INDEX", model_id=NOVA),
        NOVA,
        BOUNDS[NOVA],
        question_embedder=NovaEmbedder(runtime, purpose="TEXT_RETRIEVAL", model_id=NOVA),
    )
