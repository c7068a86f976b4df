"""Claude behind the port `Reasoner`, by Anthropic's Messages API. One request, one tool, no conversation.

    Prompt → POST /v1/messages → the tool's input, or why there is none; what it cost either way

A model that accepts it is forced to use the tool, without thinking, which it may not do at the same time. Newer ones
refuse to be forced (400): they are asked to, at low effort, and an answer in words is no answer. An answer cut short,
declined or of no form is paid for, so it comes back as a value with its cost; an error has none. What gave no answer, or
does not say what was used, is not counted.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from holdfast.ai.models import Model, Models, shipped_models
from holdfast.ai.reasoning import DataBlock, Prompt, Tool, ToolUse, Usage, fenced, seen
from holdfast.errors import PartyFailed, PartyRefused

if TYPE_CHECKING:
    import httpx2

PATH: Final = "/v1/messages"
VERSION_HEADER: Final = "anthropic-version"
VERSION: Final = "2023-06-01"
KEY_HEADER: Final = "x-api-key"

OK: Final = 200
TOO_MANY: Final = 429
# The key, the right or the bill: an operator mends them, and the same request passes.
UNPAID_OR_UNKNOWN: Final = frozenset({401, 402, 403})
# The request itself: too large, of no form, for a model that is not there.
REFUSALS: Final = frozenset({400, 404, 413, 422})
RETRY_AFTER_S_MAX: Final = 3600.0
TEXT_CHARS_MAX: Final = 300
# Each is input as well, whatever it was billed as: we ask for no caching.
INPUT_COUNTS: Final = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
# What they put around a request with a tool, with much to spare; a token of ours is a byte at least.
INPUT_TOKENS_AROUND: Final = 4_000


class ClaudeReasoner:
    """Asks one model. The client brings the address, the key and the time-outs."""

    def __init__(self, http: httpx2.AsyncClient, model: str, models: Models | None = None) -> None:
        self._http, self.model = http, model
        self._priced = (models or shipped_models()).get(model)

    async def use_tool(
        self, *, instructions: str, data: Sequence[DataBlock], tool: Tool, tokens_max: int
    ) -> ToolUse:
        prompt = fenced(instructions, data)
        body = _request(self.model, self._priced, prompt, tool, tokens_max)
        answer = await self._asked(body)
        # Before anything else is looked at: it is paid for, whatever the rest is.
        usage = _usage(answer, self._priced, _given_max(body), tokens_max)
        found, reason = _tool_input(answer, tool.name)
        return ToolUse(found, usage, _text(answer.get("model")) or self.model, reason)

    async def _asked(self, body: dict[str, Any]) -> dict[str, Any]:
        import httpx2

        try:
            answer = await self._http.post(PATH, json=body, headers={VERSION_HEADER: VERSION})
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            raise PartyFailed("No connection to Claude: it was not asked.", may_be_done=False) from error
        except httpx2.HTTPError as error:
            raise PartyFailed(f"Claude gave no answer ({type(error).__name__}).", may_be_done=True) from error
        return _read(answer)


def _request(name: str, model: Model, prompt: Prompt, tool: Tool, tokens_max: int) -> dict[str, Any]:
    how: dict[str, Any]
    if model.tool == "forced":
        choice = {"type": "tool", "name": tool.name, "disable_parallel_tool_use": True}
        how = {"tool_choice": choice, "thinking": {"type": "disabled"}}
    else:
        choice = {"type": "auto", "disable_parallel_tool_use": True}
        how = {"tool_choice": choice, "output_config": {"effort": "low"}}
    return {
        "model": name,
        "max_tokens": tokens_max,
        "system": f"{prompt.instructions}\n\nAnswer by calling {tool.name} once, and in no other way.",
        "messages": [{"role": "user", "content": [{"type": "text", "text": prompt.data}]}],
        "tools": [
            {"name": tool.name, "description": tool.description, "input_schema": dict(tool.input_schema)}
        ],
        **how,
    }


# --- the answer --------------------------------------------------------------------------------------------------


def _read(answer: httpx2.Response) -> dict[str, Any]:
    if answer.status_code != OK:
        raise _failure(answer)
    body = _json(answer)
    if not isinstance(body, dict):
        raise PartyFailed("Claude answers nonsense: no message.", may_be_done=True)
    return body


def _failure(answer: httpx2.Response) -> Exception:
    status = answer.status_code
    body = _json(answer)
    error = body.get("error") if isinstance(body, dict) else None
    error = error if isinstance(error, dict) else {}
    code, message = _text(error.get("type")) or str(status), _text(error.get("message")) or "no reason given"
    if status in UNPAID_OR_UNKNOWN:
        told = f"Claude refuses the key or the account ({code}: {message}): look at the secret that reasoner_secret names."
        return PartyFailed(told, may_be_done=False)
    if status in REFUSALS:
        return PartyRefused(code, f"Claude refuses the request: {message}")
    told = f"Claude takes no request for now ({status}, {code}: {message})."
    # What was turned away has not begun; 529 is its word for being overloaded.
    return PartyFailed(told, may_be_done=False, retry_after_s=_retry_after(answer))


def _json(answer: httpx2.Response) -> Any:
    try:
        return answer.json()
    except (ValueError, RecursionError):
        return None


def _retry_after(answer: httpx2.Response) -> float | None:
    try:
        wanted = float(answer.headers.get("retry-after", ""))
    except ValueError:
        return None
    return min(max(wanted, 0.0), RETRY_AFTER_S_MAX) if math.isfinite(wanted) else None


def _given_max(body: Mapping[str, Any]) -> int:
    return len(json.dumps(body)) + INPUT_TOKENS_AROUND


def _usage(answer: Mapping[str, Any], model: Model, given_max: int, made_max: int) -> Usage:
    """What was used, and no more than can have been: a slip of theirs does not spend a budget."""
    counts = answer.get("usage")
    if not isinstance(counts, dict) or not {"input_tokens", "output_tokens"} <= counts.keys():
        raise PartyFailed("Claude answers nonsense: it does not say what was used.", may_be_done=True)
    given = min(sum(_count(counts.get(name)) for name in INPUT_COUNTS), given_max)
    made = min(_count(counts["output_tokens"]), made_max)
    return Usage(given, made, model.usd(given, made))


def _count(value: Any) -> int:
    """Of what is absent or null, nothing."""
    if value is None:
        return 0
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise PartyFailed(f"Claude answers nonsense: {value!r} tokens.", may_be_done=True)
    return value


def _tool_input(answer: Mapping[str, Any], name: str) -> tuple[dict[str, Any] | None, str]:
    """The input of the one call of our tool; or nothing, and why."""
    stop = answer.get("stop_reason")
    if stop == "refusal":
        return None, "it declined to answer"
    if stop in ("max_tokens", "model_context_window_exceeded"):
        return None, f"its answer was cut short ({stop})"
    content = answer.get("content")
    if not isinstance(content, list):
        return None, "its answer has no content that can be read"
    # By their type: thinking and text may stand before them.
    calls = [each for each in content if isinstance(each, dict) and each.get("type") == "tool_use"]
    if not calls:
        return None, f"it called no tool ({_text(stop) or 'no stop reason'})"
    if strange := [_text(each.get("name")) for each in calls if each.get("name") != name]:
        return None, f"it called {strange[0] or 'a tool without a name'}, which it was not given"
    if len(calls) > 1:
        return None, f"it called {name} {len(calls)} times"
    found = calls[0].get("input")
    return (found, "") if isinstance(found, dict) else (None, f"the input of {name} is no object")


def _text(value: Any) -> str:
    """A text of theirs that may stand in a message of ours."""
    return seen(value)[:TEXT_CHARS_MAX] if isinstance(value, str) else ""
