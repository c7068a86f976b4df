"""Answers Choice: the employee chooses an option; a breach of the policy needs an approval."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from holdfast.core.errors import InvalidRequest
from holdfast.flows import Next, StepContext
from tripcortex.model.entities import AuditEvent, Booking, FlightOption
from tripcortex.workers.audit_entries import build_audit_entry
from tripcortex.workers.steps.approval import request_approval

STEP: Final = "Choice"


async def choose(context: StepContext[Booking], payload: Mapping[str, Any]) -> Next:
    """Apply the employee's choice, `optionId` of the payload; a breach of the policy needs an approval.

    Raise `InvalidRequest`, which changes nothing, if it was not offered or its offer has expired.
    """
    booking = context.item
    option = _find_offered(booking, payload)
    if option.offer_expires_at <= context.now:
        raise InvalidRequest("The portal no longer holds this offer: choose another, or cancel.")
    entry = build_audit_entry(
        context.stores,
        booking,
        AuditEvent.user_selection,
        STEP,
        inputs={"options": len(booking.flight_options)},
        outputs={
            "option": option.option_id,
            "carrier": option.carrier,
            "price_usd": str(option.price_usd),
            "breaches": [each.code for each in option.breaches],
        },
    )
    if not option.needs_approval:
        return Next("user_selected", {"selected_option": option}, writes=(entry,))
    return await request_approval(context, option, option.breaches, (entry,), accepted_usd=option.price_usd)


def _find_offered(booking: Booking, payload: Mapping[str, Any]) -> FlightOption:
    """Return the offered option with the payload's `optionId`. Raise `InvalidRequest` if there is none."""
    for option in booking.flight_options:
        if option.option_id == str(payload.get("optionId")):
            return option
    offered = ", ".join(each.option_id for each in booking.flight_options)
    raise InvalidRequest(f"This option was not offered: choose one of {offered}.")
