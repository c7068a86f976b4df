"""Claude behind the port `Reasoner`, over Anthropic's Messages API: one request, one tool, no conversation.

    Prompt → POST /v1/messages → the tool's input, or the reason why it is missing; the cost in both cases

A model that accepts a forced tool choice is forced to use the tool, with thinking disabled, because the API
does not allow both. Newer models refuse a forced choice (400): the prompt asks them to use the tool, at low
effort, and an answer in prose does not count. A truncated, declined or malformed answer is billed, so it is
returned as a value with its cost. A request that failed, or an answer without usage counts, is not counted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from holdfast.ai.models import ModelCatalog, ModelPricing, load_shipped_models
from holdfast.ai.reasoner import DataBlock, Prompt, TokenUsage, Tool, ToolUse, build_prompt, strip_invisible
from holdfast.core.errors import ExternalServiceFailed, ExternalServiceRefused
from holdfast.core.http.headers import parse_retry_after

if TYPE_CHECKING:
    import httpx2

PATH: Final = "/v1/messages"
VERSION_HEADER: Final = "anthropic-version"
VERSION: Final = "2023-06-01"
KEY_HEADER: Final = "x-api-key"

OK: Final = 200
TOO_MANY: Final = 429
# Key, permission or billing: once the operator fixes it, the same request succeeds.
ACCOUNT_STATUSES: Final = frozenset({401, 402, 403})
# The request itself is wrong: too large, malformed, or for an unknown model.
REFUSED_STATUSES: Final = frozenset({400, 404, 413, 422})
MAX_TEXT_CHARS: Final = 300
# All of these count as input: we do not request caching.
INPUT_TOKEN_FIELDS: Final = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
# A generous bound for what the API adds to a request with a tool; each of our tokens has at least one byte.
INPUT_TOKENS_OVERHEAD: Final = 4_000


class ClaudeReasoner:
    """A reasoner that calls one Claude model. The HTTP client has the address, the key and the timeouts."""

    def __init__(self, http: httpx2.AsyncClient, model: str, models: ModelCatalog | None = None) -> None:
        self._http, self.model = http, model
        self._pricing = (models or load_shipped_models()).get(model)

    async def use_tool(
        self, *, instructions: str, data: Sequence[DataBlock], tool: Tool, tokens_max: int
    ) -> ToolUse:
        """Make one request and return the tool's input, or the reason why it is missing, with the cost.

        Raise `ExternalServiceFailed` for a temporary failure, `ExternalServiceRefused` for a permanent one.
        """
        prompt = build_prompt(instructions, data)
        body = _build_request(self.model, self._pricing, prompt, tool, tokens_max)
        answer = await self._post(body)
        # First, because the answer is billed even if the rest is unusable.
        usage = _parse_usage(answer, self._pricing, _estimate_max_input_tokens(body), tokens_max)
        found, reason = _extract_tool_input(answer, tool.name)
        return ToolUse(found, usage, _clean_text(answer.get("model")) or self.model, reason)

    async def _post(self, body: dict[str, Any]) -> dict[str, Any]:
        """Post the request and return the JSON of its answer. Raise `ExternalServiceFailed` or
        `ExternalServiceRefused`.
        """
        import httpx2

        try:
            answer = await self._http.post(PATH, json=body, headers={VERSION_HEADER: VERSION})
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            raise ExternalServiceFailed(
                "No connection to Claude: the request was not sent.", may_be_done=False
            ) from error
        except httpx2.HTTPError as error:
            raise ExternalServiceFailed(
                f"Claude did not answer ({type(error).__name__}).", may_be_done=True
            ) from error
        return _parse_response(answer)


def _build_request(
    name: str, model: ModelPricing, prompt: Prompt, tool: Tool, tokens_max: int
) -> dict[str, Any]:
    """Return the request body: the tool is forced, or asked for at low effort, as the model allows."""
    options: dict[str, Any]
    if model.tool == "forced":
        choice = {"type": "tool", "name": tool.name, "disable_parallel_tool_use": True}
        options = {"tool_choice": choice, "thinking": {"type": "disabled"}}
    else:
        choice = {"type": "auto", "disable_parallel_tool_use": True}
        options = {"tool_choice": choice, "output_config": {"effort": "low"}}
    return {
        "model": name,
        "max_tokens": tokens_max,
        "system": f"{prompt.instructions}\n\nAnswer by calling {tool.name} once, and in no other way.",
        "messages": [{"role": "user", "content": [{"type": "text", "text": prompt.data}]}],
        "tools": [
            {"name": tool.name, "description": tool.description, "input_schema": dict(tool.input_schema)}
        ],
        **options,
    }


# --- the answer ---------------------------------------------------------------------------------------------


def _parse_response(answer: httpx2.Response) -> dict[str, Any]:
    """Return the JSON object of a 200 answer; raise the error for any other answer."""
    if answer.status_code != OK:
        raise _to_error(answer)
    body = _decode_json(answer)
    if not isinstance(body, dict):
        raise ExternalServiceFailed("Invalid answer from Claude: expected a JSON object.", may_be_done=True)
    return body


def _to_error(answer: httpx2.Response) -> Exception:
    """Map an answer that is not 200: a wrong request is refused; anything else, the account included, is
    retryable.
    """
    status = answer.status_code
    body = _decode_json(answer)
    error = body.get("error") if isinstance(body, dict) else None
    error = error if isinstance(error, dict) else {}
    code, message = (
        _clean_text(error.get("type")) or str(status),
        _clean_text(error.get("message")) or "no reason given",
    )
    if status in ACCOUNT_STATUSES:
        text = (
            f"Claude refused the key or the account ({code}: {message}). Check the secret that "
            "reasoner_secret names."
        )
        return ExternalServiceFailed(text, may_be_done=False)
    if status in REFUSED_STATUSES:
        return ExternalServiceRefused(code, f"Claude refused the request: {message}")
    text = f"Claude is not accepting requests now ({status}, {code}: {message}). Retry later."
    # A rejected request was not started; 529 means that the API is overloaded.
    return ExternalServiceFailed(
        text, may_be_done=False, retry_after_s=parse_retry_after(answer.headers.get("retry-after", ""))
    )


def _decode_json(answer: httpx2.Response) -> Any:
    """Return the answer's JSON, or None if it is not JSON."""
    try:
        return answer.json()
    except (ValueError, RecursionError):
        return None


