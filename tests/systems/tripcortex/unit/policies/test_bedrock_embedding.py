"""Test of the Bedrock embedding with a fake client that answers in the documented shape."""

from __future__ import annotations

import io
import json
from typing import Any

from tripcortex.policies.bedrock import build_bedrock_embedding
from tripcortex.policies.embedding import NOVA


class Client:
    """A fake Bedrock client that records the purpose of each embedding."""

    def __init__(self) -> None:
        self.purposes: list[str] = []

    def invoke_model(self, *, modelId: str, body: str, **_: Any) -> dict[str, Any]:  # noqa: N803
        asked = json.loads(body)["singleEmbeddingParams"]
        self.purposes.append(asked["embeddingPurpose"])
        assert (modelId, asked["embeddingDimension"]) == (NOVA, 1024)
        said = {"embeddings": [{"embeddingType": "TEXT", "embedding": [1.0] * 1024}]}
        return {"body": io.BytesIO(json.dumps(said).encode())}


def test_embeds_chunks_for_indexing_and_questions_for_retrieval() -> None:
    client = Client()
    embedding = build_bedrock_embedding(client=client)
    [passage] = embedding.embed_passages(["Fly economy"])
    assert passage == embedding.embed_question("Which cabin may I fly in?")
    assert passage is not None and passage.startswith("[0.03125,")
    assert client.purposes == ["GENERIC_INDEX", "TEXT_RETRIEVAL"]
    assert (embedding.threshold, embedding.bounds.high, embedding.model_id) == (0.65, 0.75, NOVA)
