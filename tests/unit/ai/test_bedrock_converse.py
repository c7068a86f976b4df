"""Bedrock's Converse by the SDK, which checks requests and answers against its description of the API. Nobody asked the service."""

from __future__ import annotations

import asyncio
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


def failure_of(client: Any, body: dict[str, Any] = BODY) -> HoldfastError:
    with pytest.raises(HoldfastError) as failed:
        asyncio.run(BedrockConverse(client)(body))
    return failed.value


def test_what_is_asked_and_answered_fits_the_services_own_description() -> None:
    client = open_bedrock_runtime(NOWHERE)
    with Stubber(client) as stub:
        stub.add_response("converse", ANSWER, BODY)
        assert asyncio.run(BedrockConverse(client)(BODY))["output"] == ANSWER["output"]
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
def test_each_error_of_the_service_says_what_can_be_done(
    code: str, status: int, ours: type[HoldfastError], may_be_done: bool | None
) -> None:
    client = open_bedrock_runtime(NOWHERE)
    with Stubber(client) as stub:
        stub.add_client_error("converse", code, "Said by the service.", status)
        told = failure_of(client)
    assert type(told) is ours and "Said by the service." in told.message and MODEL in told.message
    assert getattr(told, "may_be_done", None) is may_be_done


def test_what_the_sdk_itself_refuses_does_not_show_the_request() -> None:
    told = failure_of(open_bedrock_runtime(NOWHERE), {**BODY, "messages": "Jane Doe"})
    assert type(told) is SettingsError and "Jane Doe" not in told.message
    assert "ParamValidationError" in told.message


def test_no_answer_is_a_failure_for_now() -> None:
    class Silent:
        def converse(self, **_: Any) -> None:
            raise ReadTimeoutError(endpoint_url=NOWHERE)

    for client in (Silent(), open_bedrock_runtime(NOWHERE)):
        told = failure_of(client)
        assert type(told) is ExternalServiceFailed and "did not answer" in told.message


def test_an_answer_that_is_no_object_is_nonsense() -> None:
    class Odd:
        def converse(self, **_: Any) -> list[str]:
            return ["hello"]

    assert type(failure_of(Odd())) is ExternalServiceFailed


@contextmanager
def service(status: int, code: str, headers: dict[str, str]) -> Iterator[tuple[str, list[str]]]:
    """Refuses every request so, and keeps their paths."""
    asked: list[str] = []

    class Refusing(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.path)
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
            yield f"bedrock+http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("given", "read"), [("7", 7.0), ("-1", 0.0), ("9e9", 3600.0), ("soon", None), ("nan", None)]
)
def test_a_throttled_request_is_sent_once_and_told_when_to_come_again(given: str, read: float | None) -> None:
    with service(429, "ThrottlingException", {"retry-after": given}) as (address, asked):
        client = open_bedrock_runtime(address)
        told = failure_of(client)
        client.close()
    assert (
        isinstance(told, ExternalServiceFailed) and told.retry_after_s == read and "Too many." in told.message
    )
    assert asked == ["/model/us.amazon.nova-2-lite-v1%3A0/converse"]


def test_without_the_sdk_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "botocore" else found(name, *more)
    )
    with pytest.raises(SettingsError, match=r"Bedrock needs boto3.*\[aws\]"):
        open_bedrock_runtime(NOWHERE)
