"""What became of a booking, in words and as data: where it stands, what each step was given and gave, what was cited."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from holdfast import Explanation, Stores, Ulid
from holdfast.errors import InvalidRequest, NotFound
from tripcortex import patterns
from tripcortex.model import AuditRecord, Booking

ULID: Final = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")
TOLD: Final = (
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


async def why(stores: Stores, id: str) -> Explanation:
    """`id` is a booking's. Its trail says whose it is."""
    if not ULID.fullmatch(id):
        raise InvalidRequest(f"{id!r:.60} is no booking's id: give its 26 characters, as the API shows them.")
    trail = await stores.all(patterns.trail(Ulid(id)))
    if not trail:
        raise NotFound(f"Nothing is known of the booking {id}: no step of it has ended, or its audit has.")
    booking = await stores.run(patterns.booking(trail[0].employee_id, Ulid(id)))
    lines = [_line(each) for each in trail]
    if booking is not None:
        lines = [" ".join([_standing(booking), *_noted(booking)]), *lines]
    return Explanation(lines, data(booking, trail))


def data(booking: Booking | None, trail: Sequence[AuditRecord]) -> dict[str, Any]:
    return {
        "booking": None
        if booking is None
        else booking.model_dump(mode="json", exclude_none=True, exclude={"flow_token"}),
        "trail": [each.model_dump(mode="json", exclude_none=True) for each in trail],
    }


def _standing(booking: Booking) -> str:
    said = f"{booking.employee_id}: {booking.user_request!r} stands as {booking.status}"
    if booking.confirmation_number is not None:
        return f"{said}, confirmed as {booking.confirmation_number}."
    if booking.failure is not None:
        told = " ".join(_sentence(each) for each in (booking.failure.text, booking.failure.remedy) if each)
        return f"{said} ({booking.failure.code}): {told}"
    return f"{said}."


def _noted(booking: Booking) -> list[str]:
    """What the planner read other than it was written, or left out."""
    return ["Noted:", *(_sentence(each) for each in booking.notes)] if booking.notes else []


def _line(entry: AuditRecord) -> str:
    told = [f"{name} {entry.output[name]}" for name in TOLD if name in entry.output]
    told += _plan(entry.output) + _decision(entry.output)
    if entry.error_code is not None:
        told.append(f"{entry.error_code}: {entry.error_message}")
    took = "" if entry.latency_ms is None else f" in {entry.latency_ms} ms"
    return f"{_moment(entry.timestamp)}  {entry.step} ({entry.event}){took}: {', '.join(told) or 'done'}"


def _plan(output: Mapping[str, Any]) -> list[str]:
    """`BOS → ORD, 2026-04-14 to 2026-04-16, economy`; or what was asked back."""
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


def _decision(output: Mapping[str, Any]) -> list[str]:
    if "decision" not in output:
        return []
    return [f"{output['decision']}, decided by {output.get('decided_by')}"]


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _moment(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
