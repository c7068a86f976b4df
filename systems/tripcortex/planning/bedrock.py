"""Amazon Nova 2 Lite behind the port `Reasoner`, by Bedrock's Converse operation. Not proved against the service.

    Prompt → Converse body → converse(body) → the tool's input, or why there is none; what it cost either way

Written on request and response shapes as AWS documents them, and tested on such shapes alone: whoever runs it first should
look at what it does. The call itself is a port, because a system imports no SDK: `tripcortex.models` gives it
`holdfast.ai.BedrockConverse`, which maps the SDK's errors.

With thinking, the tool is asked for and not forced: a forced tool switches the thinking off. At high effort the service
refuses `maxTokens` and `temperature`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, Literal

from holdfast.ai import DataBlock, Tool, ToolUse, Usage, fenced, seen
from holdfast.errors import PartyFailed
from tripcortex.planning.reasoned import ReasonedPlanner

MODEL_ID: Final = "us.amazon.nova-2-lite-v1:0"
MILLION: Final = 1_000_000
TEXT_CHARS_MAX: Final = 300
# Dollars for a million tokens of input and of output, on demand; those of thinking are output.
PRICES_USD: Final = (Decimal("0.30"), Decimal("2.50"))
_CUT_SHORT: Final = ("max_tokens", "model_context_window_exceeded")
_DECLINED: Final = ("guardrail_intervened", "content_filtered")
_MALFORMED: Final = ("malformed_model_output", "malformed_tool_use")

Effort = Literal["low", "medium", "high"]
Converse = Callable[[dict[str, Any]], Awaitable[Mapping[str, Any]]]


def nova_planner(
    converse: Converse, *, thinking: Effort | None = None, model_id: str = MODEL_ID
) -> ReasonedPlanner:
    """The planner of production. Not proved against the service."""
    return ReasonedPlanner(NovaReasoner(converse, model_id, thinking), model_id, thinking or "disabled")


class NovaReasoner:
    def __init__(
        self,
        converse: Converse,
        model_id: str = MODEL_ID,
        thinking: Effort | None = None,
        prices_usd: tuple[Decimal, Decimal] = PRICES_USD,
    ) -> None:
        self._converse, self._model_id, self._thinking = converse, model_id, thinking
        self._prices_usd = prices_usd

    async def use_tool(
        self, *, instructions: str, data: Sequence[DataBlock], tool: Tool, tokens_max: int
    ) -> ToolUse:
        prompt = fenced(instructions, data)
        body = {
            "modelId": self._model_id,
            "system": [
                {"text": f"{prompt.instructions}\n\nAnswer by calling {tool.name} once, and in no other way."}
            ],
            "messages": [{"role": "user", "content": [{"text": prompt.data}]}],
            "toolConfig": {"tools": [_spec(tool)], "toolChoice": self._choice(tool)},
            **self._effort(tokens_max),
        }
        answer = await self._converse(body)
        found, reason = _tool_input(answer, tool.name)
        return ToolUse(found, self._usage(answer), self._model_id, reason)

    def _choice(self, tool: Tool) -> dict[str, Any]:
        return {"auto": {}} if self._thinking else {"tool": {"name": tool.name}}

    def _effort(self, tokens_max: int) -> dict[str, Any]:
        if self._thinking is None:
            return {"inferenceConfig": {"maxTokens": tokens_max, "temperature": 0}}
        thinking = {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": self._thinking}}
        if self._thinking == "high":
            return {"additionalModelRequestFields": thinking}
        return {"inferenceConfig": {"maxTokens": tokens_max}, "additionalModelRequestFields": thinking}

    def _usage(self, answer: Mapping[str, Any]) -> Usage:
        counts = answer.get("usage")
        given, made = (_count(counts, name) for name in ("inputTokens", "outputTokens"))
        of_input, of_output = self._prices_usd
        return Usage(given, made, (given * of_input + made * of_output) / MILLION)


def _spec(tool: Tool) -> dict[str, Any]:
    schema = {"json": dict(tool.input_schema)}
    return {"toolSpec": {"name": tool.name, "description": tool.description, "inputSchema": schema}}


def _count(counts: Any, name: str) -> int:
    value = counts.get(name) if isinstance(counts, Mapping) else None
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise PartyFailed(f"Bedrock answers nonsense: it does not say {name}.", may_be_done=True)
    return value


def _tool_input(answer: Mapping[str, Any], name: str) -> tuple[dict[str, Any] | None, str]:
    """The input of the one call of our tool; or nothing, and why."""
    stop = answer.get("stopReason")
    for reasons, told in (
        (_CUT_SHORT, "was cut short"),
        (_DECLINED, "was declined"),
        (_MALFORMED, "has no form"),
    ):
        if stop in reasons:
            return None, f"its answer {told} ({stop})"
    calls = [each["toolUse"] for each in _content(answer) if isinstance(each, Mapping) and "toolUse" in each]
    if len(calls) != 1 or not isinstance(calls[0], Mapping):
        return None, f"it called {len(calls)} tools, not one"
    if calls[0].get("name") != name:
        return (
            None,
            f"it called {_text(calls[0].get('name')) or 'a tool without a name'}, which it was not given",
        )
    found = calls[0].get("input")
    return (dict(found), "") if isinstance(found, Mapping) else (None, f"the input of {name} is no object")


def _content(answer: Mapping[str, Any]) -> Sequence[Any]:
    """Thinking (redacted) and text may stand before the call."""
    output = answer.get("output")
    message = output.get("message") if isinstance(output, Mapping) else None
    content = message.get("content") if isinstance(message, Mapping) else None
    return content if isinstance(content, list) else []


def _text(value: Any) -> str:
    return seen(value)[:TEXT_CHARS_MAX] if isinstance(value, str) else ""