def _estimate_max_input_tokens(body: Mapping[str, Any]) -> int:
    """Return an upper bound of the request's input tokens: one per character of its JSON, plus an
    overhead.
    """
    return len(json.dumps(body)) + INPUT_TOKENS_OVERHEAD


def _parse_usage(
    answer: Mapping[str, Any], model: ModelPricing, input_max: int, output_max: int
) -> TokenUsage:
    """Return the tokens used and their cost, capped at the possible maximum, so that a wrong count does not
    spend a budget. Raise `ExternalServiceFailed` if the answer has no valid counts.
    """
    counts = answer.get("usage")
    if not isinstance(counts, dict) or not {"input_tokens", "output_tokens"} <= counts.keys():
        raise ExternalServiceFailed(
            "Invalid answer from Claude: expected token counts in `usage`.", may_be_done=True
        )
    given = min(sum(_parse_count(counts.get(name)) for name in INPUT_TOKEN_FIELDS), input_max)
    made = min(_parse_count(counts["output_tokens"]), output_max)
    return TokenUsage(given, made, model.compute_cost_usd(given, made))


def _parse_count(value: Any) -> int:
    """Return a token count; 0 if it is absent or null. Raise `ExternalServiceFailed` for any other value."""
    if value is None:
        return 0
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ExternalServiceFailed(f"Invalid token count from Claude: {value!r}.", may_be_done=True)
    return value


def _extract_tool_input(answer: Mapping[str, Any], name: str) -> tuple[dict[str, Any] | None, str]:
    """Return the input of the single call to our tool, or None with the reason."""
    stop = answer.get("stop_reason")
    if stop == "refusal":
        return None, "it declined to answer"
    if stop in ("max_tokens", "model_context_window_exceeded"):
        return None, f"its answer was cut short ({stop})"
    content = answer.get("content")
    if not isinstance(content, list):
        return None, "its answer has no readable content"
    # Select by type: thinking and text blocks may come first.
    calls = [each for each in content if isinstance(each, dict) and each.get("type") == "tool_use"]
    if not calls:
        return None, f"it called no tool ({_clean_text(stop) or 'no stop reason'})"
    if strange := [_clean_text(each.get("name")) for each in calls if each.get("name") != name]:
        return None, f"it called {strange[0] or 'a tool without a name'}, which it was not given"
    if len(calls) > 1:
        return None, f"it called {name} {len(calls)} times"
    found = calls[0].get("input")
    return (found, "") if isinstance(found, dict) else (None, f"the input of {name} is not an object")


def _clean_text(value: Any) -> str:
    """Return a text of the service, made safe and short enough to quote in an error; empty if it is not a
    string.
    """
    return strip_invisible(value)[:MAX_TEXT_CHARS] if isinstance(value, str) else ""
