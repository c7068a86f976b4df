"""Amazon Bedrock: Nova's multimodal embeddings behind the port `Embedder` (InvokeModel), and Converse.

    text → POST /model/{modelId}/invoke {taskType: SINGLE_EMBEDDING, …}
         → {embeddings: [{embeddingType, embedding}]}
    body → POST /model/{modelId}/converse → {output: {message}, stopReason, usage, …}

Not tested against the service: requests and answers follow its documentation (schema
nova-multimodal-embed-v1, and the SDK's description of Converse), and the tests replay such answers. The
embedding model takes one text per request. It needs the purpose of a vector: vectors of an index and of a
query are computed differently and belong together.

A temporary failure raises `ExternalServiceFailed`, a permanent refusal `ExternalServiceRefused`, and a
failure that the operator must fix `SettingsError`. The SDK does not retry; the caller does.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from holdfast.ai.reasoner import strip_invisible
from holdfast.config.aws_clients import ServiceAddress, Timeouts, make_clients, require_sdk
from holdfast.core.errors import (
    ExternalServiceFailed,
    ExternalServiceRefused,
    HoldfastError,
    SettingsError,
    StoreUnreachable,
)
from holdfast.core.http.headers import parse_retry_after
from holdfast.security.aws_errors import (
    ACCESS_CODES,
    SERVER_ERROR_STATUS,
    THROTTLE_CODES,
    get_error_code,
    to_holdfast_error,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NOVA_EMBEDDINGS: Final = "amazon.nova-2-multimodal-embeddings-v1:0"
SCHEMA: Final = "nova-multimodal-embed-v1"
JSON_TYPE: Final = "application/json"
SUPPORTED_DIMENSIONS: Final = (256, 384, 1024, 3072)
CONNECTIONS: Final = 8
# A model with thinking enabled may take half a minute to answer.
READ_TIMEOUT_S: Final = 45.0
MAX_TEXT_CHARS: Final = 300
# Rejected before the model started; and failed after it started.
NOT_STARTED_CODES: Final = THROTTLE_CODES | {"ModelNotReadyException", "ServiceQuotaExceededException"}
MODEL_FAILURE_CODES: Final = frozenset(
    {"ModelTimeoutException", "ModelErrorException", "ModelStreamErrorException"}
)

Purpose = Literal["GENERIC_INDEX", "TEXT_RETRIEVAL", "DOCUMENT_RETRIEVAL", "GENERIC_RETRIEVAL"]


def open_bedrock_runtime(address: str, *, timeouts: Timeouts | None = None) -> Any:
    """Open the SDK's client for an address: `bedrock://us-east-1`, or `bedrock+http://127.0.0.1:9000` for a
    server of your own. Raise `SettingsError` if the SDK is not installed.
    """
    require_sdk("Bedrock")
    place = ServiceAddress.parse(address)
    try:
        (client,) = make_clients(
            ("bedrock-runtime",), place, timeouts or Timeouts(read_s=READ_TIMEOUT_S), CONNECTIONS
        )
    except Exception as error:
        raise to_holdfast_error(error, "opening Bedrock", place.display_name) from error
    return client


class NovaEmbedder:
    """An embedder on Nova. `client` has `invoke_model`, as the SDK's bedrock-runtime client. Thread-safe.

    `dimensions` other than 256, 384, 1024 or 3072 raise `SettingsError`.
    """

    def __init__(
        self,
        client: Any,
        *,
        purpose: Purpose = "GENERIC_INDEX",
        dimensions: int = 1024,
        model_id: str = NOVA_EMBEDDINGS,
    ) -> None:
        if dimensions not in SUPPORTED_DIMENSIONS:
            raise SettingsError(
                f"{model_id} returns vectors of {', '.join(map(str, SUPPORTED_DIMENSIONS))} dimensions, not "
                f"{dimensions}."
            )
        self._client, self._purpose, self._dimensions, self.model_id = client, purpose, dimensions, model_id

    @property
    def dimensions(self) -> int:
        return self._dimensions

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one vector of length 1 per text, with one request each; a blank text gets a vector of
        zeros.
        """
        import numpy as np

        found = np.zeros((len(texts), self._dimensions), np.float32)
        for row, text in enumerate(texts):
            # Bedrock refuses an empty text; its vector stays all zeros.
            if text.strip():
                found[row] = self._embed_one(text)
        lengths = np.linalg.norm(found, axis=1, keepdims=True)
        found /= np.where(lengths == 0, 1, lengths)
        return found

    def _embed_one(self, text: str) -> list[float]:
        """Return the vector of one text, not normalised. Raise the errors that the module describes."""
        body = json.dumps(_build_request(text, self._purpose, self._dimensions))
        try:
            answer = self._client.invoke_model(
                modelId=self.model_id, body=body, contentType=JSON_TYPE, accept=JSON_TYPE
            )
            said = answer["body"].read()
        except Exception as error:
            raise _to_error(error, "InvokeModel", self.model_id) from error
        return _parse_vector(said, self._dimensions)


