"""Readers of the payer's stored answers and callbacks: decisions, callback numbers, arrival times.

The response builder makes the ClaimResponse from them; the callback handler checks whether a callback
decides.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from holdfast import Stores
from holdfast.core.errors import ExternalServiceFailed
from pagw.domain.fhir.decisions import Decision
from pagw.integrations.payers.config import parse_payer_config
from pagw.integrations.payers.decision_checks import find_faults
from pagw.integrations.payers.formats import get_format
from pagw.model import files
from pagw.model.entities import RequestRow
from pagw.model.registries import get_payer
from pagw.workers.stages.base_stage import StageFailed

UNREADABLE: Final = "PAYER_ANSWER_UNREADABLE"
CONTRADICTS: Final = "PAYER_CONTRADICTS_ITSELF"
# After one of these failures, a valid callback of the payer resumes the request.
PAYER_FAULTS: Final = frozenset({UNREADABLE, CONTRADICTS})


async def load_decision(stores: Stores, request: RequestRow, number: str | None, now: datetime) -> Decision:
    """Parse the decision from the callback `number`, or from the first answer. Raise `StageFailed` if it is
    invalid.
    """
    payer = await get_payer(stores, request.payer_id or "")
    if payer is None:
        raise StageFailed("UNKNOWN_PAYER", "The payer is no longer configured.")
    created, pagw_id = request.created_at, request.pagw_id
    stored = await stores.run(
        files.payer_response(created, pagw_id) if number is None else files.callback(created, pagw_id, number)
    )
    try:
        decision = get_format(parse_payer_config(payer.model_dump())).parse_decision(stored.body)
    except ExternalServiceFailed as error:
        raise StageFailed(UNREADABLE, error.message) from error
    if wrong := find_faults(decision, created_at=created, now=now, sequences=get_item_sequences(request)):
        raise StageFailed(UNREADABLE, f"Invalid response from the payer: {wrong}.")
    return decision


def get_item_sequences(request: RequestRow) -> tuple[int, ...] | None:
    """Return the claim's item sequences as the enricher noted them, or None if it did not."""
    noted = request.metadata.get("items")
    return tuple(noted) if isinstance(noted, list) else None


def get_callbacks(request: RequestRow) -> dict[str, Any]:
    """Return the received callbacks by number: the arrival time and hash of each."""
    noted = request.metadata.get("callbacks")
    return noted if isinstance(noted, dict) else {}


def get_newest_callback(request: RequestRow) -> str | None:
    """Return the number of the newest callback, or None."""
    return max(get_callbacks(request), default=None)


def get_arrival_time(request: RequestRow, number: str | None) -> datetime | None:
    """Return when the first answer or the callback `number` arrived, by our clock, or None if unknown. The
    payer's own time is not ours to prove.
    """
    at = (
        request.metadata.get("answeredAt")
        if number is None
        else get_callbacks(request).get(number, {}).get("at")
    )
    return None if at is None else datetime.fromisoformat(at)
