"""Tests of the Nova planner on AWS's documented request and response shapes; no test calls the service."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from holdfast.ai import DataBlock, Tool
from holdfast.core.errors import ExternalServiceFailed
from tests.cases import all_cases
from tripcortex.domain.planner import PlanOutcome, PlanRequest, Question, Refusal, TravellerProfile, TripPlan
from tripcortex.integrations.planner_models.model_planner import TOOL_NAME
from tripcortex.integrations.planner_models.nova import Effort, NovaReasoner, build_nova_planner
from tripcortex.model.entities import Cabin

NOW = datetime(2026, 3, 10, 14, tzinfo=UTC)
PLAN = {
    "outcome": "plan",
    "confidence": 0.93,
    "destination": "Chicago",
    "departure_date": "2026-03-17",
    "return_date": "2026-03-19",
    "preferred_carriers": ["UA", "ZZ"],
}


@dataclass(frozen=True)
class Piece:
    """A passage as the planner reads it."""

    content_text: str | None = "Economy is the cabin for flights under six hours."
    section_title: str | None = "Cabins"
    source_page: int | None = 3


class FakeConverse:
    """Fake client that returns a recorded response and keeps its requests."""

    def __init__(self, answer: Mapping[str, Any]) -> None:
        self.answer, self.bodies = answer, list[dict[str, Any]]()

    async def __call__(self, body: dict[str, Any]) -> Mapping[str, Any]:
        self.bodies.append(body)
        return self.answer


def build_response(given: Any, *, name: str = TOOL_NAME, stop: str = "tool_use") -> dict[str, Any]:
    """Build a Converse response with one call of the tool `name`; `given` is its input."""
    return {
        "output": {
            "message": {
                "role": "assistant",
                "content": [
                    {"reasoningContent": {"reasoningText": {"text": "[REDACTED]"}}},
                    {
                        "toolUse": {
                            "toolUseId": "tooluse_20Z9zl0BQWSXjFuLKdTJcA",
                            "name": name,
                            "input": given,
                        }
                    },
                ],
            }
        },
        "stopReason": stop,
        "usage": {"inputTokens": 1200, "outputTokens": 200, "totalTokens": 1400},
        "metrics": {"latencyMs": 640},
    }


async def make_plan(
    response: Mapping[str, Any], sentence: str = "Chicago next Tuesday", **more: Any
) -> PlanOutcome:
    """Plan the sentence with a model that returns this response."""
    asked = PlanRequest(
        sentence, TravellerProfile("emp-42", "America/New_York", "BOS"), NOW, passages=(Piece(),), **more
    )
    return await build_nova_planner(FakeConverse(response)).plan(asked)


async def build_body(thinking: Effort | None) -> dict[str, Any]:
    """Return the request body that the planner sends with this reasoning effort."""
    recorded = FakeConverse(build_response(PLAN))
    asked = PlanRequest(
        "Chicago next Tuesday", TravellerProfile("emp-42", home_airport="BOS"), NOW, ("one way",), (Piece(),)
    )
    await build_nova_planner(recorded, thinking=thinking).plan(asked)
    return recorded.bodies[0]


@pytest.mark.proves("TC-91")
async def test_resolves_the_models_tool_input_into_a_plan() -> None:
    outcome = await make_plan(build_response(PLAN))
    assert isinstance(outcome, TripPlan)
    assert (outcome.parameters.origin, outcome.parameters.destination) == ("BOS", "ORD")
    assert outcome.preferences.destination_airports == ["MDW"]
    # The planner drops an unknown carrier.
    assert outcome.preferences.vendors == ["UA"]
    assert outcome.parameters.cabin_class is Cabin.economy and outcome.confidence == 0.93


async def test_the_request_has_the_shape_of_converse_and_forces_the_tool() -> None:
    body = await build_body(None)
    assert body.keys() == {"modelId", "system", "messages", "toolConfig", "inferenceConfig"}
    assert body["modelId"] == "us.amazon.nova-2-lite-v1:0"
    spec = body["toolConfig"]["tools"][0]["toolSpec"]
    assert spec["name"] == TOOL_NAME and spec["inputSchema"]["json"]["type"] == "object"
    assert body["toolConfig"]["toolChoice"] == {"tool": {"name": TOOL_NAME}}
    assert body["inferenceConfig"] == {"maxTokens": 2000, "temperature": 0}


async def test_requests_reasoning_in_novas_format() -> None:
    medium, high = await build_body("medium"), await build_body("high")
    assert medium["additionalModelRequestFields"] == {
        "reasoningConfig": {"type": "enabled", "maxReasoningEffort": "medium"}
    }
    assert medium["inferenceConfig"] == {"maxTokens": 2000} and medium["toolConfig"]["toolChoice"] == {
        "auto": {}
    }
    assert "inferenceConfig" not in high
    assert build_nova_planner(FakeConverse({}), thinking="high").thinking_budget == "high"


async def test_fences_untrusted_text_and_omits_the_employee_id() -> None:
    body = await build_body(None)
    prompt = body["messages"][0]["content"][0]["text"]
    for text in ("Chicago next Tuesday", "one way", "Economy is the cabin"):
        assert text in prompt and text not in body["system"][0]["text"]
    assert prompt.startswith("<data-") and "emp-42" not in str(body)
    assert "Today is Tuesday, 2026-03-10" in body["system"][0]["text"]


@all_cases(
    ("changed", "about"),
    [
        ({"destination": "Portland"}, ("destination",)),
        ({"destination": "Xanadu"}, ("destination",)),
        ({"destination": "ZZZ"}, ("destination",)),
        ({"destination": None}, ("destination",)),
        ({"return_date": None}, ("return_date",)),
        ({"departure_date": "2026-03-01"}, ("departure_date",)),
        ({"return_date": "2026-03-16"}, ("return_date",)),
    ],
)
async def test_asks_about_a_missing_ambiguous_or_impossible_value_of_the_model(
    changed: dict[str, Any], about: tuple[str, ...]
) -> None:
    outcome = await make_plan(build_response(PLAN | changed))
    assert isinstance(outcome, Question) and outcome.missing == about


@all_cases(
    ("changed", "code"),
    [({"destination": "Boston"}, "same_place"), ({"departure_date": "2027-03-10"}, "too_far")],
)
async def test_applies_its_own_refusals_to_the_models_plan(changed: dict[str, Any], code: str) -> None:
    outcome = await make_plan(build_response(PLAN | changed))
    assert isinstance(outcome, Refusal) and outcome.code == code


async def test_passes_on_the_models_question_and_refusal() -> None:
    asks = {
        "outcome": "question",
        "confidence": 0.4,
        "question": "When?\x1b[31m",
        "missing": ["departure_date", "soul"],
    }
    question = await make_plan(build_response(asks))
    assert question == Question("When?[31m", ("departure_date",), ())
    refuses = {"outcome": "refusal", "confidence": 1, "refusal_code": "because", "refusal": "No hotels."}
    assert await make_plan(build_response(refuses)) == Refusal("unsupported", "No hotels.")


@all_cases(
    "given",
    [
        PLAN | {"approved": True},
        PLAN | {"departure_date": "next Tuesday"},
        PLAN | {"cabin_class": "private jet"},
        PLAN | {"confidence": 7},
        PLAN | {"budget_usd": -1},
        [],
        {},
    ],
)
async def test_invalid_tool_input_is_a_retryable_failure(given: Any) -> None:
    with pytest.raises(ExternalServiceFailed) as caught:
        await make_plan(build_response(given))
    assert not caught.value.may_be_done
    assert "Chicago" not in str(caught.value)


@all_cases(
    "response",
    [
        build_response(PLAN, stop="max_tokens"),
        build_response(PLAN, stop="content_filtered"),
        build_response(PLAN, stop="malformed_tool_use"),
        build_response(PLAN, name="drop_tables"),
        {
            "output": {"message": {"content": [{"text": "Gladly!"}]}},
            "stopReason": "end_turn",
            "usage": {"inputTokens": 1, "outputTokens": 1},
        },
        {"output": None, "stopReason": "end_turn", "usage": {"inputTokens": 1, "outputTokens": 1}},
        {},
    ],
)
async def test_response_without_exactly_one_tool_call_is_a_failure(response: dict[str, Any]) -> None:
    with pytest.raises(ExternalServiceFailed):
        await make_plan(response)


async def test_reports_the_tokens_and_the_price_of_a_call() -> None:
    tool = Tool(TOOL_NAME, "Hand it in.", {"type": "object"})
    reasoner = NovaReasoner(FakeConverse(build_response(PLAN)))
    used = await reasoner.use_tool(instructions="Read.", data=[DataBlock("x", "y")], tool=tool, tokens_max=10)
    assert (used.usage.input_tokens, used.usage.output_tokens, used.usage.usd) == (
        1200,
        200,
        Decimal("0.00086"),
    )
