"""Two read-only MCP tools next to the access patterns: explain a booking, and look up what policies say."""

from __future__ import annotations

from typing import Any

from holdfast import Stores
from tripcortex.api import explain
from tripcortex.settings import TripCortexSettings


async def why(stores: Stores, booking_id: str) -> dict[str, Any]:
    """Explain a booking: its status, and each step with its inputs and outputs, oldest first.

    booking_id is the 26 characters that the API shows. Errors have a code, and breaches of the policy cite
    their source.
    """
    found = await explain.explain_booking(stores, booking_id)
    return {"lines": list(found.lines), **found.data}


async def policy_says(stores: Stores, question: str) -> dict[str, Any]:
    """Return what the company's travel policies say about a question: passages with file, page and section.

    confidence is none, low or high; with none there are no passages, and the agent must not guess. Each
    passage has its similarity to the question.
    """
    from tripcortex.integrations.ai_models import open_embedding
    from tripcortex.policies.retrieval import retrieve

    found = await retrieve(stores, open_embedding(TripCortexSettings.load()), question)
    return {
        "confidence": found.confidence,
        "passages": [
            {"text": each.content_text, **each.citation().model_dump(mode="json", exclude_none=True)}
            for each in found.chunks
        ],
    }


TOOLS = (why, policy_says)
