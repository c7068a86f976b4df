"""BeginBooking and CompleteBooking: the offer at what it costs now, then bought, once.

`booking` is written before the portal is asked to buy: from then on nobody can cancel, and whoever takes over after a crash looks
up what was bought under the booking's id before anything is asked again. The audit `booking_completion`, status `confirmed`.

While it is open whether it was bought, the step is tried again. The employee is told so after some minutes; after a day, or where
something else is wrong, it is set aside for the travel desk, with an audit and a message, and `holdfast flows resume` goes on.
Where the portal certainly bought nothing, it ends in the link as it does before.
"""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from holdfast import Ulid, Write
from holdfast.errors import (
    CircuitOpen,
    Defect,
    HoldfastError,
    InProgress,
    PartyFailed,
    PartyRefused,
    RetryLater,
    TransactionCancelled,
)
from holdfast.flows import Next, Run
from tripcortex import patterns
from tripcortex.auditing import audited
from tripcortex.model import AuditEvent, Booking, Failure, FlightOption
from tripcortex.portal.booking_once import Bought, OutcomeOpen, book_once, settled
from tripcortex.portal.ports import OFFER_EXPIRED, Offer, Portal, Traveller
from tripcortex.rules.approvals import APPROVE
from tripcortex.steps.choosing import refusal_of
from tripcortex.steps.ending import failed, gave_up, leaving, telling
from tripcortex.workshop import stopwatch, workshop_of

BEGIN: Final = "BeginBooking"
COMPLETE: Final = "CompleteBooking"
PRICE_MOVED: Final = "price_moved"
PENDING: Final = "pending"
OUTCOME_OPEN: Final = "outcome_open"
OUTCOME_UNKNOWN: Final = "outcome_unknown"
SURPLUS_ORDER: Final = "surplus_order"

# So long an open outcome is nothing to worry anybody with.
PENDING_AFTER: Final = timedelta(minutes=5)
# So long the portal is asked by itself; then somebody has to look.
SET_ASIDE_AFTER: Final = timedelta(hours=24)

FINDING_OUT: Final = (
    "The travel portal was asked to book this trip and does not say whether it has. We are finding out: please do not book "
    "it yourself meanwhile."
)
DESK_LOOKS: Final = (
    "Whether the travel portal has booked this trip could not be found out. The travel desk has to look there: please ask it, "
    "and do not book the trip yourself before."
)

NOT_SO: Final = "ConditionalCheckFailed"
# Crockford's, as ULIDs have it.
_DIGITS: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_RANDOM_BYTES: Final = 10


class Unresolved(HoldfastError, label="Unresolved"):
    """Nobody knows whether a trip was bought, and it is not tried again by itself."""


async def begin_booking(run: Run[Booking]) -> Next:
    """Re-priced before anything is promised: a fare that moved beyond what was agreed is not bought. An offer that ended while
    somebody approved it is looked for anew: the same flights in the same cabin."""
    workshop, watch, approval = workshop_of(run), stopwatch(), run.item.approval
    if approval is not None and approval.decision != APPROVE:
        return failed(run, BEGIN, refusal_of(approval))
    option = selected(run.item)
    try:
        offer = await _priced(workshop.portal, run.item, option)
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
    if offer.price_usd > _most(run.item, workshop.settings.price_tolerance_percent):
        failure = Failure(
            code=PRICE_MOVED,
            text=f"The fare went from ${option.price_usd} to ${offer.price_usd} since it was chosen.",
            remedy="Ask for the trip again and choose among the fares of now.",
        )
        return failed(run, BEGIN, failure, with_link=True, audit=(entry,))
    agreed = option.model_copy(
        update={
            "offer_id": offer.offer_id,
            "price_usd": offer.price_usd,
            "offer_expires_at": offer.expires_at,
        }
    )
    return Next("booking", {"selected_option": agreed}, writes=(entry,))


async def _priced(portal: Portal, booking: Booking, option: FlightOption) -> Offer:
    """The offer at what it costs now; where it has ended, the cheapest that is of the same flights."""
    try:
        return await portal.price(option.offer_id)
    except PartyRefused as refused:
        if refused.code != OFFER_EXPIRED or booking.booking_plan is None:
            raise
        plan = booking.booking_plan
        same = [
            each
            for each in await portal.search(plan.parameters, plan.preferences)
            if each.cabin == option.cabin and _flights(each) == _flights(option)
        ]
        if not same:
            raise
        return min(same, key=lambda each: (each.price_usd, each.offer_id))


def _flights(offered: Offer | FlightOption) -> list[tuple[str, datetime]]:
    return [(each.flight_number, each.departs_at) for each in (*offered.outbound, *offered.inbound)]


async def complete_booking(run: Run[Booking]) -> Next:
    """Bought, found bought, or refused for good."""
    workshop, watch, booking = workshop_of(run), stopwatch(), run.item
    option = selected(booking)
    try:
        bought = await book_once(
            run.stores,
            workshop.portal,
            booking.booking_id,
            booking.employee_id,
            option,
            Traveller(traveller_id=booking.employee_id),
            most_usd=_most(booking, workshop.settings.price_tolerance_percent),
        )
        bought = await settled(run.stores, workshop.portal, bought)
    except PartyRefused as refused:
        failure = Failure(
            code=refused.code,
            text=refused.message,
            remedy="Ask for the trip again, or book it on the portal's own pages.",
        )
        return failed(run, COMPLETE, failure, with_link=True)
    except (OutcomeOpen, InProgress) as error:
        await _still_open(run, error)
        raise
    entry = audited(
        run.stores,
        booking,
        AuditEvent.booking_completion,
        COMPLETE,
        given={"option": option.option_id, "reference": booking.booking_id},
        gave={"confirmation": bought.confirmation, "price_usd": str(bought.price_usd)},
        years=workshop.settings.audit_years,
        latency_ms=watch.ms,
    )
    return _confirmed(run, bought, option, (entry, *_surplus(run, bought)))


