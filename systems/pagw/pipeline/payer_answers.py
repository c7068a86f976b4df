"""What a payer said of a request, read out of the object in which it was kept: its answer, or one of its callbacks.

The response builder makes the ClaimResponse of it; the callback handler looks whether a callback decides anything.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from holdfast import Stores
from holdfast.errors import PartyFailed
from pagw import files
from pagw.fhir.decisions import Decision
from pagw.model import Tracked
from pagw.payers.config import payer_config
from pagw.payers.formats import format_of
from pagw.payers.judging import faults_in
from pagw.pipeline.staging import StageFailed
from pagw.registries import payer_of

UNREADABLE: Final = "PAYER_ANSWER_UNREADABLE"
CONTRADICTS: Final = "PAYER_CONTRADICTS_ITSELF"
# A payer that says something sensible after one of these is heard.
OF_PAYER: Final = frozenset({UNREADABLE, CONTRADICTS})


async def answer_of(stores: Stores, request: Tracked, number: str | None, now: datetime) -> Decision:
    """Out of the callback of this number, or of the first answer. What makes no sense is `StageFailed`."""
    payer = await payer_of(stores, request.payer_id or "")
    if payer is None:
        raise StageFailed("UNKNOWN_PAYER", "The payer is no longer configured.")
    created, pagw_id = request.created_at, request.pagw_id
    said = await stores.run(
        files.payer_response(created, pagw_id) if number is None else files.callback(created, pagw_id, number)
    )
    try:
        decision = format_of(payer_config(payer.model_dump())).decision(said.body)
    except PartyFailed as error:
        raise StageFailed(UNREADABLE, error.message) from error
    if wrong := faults_in(decision, created_at=created, now=now, sequences=items_of(request)):
        raise StageFailed(UNREADABLE, f"The payer answers nonsense: {wrong}.")
    return decision


def items_of(request: Tracked) -> tuple[int, ...] | None:
    """The sequences of the claim's items, as the enricher noted them; None where it was not noted."""
    noted = request.metadata.get("items")
    return tuple(noted) if isinstance(noted, list) else None


def callbacks_of(request: Tracked) -> dict[str, Any]:
    """The callbacks that came, by their numbers: when each came, and the hash of it."""
    noted = request.metadata.get("callbacks")
    return noted if isinstance(noted, dict) else {}


def newest_callback(request: Tracked) -> str | None:
    return max(callbacks_of(request), default=None)


def arrived_at(request: Tracked, number: str | None) -> datetime | None:
    """When what the payer said came in, by our clock: the payer's own says when it decided, and is not ours to prove."""
    at = (
        request.metadata.get("answeredAt")
        if number is None
        else callbacks_of(request).get(number, {}).get("at")
    )
    return None if at is None else datetime.fromisoformat(at)