def _build_request(text: str, purpose: Purpose, dimensions: int) -> dict[str, Any]:
    """Return the InvokeModel body for one text, which the service cuts at the end if it is too long."""
    return {
        "schemaVersion": SCHEMA,
        "taskType": "SINGLE_EMBEDDING",
        "singleEmbeddingParams": {
            "embeddingPurpose": purpose,
            "embeddingDimension": dimensions,
            # A text that is too long is cut at the end.
            "text": {"truncationMode": "END", "value": text},
        },
    }


def _parse_vector(body: bytes, dimensions: int) -> list[float]:
    """Return the vector in the body of Bedrock's answer.

    Raise `ExternalServiceFailed` unless it is a list of exactly `dimensions` finite numbers.
    """
    try:
        found: Any = json.loads(body)
        vector = found["embeddings"][0]["embedding"] if isinstance(found, Mapping) else None
    except (ValueError, KeyError, IndexError, TypeError):
        vector = None
    if not isinstance(vector, list) or len(vector) != dimensions or not all(map(_is_finite_number, vector)):
        raise ExternalServiceFailed(
            f"Invalid answer from Bedrock: no vector of {dimensions} numbers. Retry; if it happens "
            "again, the model has changed.",
            may_be_done=True,
        )
    return [float(each) for each in vector]


def _is_finite_number(value: Any) -> bool:
    """Return whether a JSON value is a number that a vector can hold: Python also parses NaN and Infinity."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) <= sys.float_info.max


# --- Converse -----------------------------------------------------------------------------------------------


class BedrockConverse:
    """A callable for Converse: `await converse(body)` with the operation's parameters, `modelId` included.

    `client` has `converse`, as the SDK's client.
    """

    def __init__(self, client: Any) -> None:
        self._client = client

    async def __call__(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Call Converse in a thread and return its answer. Raise the errors that the module describes."""
        try:
            answer: Any = await asyncio.to_thread(self._client.converse, **body)
        except Exception as error:
            raise _to_error(error, "Converse", str(body.get("modelId", ""))) from error
        if not isinstance(answer, Mapping):
            raise ExternalServiceFailed("Invalid answer from Bedrock: expected an object.", may_be_done=True)
        return answer


# --- errors -------------------------------------------------------------------------------------------------


def _to_error(error: Exception, operation: str, model_id: str) -> HoldfastError:
    """Map an exception of the SDK to an error of Holdfast, by the service's error code if it has one."""
    code = get_error_code(error)
    return (
        _to_service_error(error, code, model_id) if code else _to_transport_error(error, operation, model_id)
    )


def _to_service_error(error: Any, code: str, model_id: str) -> HoldfastError:
    """Map an error that Bedrock returned: access, not started, failed while running, or refused."""
    response = error.response
    metadata = response.get("ResponseMetadata", {})
    pause = parse_retry_after(metadata.get("HTTPHeaders", {}).get("retry-after", ""))
    said = (
        f"{code}: "
        f"{strip_invisible(str(response['Error'].get('Message', '')))[:MAX_TEXT_CHARS] or 'no reason given'}"
    )
    if code in ACCESS_CODES:
        return SettingsError(
            f"Bedrock refused access to {model_id} ({said}). Check the credentials and that the account "
            "may use the model."
        ).with_code(code)
    if code in NOT_STARTED_CODES:
        text = f"Bedrock is not accepting requests for {model_id} now ({said}). Retry later."
        return ExternalServiceFailed(text, may_be_done=False, retry_after_s=pause).with_code(code)
    if code in MODEL_FAILURE_CODES or int(metadata.get("HTTPStatusCode", 400)) >= SERVER_ERROR_STATUS:
        text = f"Bedrock failed while running {model_id} ({said})."
        return ExternalServiceFailed(text, may_be_done=True, retry_after_s=pause).with_code(code)
    return ExternalServiceRefused(code, f"Bedrock refused a request for {model_id}: {said}.")


def _to_transport_error(error: Exception, operation: str, model_id: str) -> HoldfastError:
    """Map an error without an answer: unreachable is temporary, any other is a matter of settings."""
    where = f"Bedrock ({model_id})"
    if isinstance(to_holdfast_error(error, operation, where), StoreUnreachable):
        return ExternalServiceFailed(f"{where} did not answer ({type(error).__name__}).", may_be_done=True)
    # Leave out the error's text: it may quote the request.
    return SettingsError(
        f"The AWS SDK failed in {operation} at {where} ({type(error).__name__}). Check its credentials, "
        "region and profile."
    )
