"""BeginBooking and CompleteBooking: the offer at what it costs now, then bought, once.

`booking` is written before the portal is asked to buy: from then on nobody can cancel, and whoever takes over after a crash looks
up what was bought under the booking's id before anything is asked again. The audit `booking_completion`, status `confirmed`.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from holdfast import Put
from holdfast.errors import Defect, PartyRefused
from holdfast.flows import Next, Run
from tripcortex.auditing import audited
from tripcortex.model import AuditEvent, AuditRecord, Booking, Failure, FlightOption
from tripcortex.portal.booking_once import book_once
from tripcortex.portal.ports import Order, Traveller
from tripcortex.rules.approvals import APPROVE
from tripcortex.steps.choosing import refusal_of
from tripcortex.steps.ending import failed, leaving, telling
from tripcortex.workshop import stopwatch, workshop_of

BEGIN: Final = "BeginBooking"
COMPLETE: Final = "CompleteBooking"
PRICE_MOVED: Final = "price_moved"


async def begin_booking(run: Run[Booking]) -> Next:
    """Re-priced before anything is promised: a fare that moved beyond what was agreed is not bought."""
    workshop, watch, approval = workshop_of(run), stopwatch(), run.item.approval
    if approval is not None and approval.decision != APPROVE:
        return failed(run, BEGIN, refusal_of(approval))
    option = selected(run.item)
    try:
        offer = await workshop.portal.price(option.offer_id)
    except PartyRefused as refused:
        failure = Failure(
            code=refused.code,
            text=refused.message,
            remedy="Ask for the trip again: other flights may be free.",
        )
        return failed(run, BEGIN, failure, with_link=True)
    entry = audited(
        run.stores,
        run.item,
        AuditEvent.flight_search,
        BEGIN,
        given={"option": option.option_id, "price_usd": str(option.price_usd)},
        gave={"price_usd": str(offer.price_usd)},
        years=workshop.settings.audit_years,
        latency_ms=watch.ms,
    )
    if offer.price_usd > _most(run.item, option, workshop.settings.price_tolerance_percent):
        failure = Failure(
            code=PRICE_MOVED,
            text=f"The fare went from ${option.price_usd} to ${offer.price_usd} since it was chosen.",
            remedy="Ask for the trip again and choose among the fares of now.",
        )
        return failed(run, BEGIN, failure, with_link=True, audit=(entry,))
    agreed = option.model_copy(update={"price_usd": offer.price_usd, "offer_expires_at": offer.expires_at})
    return Next("booking", {"selected_option": agreed}, writes=(entry,))


async def complete_booking(run: Run[Booking]) -> Next:
    """Bought, found bought, or refused for good. While it is open whether it was bought, the step is tried again."""
    workshop, watch, booking = workshop_of(run), stopwatch(), run.item
    option = selected(booking)
    try:
        order = await book_once(
            run.stores,
            workshop.portal,
            booking.booking_id,
            booking.employee_id,
            option,
            Traveller(traveller_id=booking.employee_id),
        )
    except PartyRefused as refused:
        failure = Failure(
            code=refused.code,
            text=refused.message,
            remedy="Ask for the trip again, or book it on the portal's own pages.",
        )
        return failed(run, COMPLETE, failure, with_link=True)
    entry = audited(
        run.stores,
        booking,
        AuditEvent.booking_completion,
        COMPLETE,
        given={"option": option.option_id, "reference": booking.booking_id},
        gave={"confirmation": order.confirmation, "price_usd": str(order.price_usd)},
        years=workshop.settings.audit_years,
        latency_ms=watch.ms,
    )
    return _confirmed(run, order, entry)


def selected(booking: Booking) -> FlightOption:
    if booking.selected_option is None:
        raise Defect(
            f"The booking {booking.booking_id} stands in {booking.flow_state}, and nothing is chosen."
        )
    return booking.selected_option


def _confirmed(run: Run[Booking], order: Order, entry: Put[AuditRecord]) -> Next:
    booking = run.item
    message = telling(
        run.stores,
        booking,
        "confirmation",
        {
            "confirmationNumber": order.confirmation,
            "eTicketNumber": order.e_ticket_number,
            "priceUsd": str(order.price_usd),
        },
    )
    changes = {
        "confirmation_number": order.confirmation,
        "e_ticket_number": order.e_ticket_number,
        "paid_usd": order.price_usd,
    }
    return Next("confirmed", changes, writes=(entry, leaving(booking), *message))


def _most(booking: Booking, option: FlightOption, tolerance_percent: int) -> Decimal:
    """What it may cost now: a little more than was chosen, and where the choice kept to the cap, no more than that."""
    most = option.price_usd * (100 + tolerance_percent) / 100
    plan = booking.booking_plan
    cap = None if plan is None else plan.policy_constraints.max_budget_usd
    return most if cap is None or option.price_usd > cap else min(most, cap)
