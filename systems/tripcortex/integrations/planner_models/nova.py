"""Amazon Nova 2 Lite as a `Reasoner`, through Bedrock's Converse. Not verified against the service.

    Prompt → Converse body → converse(body) → the tool input or a reason why there is none, and the cost

The code follows the request and response shapes that AWS documents, and the tests use only such shapes: check
the first real calls. The call itself is a parameter, because a system imports no SDK:
`tripcortex.integrations.ai_models` passes `holdfast.ai.BedrockConverse`, which maps the SDK's errors.

With thinking, the prompt asks for the tool but does not force it: forcing a tool turns thinking off. At high
effort the service refuses `maxTokens` and `temperature`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, Literal

from holdfast.ai import DataBlock, TokenUsage, Tool, ToolUse, build_prompt, strip_invisible
from holdfast.core.errors import ExternalServiceFailed
from tripcortex.integrations.planner_models.model_planner import ModelPlanner

MODEL_ID: Final = "us.amazon.nova-2-lite-v1:0"
MILLION: Final = 1_000_000
MAX_TEXT_CHARS: Final = 300
# On-demand prices in US dollars per million input and output tokens. Thinking tokens count as output.
PRICES_USD: Final = (Decimal("0.30"), Decimal("2.50"))
_TRUNCATED: Final = ("max_tokens", "model_context_window_exceeded")
_DECLINED: Final = ("guardrail_intervened", "content_filtered")
_MALFORMED: Final = ("malformed_model_output", "malformed_tool_use")

Effort = Literal["low", "medium", "high"]
Converse = Callable[[dict[str, Any]], Awaitable[Mapping[str, Any]]]


def build_nova_planner(
    converse: Converse, *, thinking: Effort | None = None, model_id: str = MODEL_ID
) -> ModelPlanner:
    """Build the production planner; `thinking` is the reasoning effort, None for no thinking.

    Not verified against the service.
    """
    return ModelPlanner(NovaReasoner(converse, model_id, thinking), model_id, thinking or "disabled")


class NovaReasoner:
    """A `Reasoner` that calls Nova through the Converse operation.

    `prices_usd` are per million input and output tokens.
    """

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
        """Let the model call the tool once, and return its input or the reason why there is none."""
        prompt = build_prompt(instructions, data)
        body = {
            "modelId": self._model_id,
            "system": [
                {"text": f"{prompt.instructions}\n\nAnswer by calling {tool.name} once, and in no other way."}
            ],
            "messages": [{"role": "user", "content": [{"text": prompt.data}]}],
            "toolConfig": {"tools": [_build_tool_spec(tool)], "toolChoice": self._build_tool_choice(tool)},
            **self._build_inference_config(tokens_max),
        }
        answer = await self._converse(body)
        found, reason = _parse_tool_input(answer, tool.name)
        return ToolUse(found, self._compute_usage(answer), self._model_id, reason)

    def _build_tool_choice(self, tool: Tool) -> dict[str, Any]:
        """Force the tool, or with thinking only offer it."""
        return {"auto": {}} if self._thinking else {"tool": {"name": tool.name}}

    def _build_inference_config(self, tokens_max: int) -> dict[str, Any]:
        """Return the limits and the reasoning effort, as far as the effort allows them."""
        if self._thinking is None:
            return {"inferenceConfig": {"maxTokens": tokens_max, "temperature": 0}}
        thinking = {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": self._thinking}}
        if self._thinking == "high":
            return {"additionalModelRequestFields": thinking}
        return {"inferenceConfig": {"maxTokens": tokens_max}, "additionalModelRequestFields": thinking}

    def _compute_usage(self, answer: Mapping[str, Any]) -> TokenUsage:
        """Return the token counts of the answer and their price."""
        counts = answer.get("usage")
        inputs, outputs = (_get_token_count(counts, name) for name in ("inputTokens", "outputTokens"))
        input_usd, output_usd = self._prices_usd
        return TokenUsage(inputs, outputs, (inputs * input_usd + outputs * output_usd) / MILLION)


def _build_tool_spec(tool: Tool) -> dict[str, Any]:
    schema = {"json": dict(tool.input_schema)}
    return {"toolSpec": {"name": tool.name, "description": tool.description, "inputSchema": schema}}


def _get_token_count(counts: Any, name: str) -> int:
    """Return the count. Raise `ExternalServiceFailed` if it is missing or not a count."""
    value = counts.get(name) if isinstance(counts, Mapping) else None
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ExternalServiceFailed(
            f"Invalid answer of Bedrock: {name} is missing or not a count.", may_be_done=True
        )
    return value


def _parse_tool_input(answer: Mapping[str, Any], name: str) -> tuple[dict[str, Any] | None, str]:
    """Return the input of the only tool call, or None and the reason."""
    stop = answer.get("stopReason")
    for reasons, description in (
        (_TRUNCATED, "was truncated"),
        (_DECLINED, "was declined"),
        (_MALFORMED, "was malformed"),
    ):
        if stop in reasons:
            return None, f"its answer {description} ({stop})"
    calls = [
        each["toolUse"] for each in _get_content(answer) if isinstance(each, Mapping) and "toolUse" in each
    ]
    if len(calls) != 1 or not isinstance(calls[0], Mapping):
        return None, f"it called {len(calls)} tools instead of one"
    if calls[0].get("name") != name:
        return (
            None,
            f"it called {_clean_text(calls[0].get('name')) or 'a tool without a name'}, which does not exist",
        )
    found = calls[0].get("input")
    return (
        (dict(found), "") if isinstance(found, Mapping) else (None, f"the input of {name} is not an object")
    )


def _get_content(answer: Mapping[str, Any]) -> Sequence[Any]:
    """Return the content blocks. Redacted thinking and text may come before the tool call."""
    output = answer.get("output")
    message = output.get("message") if isinstance(output, Mapping) else None
    content = message.get("content") if isinstance(message, Mapping) else None
    return content if isinstance(content, list) else []


def _clean_text(value: Any) -> str:
    """Return the text without invisible characters, cut to 300 characters; empty if it is not a text."""
    return strip_invisible(value)[:MAX_TEXT_CHARS] if isinstance(value, str) else ""
