"""Explanation of one booking from its row and audit trail: lines of text for people, and the same as JSON."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from holdfast import Stores
from holdfast.core.errors import InvalidRequest, NotFound
from holdfast.model.system import Explanation
from holdfast.model.ulids import Ulid
from tripcortex.model import patterns
from tripcortex.model.entities import AuditRecord, Booking

ULID: Final = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")
SHOWN_OUTPUTS: Final = (
    "confidence",
    "max_similarity",
    "chunks_retrieved",
    "ok",
    "offers",
    "option",
    "price_usd",
    "answer",
    "cancelled",
    "confirmation",
)


async def explain_booking(stores: Stores, id: str) -> Explanation:
    """Explain a booking by its id; the employee it belongs to is read from the audit trail.

    Raise `InvalidRequest` if the id is not a ULID, `NotFound` if the booking has no audit entries.
    """
    if not ULID.fullmatch(id):
        raise InvalidRequest(f"Invalid booking id {id!r:.60}: expected the 26 characters that the API shows.")
    trail = await stores.all(patterns.trail(Ulid(id)))
    if not trail:
        raise NotFound(
            f"No audit entries for booking {id}: no step has completed yet, or the entries have expired."
        )
    booking = await stores.run(patterns.booking(trail[0].employee_id, Ulid(id)))
    lines = [_format_entry(each) for each in trail]
    if booking is not None:
        lines = [" ".join([_format_booking(booking), *_format_notes(booking)]), *lines]
    return Explanation(lines, build_data(booking, trail))


def build_data(booking: Booking | None, trail: Sequence[AuditRecord]) -> dict[str, Any]:
    """Return the booking (without its flow token; None if gone) and its audit entries as JSON."""
    return {
        "booking": None
        if booking is None
        else booking.model_dump(mode="json", exclude_none=True, exclude={"flow_token"}),
        "trail": [each.model_dump(mode="json", exclude_none=True) for each in trail],
    }


def _format_booking(booking: Booking) -> str:
    """Return one sentence: the request, its status, and the confirmation number or the reason."""
    said = f"{booking.employee_id}: {booking.user_request!r} is {booking.status}"
    if booking.confirmation_number is not None:
        return f"{said}, confirmed as {booking.confirmation_number}."
    if booking.failure is not None:
        reason = " ".join(
            _end_with_period(each) for each in (booking.failure.text, booking.failure.remedy) if each
        )
        return f"{said} ({booking.failure.code}): {reason}"
    return f"{said}."


def _format_notes(booking: Booking) -> list[str]:
    """Return "Notes:" and the planner's notes (what it interpreted or ignored); empty if there are none."""
    return ["Notes:", *(_end_with_period(each) for each in booking.notes)] if booking.notes else []


def _format_entry(entry: AuditRecord) -> str:
    """Format an audit entry on one line: time, step, event, duration, the `SHOWN_OUTPUTS`, and the error."""
    parts = [f"{name} {entry.output[name]}" for name in SHOWN_OUTPUTS if name in entry.output]
    parts += _format_plan(entry.output) + _format_decision(entry.output)
    if entry.error_code is not None:
        parts.append(f"{entry.error_code}: {entry.error_message}")
    took = "" if entry.latency_ms is None else f" in {entry.latency_ms} ms"
    return (
        f"{_format_time(entry.timestamp)}  {entry.step} ({entry.event}){took}: {', '.join(parts) or 'done'}"
    )


def _format_plan(output: Mapping[str, Any]) -> list[str]:
    """Format the output of a plan step: `BOS → ORD`, the dates and the cabin, or what the planner asked for.

    Return an empty list for the output of another step.
    """
    if asked := output.get("asked"):
        return [f"asked for {' and '.join(asked)}"]
    trip = output.get("bookingPlan", {}).get("parameters")
    if not trip:
        return []
    back = f" to {trip['return_date']}" if trip.get("return_date") else ""
    return [
        f"{trip['origin']} → {trip['destination']}",
        f"{trip['departure_date']}{back}",
        trip["cabin_class"],
    ]


def _format_decision(output: Mapping[str, Any]) -> list[str]:
    """Format what approvers decided and for which of the policy's words, or who was asked in addition.

    Empty if the output has neither.
    """
    for change in ("escalated", "reassigned"):
        if change in output:
            return [f"{change} to {', '.join(output[change]) or 'nobody else'}"]
    if "decision" not in output:
        return []
    decisions = [_format_approver(each) for each in output.get("decisions", ())]
    return decisions or [f"{output['decision']}, decided by {output.get('decided_by')}"]


def _format_approver(decided: Mapping[str, Any]) -> str:
    """Format one approver's decision: `approve, decided by emp-8 for emp-7 (L1 manager)`."""
    principal = f" for {decided['on_behalf_of']}" if decided.get("on_behalf_of") else ""
    return f"{decided['decision']}, decided by {decided['decided_by']}{principal} ({decided['approver']})"


def _end_with_period(text: str) -> str:
    """Add a period unless the text ends with a period, an exclamation or a question mark."""
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _format_time(at: datetime) -> str:
    """Format the time as ISO 8601 with milliseconds and a trailing Z."""
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
