"""The audit of a booking: one entry per step, written in the transaction of what the step did. D10 writes it, and nothing
of ours changes or deletes it.

What goes in is little: ids, codes, counts, names of models, and the words of the request with whatever looks personal masked.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from holdfast import Put, Stores
from holdfast.guarantees import redact
from tripcortex import patterns
from tripcortex.ids import ids_of
from tripcortex.model import AuditEvent, AuditRecord, Booking, audit_end
from tripcortex.settings import TripCortexSettings

TEXT_CHARS_MAX: Final = 500


def audited(
    stores: Stores,
    booking: Booking,
    event: AuditEvent,
    step: str,
    *,
    given: Mapping[str, Any] | None = None,
    gave: Mapping[str, Any] | None = None,
    years: int | None = None,
    **more: Any,
) -> Put[AuditRecord]:
    """The write of an entry. `more` are attributes of the record: `model_id`, `latency_ms`, `error_code` … Without `years` it is
    kept for as long as the settings say."""
    now = datetime.fromtimestamp(stores.clock.now(), UTC)
    if more.get("error_message") is not None:
        more["error_message"] = told(more["error_message"])
    return patterns.append_audit(
        AuditRecord(
            booking_id=booking.booking_id,
            audit_id=ids_of(stores.clock).new(),
            employee_id=booking.employee_id,
            timestamp=now,
            event=event,
            step=step,
            input=dict(given or {}),
            output=dict(gave or {}),
            expires_at=audit_end(now, TripCortexSettings.load().audit_years if years is None else years),
            **more,
        )
    )


def told(text: str) -> str:
    """A text as the audit may have it: shortened, and with what looks personal masked."""
    masked = redact(text)
    return masked if len(masked) <= TEXT_CHARS_MAX else f"{masked[: TEXT_CHARS_MAX - 1]}…"
