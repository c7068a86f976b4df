"""Two read-only MCP tools next to the access patterns: explain a booking, and look up what policies say."""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel

from holdfast import Stores
from holdfast.core.errors import NotFound
from holdfast.model.agents import ToolFunction
from tripcortex.api import explain
from tripcortex.settings import TripCortexSettings


async def why(stores: Stores, booking_id: str) -> dict[str, Any]:
    """Explain a booking: its status, and each step with its inputs and outputs, oldest first.

    Errors have a code, and breaches of the policy cite their source.
    """
    found = await explain.explain_booking(stores, booking_id)
    return {"lines": list(found.lines), **found.data}


class PolicyAnswer(BaseModel):
    """What the policies say: passages with their sources, and how well they fit the question."""

    confidence: str
    passages: list[dict[str, Any]]


async def policy_says(stores: Stores, question: str) -> PolicyAnswer:
    """Return what the company's travel policies say about a question: passages with file, page and section.

    `confidence` is none, low or high; with none there are no passages, and the agent must not guess. Each
    passage has its similarity to the question.
    """
    from tripcortex.integrations.ai_models import open_embedding
    from tripcortex.policies.retrieval import retrieve

    found = await retrieve(stores, open_embedding(TripCortexSettings.load()), question)
    return PolicyAnswer(
        confidence=found.confidence,
        passages=[
            {"text": each.content_text, **each.citation().model_dump(mode="json", exclude_none=True)}
            for each in found.chunks
        ],
    )


ARGUMENTS: Final = {
    "booking_id": "The id of a booking: the 26 characters that the API shows",
    "employee_id": "The id of an employee",
    "question": "A question about travel, in a sentence",
    "trip": "The trip that the employee wants, in a sentence",
}

TOOLS: Final = (
    ToolFunction(
        why,
        example={"booking_id": "01KK4CFSSGET7K6V2MMMVV3QH6"},
        errors={NotFound: "no booking has this id"},
    ),
    ToolFunction(policy_says, example={"question": "Which airlines are preferred?"}),
)
