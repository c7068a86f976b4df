"""Amazon Bedrock: Nova's multimodal embeddings behind the port `Embedder`, by InvokeModel; and Converse, for who has a prompt.

    text → POST /model/{modelId}/invoke {taskType: SINGLE_EMBEDDING, …} → {embeddings: [{embeddingType, embedding}]}
    body → POST /model/{modelId}/converse → {output: {message}, stopReason, usage, …}

Not proved against the service: requests and answers have the shapes of its documentation (schema nova-multimodal-embed-v1, and the
SDK's own description of Converse), and the tests replay such. The embedding model takes one text at a time. It wants to know what a
vector is for: those of an index and those of a question are made differently, and belong together.

What fails for now is `PartyFailed`, what is refused for good `PartyRefused`, and what an operator must mend `SettingsError`. The SDK
repeats nothing by itself: who asks does.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from holdfast.ai.reasoning import seen
from holdfast.errors import HoldfastError, PartyFailed, PartyRefused, SettingsError, StoreUnreachable
from holdfast.sdk import Place, Timeouts, make_clients, require_sdk
from holdfast.security.services import ACCESS_CODES, SERVER_FAULT, THROTTLE_CODES, code_of, error_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NOVA_EMBEDDINGS: Final = "amazon.nova-2-multimodal-embeddings-v1:0"
SCHEMA: Final = "nova-multimodal-embed-v1"
JSON: Final = "application/json"
WIDTHS: Final = (256, 384, 1024, 3072)
CONNECTIONS: Final = 8
# A model that thinks may take half a minute to answer.
ANSWER_S: Final = 45.0
TEXT_CHARS_MAX: Final = 300
RETRY_AFTER_S_MAX: Final = 3600.0
# Turned away before a model was asked; and given up on after one was.
TURNED_AWAY: Final = THROTTLE_CODES | {"ModelNotReadyException", "ServiceQuotaExceededException"}
GIVEN_UP: Final = frozenset({"ModelTimeoutException", "ModelErrorException", "ModelStreamErrorException"})

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
            raise _failure(error, "InvokeModel", self.model_id) from error
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


# --- a conversation ----------------------------------------------------------------------------------------------


class BedrockConverse:
    """`await converse(body)`, with what the operation Converse takes, `modelId` in it. `client` has `converse`, as the SDK's."""

    def __init__(self, client: Any) -> None:
        self._client = client

    async def __call__(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            answer: Any = await asyncio.to_thread(self._client.converse, **body)
        except Exception as error:
            raise _failure(error, "Converse", str(body.get("modelId", ""))) from error
        if not isinstance(answer, Mapping):
            raise PartyFailed("Bedrock answers nonsense: no object.", may_be_done=True)
        return answer


# --- what goes wrong ---------------------------------------------------------------------------------------------


def _failure(error: Exception, operation: str, model_id: str) -> HoldfastError:
    code = code_of(error)
    return _told(error, code, model_id) if code else _untold(error, operation, model_id)


def _told(error: Any, code: str, model_id: str) -> HoldfastError:
    response = error.response
    metadata = response.get("ResponseMetadata", {})
    said = f"{code}: {seen(str(response['Error'].get('Message', '')))[:TEXT_CHARS_MAX] or 'no reason given'}"
    if code in ACCESS_CODES:
        return SettingsError(
            f"Bedrock refuses us {model_id} ({said}): check the credentials, and that the account may use the model."
        )
    if code in TURNED_AWAY:
        told = f"Bedrock takes no request for {model_id} for now ({said})."
        return PartyFailed(told, may_be_done=False, retry_after_s=_retry_after(metadata))
    if code in GIVEN_UP or int(metadata.get("HTTPStatusCode", 400)) >= SERVER_FAULT:
        told = f"Bedrock failed over {model_id} ({said})."
        return PartyFailed(told, may_be_done=True, retry_after_s=_retry_after(metadata))
    return PartyRefused(code, f"Bedrock refuses a request for {model_id}: {said}.")


def _untold(error: Exception, operation: str, model_id: str) -> HoldfastError:
    where = f"Bedrock ({model_id})"
    if isinstance(error_of(error, operation, where), StoreUnreachable):
        return PartyFailed(f"{where} gave no answer ({type(error).__name__}).", may_be_done=True)
    # Its text may quote the request.
    return SettingsError(
        f"The AWS SDK cannot be used for {operation} at {where} ({type(error).__name__}): check its credentials, region and "
        "profile."
    )


def _retry_after(metadata: Mapping[str, Any]) -> float | None:
    try:
        wanted = float(metadata.get("HTTPHeaders", {}).get("retry-after", ""))
    except ValueError:
        return None
    return min(max(wanted, 0.0), RETRY_AFTER_S_MAX) if math.isfinite(wanted) else None
