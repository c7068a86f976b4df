"""Nova embeddings by InvokeModel: with a fake client that replays documented answers."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import pytest

from holdfast.ai.bedrock import NOVA_EMBEDDINGS, NovaEmbedder, open_bedrock_runtime
from holdfast.core.errors import ExternalServiceFailed, ExternalServiceRefused, SettingsError
from tests.cases import all_cases


class FakeRuntime:
    """A client that returns the given answers in order, or raises them, and records the requests."""

    def __init__(self, *answers: Any) -> None:
        self._answers, self.asked = list(answers), list[dict[str, Any]]()

    def invoke_model(self, **asked: Any) -> dict[str, Any]:
        self.asked.append(asked)
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        return {"contentType": "application/json", "body": io.BytesIO(body)}


class ServiceError(Exception):
    """Error as the SDK raises it."""

    def __init__(self, code: str, status: int) -> None:
        super().__init__(code)
        self.response = {
            "Error": {"Code": code, "Message": f"{code}."},
            "ResponseMetadata": {"HTTPStatusCode": status},
        }


def make_answer(*values: float, width: int = 256) -> dict[str, Any]:
    """Return an answer with a vector of `width` numbers that begins with these values."""
    return {"embeddings": [{"embeddingType": "TEXT", "embedding": [*values, *[0.0] * (width - len(values))]}]}


def test_sends_one_documented_request_per_text_and_normalizes_its_vector() -> None:
    client = FakeRuntime(make_answer(3, 4), make_answer(0, -2))
    embedder = NovaEmbedder(client, purpose="TEXT_RETRIEVAL", dimensions=256)
    found = embedder.embed(["Fly economy", " ", "Hotels"])
    assert found.shape == (3, 256) and embedder.dimensions == 256
    assert found[0][:2] == pytest.approx([0.6, 0.8]) and found[2][:2] == pytest.approx([0, -1])
    assert not found[1].any()
    assert [each["modelId"] for each in client.asked] == [NOVA_EMBEDDINGS] * 2
    assert client.asked[0]["contentType"] == client.asked[0]["accept"] == "application/json"
    assert json.loads(client.asked[0]["body"]) == {
        "schemaVersion": "nova-multimodal-embed-v1",
        "taskType": "SINGLE_EMBEDDING",
        "singleEmbeddingParams": {
            "embeddingPurpose": "TEXT_RETRIEVAL",
            "embeddingDimension": 256,
            "text": {"truncationMode": "END", "value": "Fly economy"},
        },
    }


@all_cases(
    "response",
    [
        b"no json",
        {},
        {"embeddings": []},
        make_answer(1, width=255),
        {"embeddings": [{"embedding": ["a"] * 256}]},
        make_answer(float("nan")),
        make_answer(float("inf")),
        make_answer(10**400),
        make_answer(True),
        [],
    ],
)
def test_rejects_an_answer_of_another_shape(response: Any) -> None:
    with pytest.raises(ExternalServiceFailed, match="no vector of 256 numbers"):
        NovaEmbedder(FakeRuntime(response), dimensions=256).embed(["text"])


@pytest.mark.parametrize(
    ("code", "status", "ours"),
    [
        ("ThrottlingException", 429, ExternalServiceFailed),
        ("ServiceUnavailableException", 503, ExternalServiceFailed),
        ("ValidationException", 400, ExternalServiceRefused),
        ("AccessDeniedException", 403, SettingsError),
    ],
)
def test_maps_service_errors(code: str, status: int, ours: type[Exception]) -> None:
    with pytest.raises(ours):
        NovaEmbedder(FakeRuntime(ServiceError(code, status))).embed(["text"])


def test_rejects_an_unsupported_width() -> None:
    with pytest.raises(SettingsError, match="256, 384, 1024, 3072 dimensions, not 512"):
        NovaEmbedder(FakeRuntime(), dimensions=512)


def test_opens_the_sdks_client_for_an_endpoint() -> None:
    pytest.importorskip("botocore")
    client = open_bedrock_runtime("bedrock+http://127.0.0.1:9")
    assert client.meta.service_model.service_name == "bedrock-runtime"
    assert client.meta.endpoint_url == "http://127.0.0.1:9"
    assert np.zeros((0, 1024)).shape == NovaEmbedder(client).embed([]).shape
