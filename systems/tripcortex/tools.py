"""What an agent is offered beside the access patterns: why a booking came out as it did, and what the policies say. Both read."""

from __future__ import annotations

from typing import Any

from holdfast import Stores
from tripcortex import explaining
from tripcortex.settings import TripCortexSettings


async def why(stores: Stores, booking_id: str) -> dict[str, Any]:
    """What became of a booking: where it stands, and each step with what it was given and gave, oldest first.

    booking_id is the 26 characters that the API shows. Errors have a code, and breaches of the policy cite where it says so.
    """
    found = await explaining.why(stores, booking_id)
    return {"lines": list(found.lines), **found.data}


async def policy_says(stores: Stores, question: str) -> dict[str, Any]:
    """What the company's travel policies say about a question, as passages with their file, page, section and similarity.

    confidence is none, low or high; with none there are no passages, and nobody should guess.
    """
    from tripcortex.knowledge.retrieving import retrieve
    from tripcortex.models import open_embedding

    found = await retrieve(stores, open_embedding(TripCortexSettings.load()), question)
    return {
        "confidence": found.confidence,
        "passages": [
            {"text": each.content_text, **each.citation().model_dump(mode="json", exclude_none=True)}
            for each in found.chunks
        ],
    }


TOOLS = (why, policy_says)
