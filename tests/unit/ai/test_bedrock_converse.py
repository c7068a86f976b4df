"""Bedrock's Converse adapter: through the SDK, with stubbed responses or a local HTTP server."""

from __future__ import annotations

import importlib.util
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError
from botocore.stub import Stubber

from holdfast.ai import BedrockConverse, open_bedrock_runtime
from holdfast.core.errors import ExternalServiceFailed, ExternalServiceRefused, HoldfastError, SettingsError

MODEL = "us.amazon.nova-2-lite-v1:0"
BODY = {
    "modelId": MODEL,
    "system": [{"text": "Call file_plan once."}],
    "messages": [{"role": "user", "content": [{"text": "Chicago on Tuesday"}]}],
    "inferenceConfig": {"maxTokens": 500, "temperature": 0},
}
ANSWER = {
    "output": {
        "message": {
            "role": "assistant",
            "content": [{"toolUse": {"toolUseId": "tooluse_1", "name": "file_plan", "input": {"a": [1]}}}],
        }
    },
    "stopReason": "tool_use",
    "usage": {"inputTokens": 12, "outputTokens": 3, "totalTokens": 15},
    "metrics": {"latencyMs": 640},
}
NOWHERE = "bedrock+http://127.0.0.1:9"


async def get_failure(client: Any, body: dict[str, Any] = BODY) -> HoldfastError:
    """Call Converse and return the error it raises."""
    with pytest.raises(HoldfastError) as failed:
        await BedrockConverse(client)(body)
    return failed.value


async def test_request_and_answer_match_the_service_model() -> None:
    client = open_bedrock_runtime(NOWHERE)
    with Stubber(client) as stub:
        stub.add_response("converse", ANSWER, BODY)
        assert (await BedrockConverse(client)(BODY))["output"] == ANSWER["output"]
        stub.assert_no_pending_responses()


@pytest.mark.parametrize(
    ("code", "status", "ours", "may_be_done"),
    [
        ("ThrottlingException", 429, ExternalServiceFailed, False),
        ("ModelNotReadyException", 429, ExternalServiceFailed, False),
        ("ServiceQuotaExceededException", 400, ExternalServiceFailed, False),
        ("ModelTimeoutException", 408, ExternalServiceFailed, True),
        ("ModelErrorException", 424, ExternalServiceFailed, True),
        ("InternalServerException", 500, ExternalServiceFailed, True),
        ("ServiceUnavailableException", 503, ExternalServiceFailed, True),
        ("ValidationException", 400, ExternalServiceRefused, None),
        ("ResourceNotFoundException", 404, ExternalServiceRefused, None),
        ("AccessDeniedException", 403, SettingsError, None),
        ("UnrecognizedClientException", 403, SettingsError, None),
        ("ExpiredTokenException", 403, SettingsError, None),
    ],
)
async def test_maps_each_service_error_and_quotes_the_services_message(
    code: str, status: int, ours: type[HoldfastError], may_be_done: bool | None
) -> None:
    client = open_bedrock_runtime(NOWHERE)
    with Stubber(client) as stub:
        stub.add_client_error("converse", code, "Said by the service.", status)
        failure = await get_failure(client)
    assert type(failure) is ours and "Said by the service." in failure.message and MODEL in failure.message
    assert getattr(failure, "may_be_done", None) is may_be_done


async def test_sdk_validation_error_does_not_show_the_request() -> None:
    failure = await get_failure(open_bedrock_runtime(NOWHERE), {**BODY, "messages": "Jane Doe"})
    assert type(failure) is SettingsError and "Jane Doe" not in failure.message
    assert "ParamValidationError" in failure.message


async def test_missing_answer_is_a_temporary_failure() -> None:
    class Silent:
        def converse(self, **_: Any) -> None:
            raise ReadTimeoutError(endpoint_url=NOWHERE)

    for client in (Silent(), open_bedrock_runtime(NOWHERE)):
        failure = await get_failure(client)
        assert type(failure) is ExternalServiceFailed and "did not answer" in failure.message


async def test_rejects_an_answer_that_is_not_an_object() -> None:
    class Odd:
        def converse(self, **_: Any) -> list[str]:
            return ["hello"]

    assert type(await get_failure(Odd())) is ExternalServiceFailed


@contextmanager
def start_service(status: int, code: str, headers: dict[str, str]) -> Iterator[tuple[str, list[str]]]:
    """Start a service that refuses every request and records the paths."""
    paths: list[str] = []

    class Refusing(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            paths.append(self.path)
            self.rfile.read(int(self.headers["content-length"]))
            body = json.dumps({"message": "Too many."}).encode()
            self.send_response(status)
            for name, value in {**headers, "x-amzn-errortype": code, "content-length": len(body)}.items():
                self.send_header(name, str(value))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"bedrock+http://127.0.0.1:{server.server_port}", paths
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(("given", "read"), [("7", 7.0), ("soon", None)])
async def test_sends_a_throttled_request_once_and_reports_when_to_retry(
    given: str, read: float | None
) -> None:
    with start_service(429, "ThrottlingException", {"retry-after": given}) as (address, paths):
        client = open_bedrock_runtime(address)
        failure = await get_failure(client)
        client.close()
    assert (
        isinstance(failure, ExternalServiceFailed)
        and failure.retry_after_s == read
        and "Too many." in failure.message
    )
    assert paths == ["/model/us.amazon.nova-2-lite-v1%3A0/converse"]


def test_missing_sdk_names_the_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "botocore" else found(name, *more)
    )
    with pytest.raises(SettingsError, match=r"Bedrock needs boto3.*\[aws\]"):
        open_bedrock_runtime(NOWHERE)