async def not_completed(run: Run[Booking], error: Exception) -> Next:
    """What no further try mends. Only where the portal certainly bought nothing the booking ends; else it is set aside, and
    somebody is told."""
    if isinstance(error, PartyFailed | CircuitOpen) and not isinstance(error, OutcomeOpen):
        return gave_up(COMPLETE)(run, error)
    await _tell_once(run, OUTCOME_UNKNOWN, DESK_LOOKS, SET_ASIDE_AFTER)
    raise Unresolved(
        f"Whether {run.item.booking_id} was bought is not known: look at the portal under that reference. "
        "`holdfast flows resume` asks it again, and goes on with what it says."
    )


def selected(booking: Booking) -> FlightOption:
    if booking.selected_option is None:
        raise Defect(
            f"The booking {booking.booking_id} stands in {booking.flow_state}, and nothing is chosen."
        )
    return booking.selected_option


async def _still_open(run: Run[Booking], error: Exception) -> None:
    """The employee is told once; after a day it is for a person."""
    open_for = run.now - (run.item.flow_since or run.now)
    if open_for >= SET_ASIDE_AFTER:
        raise Unresolved("The outcome has been open for a day.") from error
    if open_for >= PENDING_AFTER:
        await _tell_once(run, OUTCOME_OPEN, FINDING_OUT, PENDING_AFTER)


async def _tell_once(run: Run[Booking], code: str, text: str, after: timedelta) -> None:
    """An audit entry and a message. The entry's id is made of the booking's visit of this state, so that the store takes one."""
    booking, stores = run.item, run.stores
    since = booking.flow_since or run.now
    entry = audited(
        stores,
        booking,
        AuditEvent.error,
        COMPLETE,
        given={"attempt": run.attempt},
        years=workshop_of(run).settings.audit_years,
        error_code=code,
        error_message=text,
    ).entity.model_copy(update={"audit_id": _id_of((since + after).timestamp(), booking.booking_id, code)})
    message = telling(stores, booking, PENDING, {"code": code, "text": text})
    try:
        await stores.transact(patterns.append_audit(entry), *message)
    except TransactionCancelled as cancelled:
        if cancelled.reasons[0].code != NOT_SO:
            raise RetryLater("What is to be told could not be written now: come again.") from cancelled
        # Told before.


def _id_of(at: float, *parts: str) -> Ulid:
    """A ULID of that moment that is the same each time."""
    digest = hashlib.sha256("#".join(parts).encode()).digest()[:_RANDOM_BYTES]
    number = (int(at * 1000) << 8 * _RANDOM_BYTES) | int.from_bytes(digest)
    return Ulid("".join(_DIGITS[(number >> shift) & 31] for shift in range(125, -1, -5)))


def _surplus(run: Run[Booking], bought: Bought) -> tuple[Write[Any], ...]:
    """What was sold beside the order that counts."""
    if not (bought.surplus or bought.left):
        return ()
    entry = audited(
        run.stores,
        run.item,
        AuditEvent.error,
        COMPLETE,
        given={"reference": run.item.booking_id},
        gave={"kept": bought.order_id, "cancelled": bought.surplus, "not_cancelled": bought.left},
        years=workshop_of(run).settings.audit_years,
        error_code=SURPLUS_ORDER,
        error_message="The portal sold more than one order under the reference: see to those that are not cancelled.",
    )
    return (entry,)


def _confirmed(
    run: Run[Booking], bought: Bought, option: FlightOption, entries: tuple[Write[Any], ...]
) -> Next:
    booking = run.item
    message = telling(
        run.stores,
        booking,
        "confirmation",
        {
            "confirmationNumber": bought.confirmation,
            "eTicketNumber": bought.e_ticket_number,
            "priceUsd": str(bought.price_usd),
        },
    )
    changes = {
        "selected_option": option.model_copy(update={"price_usd": bought.price_usd}),
        "confirmation_number": bought.confirmation,
        "e_ticket_number": bought.e_ticket_number,
        "paid_usd": bought.price_usd,
    }
    return Next("confirmed", changes, writes=(*entries, leaving(booking), *message))


def _most(booking: Booking, tolerance_percent: int) -> Decimal:
    """What it may cost now: a little more than was chosen, and where the choice kept to the policy's cap, or to what the employee
    wants to spend, no more than that."""
    option = selected(booking)
    shown = (each.price_usd for each in booking.flight_options if each.option_id == option.option_id)
    chosen_usd = next(shown, option.price_usd)
    most = chosen_usd * (100 + tolerance_percent) / 100
    plan = booking.booking_plan
    caps = [] if plan is None else [plan.policy_constraints.max_budget_usd, plan.preferences.budget_usd]
    return min([most, *(cap for cap in caps if cap is not None and chosen_usd <= cap)])
