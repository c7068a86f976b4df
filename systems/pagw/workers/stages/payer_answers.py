"""Readers of the payer's stored answers and callbacks: decisions, callback numbers, arrival times.

The response builder makes the ClaimResponse from them; the callback handler checks whether a callback
decides.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from holdfast import Stores
from holdfast.core.errors import ExternalServiceFailed
from pagw.domain.fhir.decisions import Decision
from pagw.integrations.payers.config import parse_payer_config
from pagw.integrations.payers.decision_checks import find_faults
from pagw.integrations.payers.formats import PayerFormat, get_format
from pagw.integrations.payers.pas_messages import is_response_bundle
from pagw.model import files
from pagw.model.entities import RequestRow, pended_response
from pagw.model.registries import get_payer
from pagw.workers.stages.base_stage import StageFailed

UNREADABLE: Final = "PAYER_ANSWER_UNREADABLE"
CONTRADICTS: Final = "PAYER_CONTRADICTS_ITSELF"
# The payer could not process the request, or its response has no decision that the gateway understands. The
# provider receives the payer's Bundle all the same.
PAYER_ERROR: Final = "PAYER_ERROR"
UNCLEAR: Final = "PAYER_ANSWER_UNCLEAR"
# After one of these failures, a valid callback of the payer resumes the request.
PAYER_FAULTS: Final = frozenset({UNREADABLE, CONTRADICTS, PAYER_ERROR, UNCLEAR})


class PassedOnFailure(StageFailed):
    """A payer's answer without a decision, whose response Bundle the provider receives."""

    def __init__(self, code: str, message: str, body: bytes) -> None:
        super().__init__(code, message)
        self.body = body


@dataclass(frozen=True)
class LoadedAnswer:
    """A payer's answer with its decision. `response` is the payer's response Bundle, None if the gateway
    builds one.
    """

    form: PayerFormat
    body: bytes = field(repr=False)
    decision: Decision

    @property
    def response(self) -> bytes | None:
        return self.body if self.form.is_answer_passed_on else None


async def load_answer(stores: Stores, request: RequestRow, number: str | None, now: datetime) -> LoadedAnswer:
    """Load the callback `number`, or the first answer, with its decision. Raise `StageFailed` if it is
    invalid or has none.
    """
    form = await load_format(stores, request)
    body = await load_body(stores, request, number)
    try:
        answer = form.parse_answer(body)
    except ExternalServiceFailed as error:
        raise _build_failure(form, body, UNREADABLE, error.message) from error
    if answer.decision is None:
        codes = ", ".join(answer.error_codes) or "without a code"
        raise _build_failure(form, body, PAYER_ERROR, f"The payer could not process the request ({codes}).")
    sequences = get_item_sequences(request)
    if wrong := find_faults(answer.decision, created_at=request.created_at, now=now, sequences=sequences):
        raise _build_failure(form, body, UNREADABLE, f"Invalid response from the payer: {wrong}.")
    return LoadedAnswer(form, body, answer.decision)


async def keep_failure_response(stores: Stores, request: RequestRow, failure: PassedOnFailure) -> None:
    """Store the payer's Bundle as the response of the failed request. A later decision may replace it."""
    await stores.run(files.renew_pended_response(failure.body, request.created_at, request.pagw_id))
    failure.response_key = pended_response.build_key(created_at=request.created_at, pagw_id=request.pagw_id)


async def load_format(stores: Stores, request: RequestRow) -> PayerFormat:
    """Return the format of the request's payer. Raise `StageFailed` if the payer is gone."""
    payer = await get_payer(stores, request.payer_id or "")
    if payer is None:
        raise StageFailed("UNKNOWN_PAYER", "The payer is no longer configured.")
    return get_format(parse_payer_config(payer.model_dump()))


async def load_body(stores: Stores, request: RequestRow, number: str | None) -> bytes:
    """Return the payer's callback `number`, or its first answer, as it was received."""
    created, pagw_id = request.created_at, request.pagw_id
    stored = await stores.run(
        files.payer_response(created, pagw_id) if number is None else files.callback(created, pagw_id, number)
    )
    return stored.body


def _build_failure(form: PayerFormat, body: bytes, code: str, message: str) -> StageFailed:
    """Build the failure of an answer. The provider receives it if it is a response Bundle."""
    if form.is_answer_passed_on and is_response_bundle(body):
        return PassedOnFailure(UNCLEAR if code == UNREADABLE else code, message, body)
    return StageFailed(code, message)


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


def get_deciding_callback(request: RequestRow) -> str | None:
    """Return the number of the callback with the current decision; None if the first answer decided."""
    number = request.metadata.get("laterCallback") or request.metadata.get("callback")
    return None if number is None else str(number)


def list_later_callbacks(request: RequestRow) -> list[str]:
    """Return the numbers of the callbacks that came after the current decision's, in order."""
    return sorted(each for each in get_callbacks(request) if each > (get_deciding_callback(request) or ""))


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
