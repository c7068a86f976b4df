"""A stand-in for Anthropic's Messages API. It is no model: it gives the answers that it was given, in the API's form.

    claude = StandInClaude()
    claude.answers = [used({"status_summary": "…"}), failed(529, retry_after=7)]

Each request takes the next answer, and the last one stays. With none, it calls the tool with an empty input: a writer that
asks it keeps every word of the rules. Requests are checked as the API checks them (version, key, members, tools that may
not be forced) and kept, so that a test can read what a model would have seen.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

VERSION: Final = "2023-06-01"
# Models that answer a forced tool with 400, as the API's pages say.
NEVER_FORCED: Final = ("claude-sonnet-5-5", "claude-opus-5-5")
ERRORS: Final[Mapping[int, str]] = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}
# Roughly what a token of English is: enough for a stand-in to send a bill that grows with what it was sent.
CHARS_PER_TOKEN: Final = 4

Answer: TypeAlias = Callable[[dict[str, Any]], Response]


@dataclass
class StandInClaude:
    """`key` is what callers must send; empty asks for none."""

    key: str = ""
    answers: list[Answer] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)

    async def messages(self, request: Request) -> Response:
        body = json.loads(await request.body())
        if self.key and request.headers.get("x-api-key") != self.key:
            return _error(401, "invalid x-api-key")
        if wrong := _wrong(request, body):
            return _error(400, wrong)
        self.requests.append(body)
        answer = self.answers.pop(0) if len(self.answers) > 1 else (*self.answers, used({}))[0]
        return answer(body)


def claude_app(claude: StandInClaude) -> Starlette:
    return Starlette(routes=[Route("/v1/messages", claude.messages, methods=["POST"])])


# --- answers -----------------------------------------------------------------------------------------------------


def used(
    input: Any, *, tool: str | None = None, stop: str = "tool_use", times: int = 1, tokens: int | None = None
) -> Answer:
    """The tool is called with an input: the one that was asked for, unless another is named."""

    def answer(body: dict[str, Any]) -> Response:
        name = tool or body["tools"][0]["name"]
        call = {"type": "tool_use", "id": "toolu_standin", "name": name, "input": input}
        # Thinking may stand before a call: who takes the first block for the answer fails here.
        thought = {"type": "thinking", "thinking": "", "signature": "standin"}
        return _message(body, [thought, *[call] * times], stop, tokens)

    return answer


def said(text: str, stop: str = "end_turn") -> Answer:
    """Words, and no tool."""
    return lambda body: _message(body, [{"type": "text", "text": text}], stop)


def declined() -> Answer:
    return lambda body: _message(body, [], "refusal")


def failed(status: int, *, retry_after: str | None = None, message: str = "as the test wants it") -> Answer:
    return lambda body: _error(status, message, retry_after)


def nonsense(text: str = "<html>no JSON</html>") -> Answer:
    """200, with whatever it is."""
    return lambda body: Response(text, media_type="application/json")


def _message(
    body: dict[str, Any], content: list[dict[str, Any]], stop: str, tokens: int | None = None
) -> Response:
    given = len(json.dumps(body)) // CHARS_PER_TOKEN
    made = tokens if tokens is not None else len(json.dumps(content)) // CHARS_PER_TOKEN
    message = {
        "id": "msg_standin",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {"input_tokens": given, "output_tokens": made, "cache_read_input_tokens": None},
    }
    return JSONResponse(message, headers={"request-id": "req_standin"})


def _error(status: int, message: str, retry_after: str | None = None) -> Response:
    error = {"type": ERRORS.get(status, "api_error"), "message": message}
    headers = {} if retry_after is None else {"retry-after": retry_after}
    told = {"type": "error", "error": error, "request_id": "req_standin"}
    return JSONResponse(told, status_code=status, headers=headers)


# --- what the API refuses ----------------------------------------------------------------------------------------


def _wrong(request: Request, body: Any) -> str | None:
    if request.headers.get("anthropic-version") != VERSION:
        return "anthropic-version: header is required"
    if not isinstance(body, dict):
        return "the body is no object"
    for member in ("model", "max_tokens", "messages"):
        if member not in body:
            return f"{member}: Field required"
    if strange := {"temperature", "top_p", "top_k"} & body.keys():
        return f"{min(strange)} is not supported for this model"
    return _wrong_tools(body)


def _wrong_tools(body: dict[str, Any]) -> str | None:
    choice = body.get("tool_choice", {"type": "auto"})
    if choice["type"] not in ("any", "tool"):
        return None
    if body["model"] in NEVER_FORCED:
        return 'tool_choice: only "auto" and "none" are supported for this model'
    if body.get("thinking", {"type": "adaptive"})["type"] != "disabled":
        return "Thinking may not be enabled when tool_choice forces tool use."
    names = [tool["name"] for tool in body.get("tools", ())]
    return None if choice.get("name") in names else "tool_choice: no such tool"
