"""Amazon Bedrock behind the port `Embedder`: Nova's multimodal embeddings, by InvokeModel.

    text → POST /model/{modelId}/invoke {taskType: SINGLE_EMBEDDING, …} → {embeddings: [{embeddingType, embedding}]}

Not proved against the service: requests and answers have the shapes of its documentation (schema nova-multimodal-embed-v1), and
the tests replay such. The model takes one text at a time. It wants to know what a vector is for: those of an index and those of
a question are made differently, and belong together.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from holdfast.errors import PartyFailed, SettingsError
from holdfast.sdk import Place, Timeouts, make_clients, require_sdk
from holdfast.security.services import error_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NOVA_EMBEDDINGS: Final = "amazon.nova-2-multimodal-embeddings-v1:0"
SCHEMA: Final = "nova-multimodal-embed-v1"
JSON: Final = "application/json"
WIDTHS: Final = (256, 384, 1024, 3072)
CONNECTIONS: Final = 8
ANSWER_S: Final = 20.0

Purpose = Literal["GENERIC_INDEX", "TEXT_RETRIEVAL", "DOCUMENT_RETRIEVAL", "GENERIC_RETRIEVAL"]


def open_bedrock_runtime(address: str, *, timeouts: Timeouts | None = None) -> Any:
    """The SDK's client: `bedrock://us-east-1`, or `bedrock+http://127.0.0.1:9000` for a server of one's own."""
    require_sdk("Bedrock")
    place = Place.of(address)
    try:
        (client,) = make_clients(
            ("bedrock-runtime",), place, timeouts or Timeouts(read_s=ANSWER_S), CONNECTIONS
        )
    except Exception as error:
        raise error_of(error, "opening Bedrock", place.shown) from error
    return client


class NovaEmbedder:
    """`client` has `invoke_model`, as the SDK's for bedrock-runtime; any thread may call this."""

    def __init__(
        self,
        client: Any,
        *,
        purpose: Purpose = "GENERIC_INDEX",
        dimensions: int = 1024,
        model_id: str = NOVA_EMBEDDINGS,
    ) -> None:
        if dimensions not in WIDTHS:
            raise SettingsError(
                f"{model_id} gives vectors of {', '.join(map(str, WIDTHS))} dimensions, not {dimensions}."
            )
        self._client, self._purpose, self._dimensions, self.model_id = client, purpose, dimensions, model_id

    @property
    def dimensions(self) -> int:
        return self._dimensions

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        import numpy as np

        found = np.zeros((len(texts), self._dimensions), np.float32)
        for row, text in enumerate(texts):
            # An empty text is refused there, and has no vector here.
            if text.strip():
                found[row] = self._asked(text)
        lengths = np.linalg.norm(found, axis=1, keepdims=True)
        found /= np.where(lengths == 0, 1, lengths)
        return found

    def _asked(self, text: str) -> list[float]:
        body = json.dumps(_request(text, self._purpose, self._dimensions))
        try:
            answer = self._client.invoke_model(
                modelId=self.model_id, body=body, contentType=JSON, accept=JSON
            )
            said = answer["body"].read()
        except Exception as error:
            raise error_of(error, "InvokeModel", f"Bedrock ({self.model_id})") from error
        return _vector(said, self._dimensions)


def _request(text: str, purpose: Purpose, dimensions: int) -> dict[str, Any]:
    return {
        "schemaVersion": SCHEMA,
        "taskType": "SINGLE_EMBEDDING",
        "singleEmbeddingParams": {
            "embeddingPurpose": purpose,
            "embeddingDimension": dimensions,
            # What is too long is embedded by its beginning.
            "text": {"truncationMode": "END", "value": text},
        },
    }


def _vector(said: bytes, dimensions: int) -> list[float]:
    try:
        found: Any = json.loads(said)
        vector = found["embeddings"][0]["embedding"] if isinstance(found, Mapping) else None
    except (ValueError, KeyError, IndexError, TypeError):
        vector = None
    if (
        not isinstance(vector, list)
        or len(vector) != dimensions
        or not all(isinstance(each, int | float) for each in vector)
    ):
        raise PartyFailed(
            f"Bedrock answers nonsense: no vector of {dimensions} numbers. Ask again; if it stays, the model has changed.",
            may_be_done=True,
        )
    return [float(each) for each in vector]
