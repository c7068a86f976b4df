"""Builds the audit entries of a booking, to be written in the transaction of the step's result (D10).

Nothing in the system changes or deletes an entry. Entries hold ids, codes, counts, model names, and the text
of the request with personal data masked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from holdfast import Put, Stores
from holdfast.guarantees import redact
from tripcortex.model import patterns
from tripcortex.model.entities import AuditEvent, AuditRecord, Booking, compute_audit_expiry
from tripcortex.model.ids import get_ulids
from tripcortex.settings import TripCortexSettings

MAX_TEXT_CHARS: Final = 500


def build_audit_entry(
    stores: Stores,
    booking: Booking,
    event: AuditEvent,
    step: str,
    *,
    inputs: Mapping[str, Any] | None = None,
    outputs: Mapping[str, Any] | None = None,
    years: int | None = None,
    **more: Any,
) -> Put[AuditRecord]:
    """Return the write of an audit entry for a step, at the current time; its `error_message` is redacted.

    `more` are further attributes of the record: `model_id`, `latency_ms`, `error_code` … `years` is the
    retention; default is the setting `audit_years`.
    """
    now = stores.now()
    if more.get("error_message") is not None:
        more["error_message"] = redact_text(more["error_message"])
    return patterns.append_audit(
        AuditRecord(
            booking_id=booking.booking_id,
            audit_id=get_ulids(stores.clock).new(),
            employee_id=booking.employee_id,
            timestamp=now,
            event=event,
            step=step,
            input=dict(inputs or {}),
            output=dict(outputs or {}),
            expires_at=compute_audit_expiry(
                now, TripCortexSettings.load().audit_years if years is None else years
            ),
            **more,
        )
    )


def redact_text(text: str) -> str:
    """Return the text for the audit log: personal data masked, at most `MAX_TEXT_CHARS` characters."""
    masked = redact(text)
    return masked if len(masked) <= MAX_TEXT_CHARS else f"{masked[: MAX_TEXT_CHARS - 1]}…"
