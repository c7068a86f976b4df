"""A sandbox for Anthropic's Messages API over HTTP, without a model: it returns prepared responses.

    claude = ClaudeSandbox()
    claude.responses = [build_tool_call({"status_summary": "…"}), build_error(529, retry_after=7)]

Each request takes the next response, and the last one stays. Without any, it calls the tool with an empty
input, so the writer keeps every word of the rules. Requests are validated as by the API (version, key,
fields, models whose tools may not be forced) and kept, so that a test can read what a model would receive.
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

from holdfast.web.sandbox_faults import ERROR_HANDLERS, read_object

VERSION: Final = "2023-06-01"
# Models that refuse a forced tool with 400, as the API's documentation says.
UNFORCEABLE_MODELS: Final = ("claude-sonnet-5-5", "claude-opus-5-5")
ERROR_TYPES: Final[Mapping[int, str]] = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}
# Approximate length of a token in English, so that the usage grows with the request.
CHARS_PER_TOKEN: Final = 4

ResponseBuilder: TypeAlias = Callable[[dict[str, Any]], Response]


@dataclass
class ClaudeSandbox:
    """The sandbox. `key` is the API key that callers must send; empty means none.

    `responses` are the prepared ones, `requests` the valid bodies received.
    """

    key: str = ""
    responses: list[ResponseBuilder] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)

    async def messages(self, request: Request) -> Response:
        """Validate a request, keep its body, and return the next prepared response."""
        body = await read_object(request)
        if self.key and request.headers.get("x-api-key") != self.key:
            return _build_error_response(401, "invalid x-api-key")
        if wrong := _find_error(request, body):
            return _build_error_response(400, wrong)
        self.requests.append(body)
        answer = (
            self.responses.pop(0) if len(self.responses) > 1 else (*self.responses, build_tool_call({}))[0]
        )
        return answer(body)


def build_claude_app(claude: ClaudeSandbox) -> Starlette:
    """Build the ASGI app of the sandbox."""
    routes = [Route("/v1/messages", claude.messages, methods=["POST"])]
    return Starlette(routes=routes, exception_handlers=ERROR_HANDLERS)


# --- responses ----------------------------------------------------------------------------------------------


def build_tool_call(
    input: Any, *, tool: str | None = None, stop: str = "tool_use", times: int = 1, tokens: int | None = None
) -> ResponseBuilder:
    """Build a response that calls a tool with this input: the requested tool unless `tool` names another.

    `stop` is the stop reason, `times` the number of calls, `tokens` the reported output tokens.
    """

    def answer(body: dict[str, Any]) -> Response:
        name = tool or _list_tool_names(body)[0]
        call = {"type": "tool_use", "id": "toolu_standin", "name": name, "input": input}
        # Thinking may come before the call, so a client must not take the first block as the result.
        thought = {"type": "thinking", "thinking": "", "signature": "standin"}
        return _build_message(body, [thought, *[call] * times], stop, tokens)

    return answer


def build_text(text: str, stop: str = "end_turn") -> ResponseBuilder:
    """Build a response with text and no tool call."""
    return lambda body: _build_message(body, [{"type": "text", "text": text}], stop)


def build_refusal() -> ResponseBuilder:
    """Build a response without content whose stop reason is a refusal."""
    return lambda body: _build_message(body, [], "refusal")


def build_error(
    status: int, *, retry_after: str | None = None, message: str = "as the test wants it"
) -> ResponseBuilder:
    """Build an error response."""
    return lambda body: _build_error_response(status, message, retry_after)


def build_invalid_body(text: str = "<html>no JSON</html>") -> ResponseBuilder:
    """Build a 200 response with an arbitrary body."""
    return lambda body: Response(text, media_type="application/json")


def _build_message(
    body: dict[str, Any], content: list[dict[str, Any]], stop: str, tokens: int | None = None
) -> Response:
    """Build the message response; the usage is estimated from the lengths, unless `tokens` is given."""
    input_tokens = len(json.dumps(body)) // CHARS_PER_TOKEN
    output_tokens = tokens if tokens is not None else len(json.dumps(content)) // CHARS_PER_TOKEN
    message = {
        "id": "msg_standin",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {
            "input_tokens": input_tokens,
            "output_tokens": output_tokens,
            "cache_read_input_tokens": None,
        },
    }
    return JSONResponse(message, headers={"request-id": "req_standin"})


def _build_error_response(status: int, message: str, retry_after: str | None = None) -> Response:
    error = {"type": ERROR_TYPES.get(status, "api_error"), "message": message}
    headers = {} if retry_after is None else {"retry-after": retry_after}
    body = {"type": "error", "error": error, "request_id": "req_standin"}
    return JSONResponse(body, status_code=status, headers=headers)


# --- validation ---------------------------------------------------------------------------------------------


def _find_error(request: Request, body: dict[str, Any]) -> str | None:
    """Return why the API would refuse the request with 400, or None."""
    if request.headers.get("anthropic-version") != VERSION:
        return "anthropic-version: header is required"
    for member in ("model", "max_tokens", "messages"):
        if member not in body:
            return f"{member}: Field required"
    if strange := {"temperature", "top_p", "top_k"} & body.keys():
        return f"{min(strange)} is not supported for this model"
    return _find_tool_error(body)


def _find_tool_error(body: dict[str, Any]) -> str | None:
    """Return why the API would refuse the tools or their choice, or None."""
    choice, thinking = body.get("tool_choice", {"type": "auto"}), body.get("thinking", {"type": "adaptive"})
    for name, value in (("tool_choice", choice), ("thinking", thinking)):
        if not isinstance(value, dict) or not isinstance(value.get("type"), str):
            return f"{name}.type: Field required"
    if not _list_tool_names(body):
        return "tools: the sandbox needs one with a name"
    if choice["type"] not in ("any", "tool"):
        return None
    if body["model"] in UNFORCEABLE_MODELS:
        return 'tool_choice: only "auto" and "none" are supported for this model'
    if thinking["type"] != "disabled":
        return "Thinking may not be enabled when tool_choice forces tool use."
    return None if choice.get("name") in _list_tool_names(body) else "tool_choice: no such tool"


def _list_tool_names(body: dict[str, Any]) -> list[str]:
    """Return the names of the tools."""
    tools = body.get("tools")
    found = [each.get("name") for each in tools if isinstance(each, dict)] if isinstance(tools, list) else []
    return [each for each in found if isinstance(each, str)]
