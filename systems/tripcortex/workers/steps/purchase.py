"""Steps BeginBooking and CompleteBooking: price the offer again, then buy it exactly once.

State `booking` is written before the portal is asked to buy: from then on the booking cannot be cancelled,
and after a crash another worker first looks up the orders under the booking's id. Audit event
`booking_completion`, status `confirmed`.

While the outcome is unknown, the step is retried. After five minutes the employee gets a message; after a
day, or on another error, the booking is parked for the travel desk, with an audit entry and a message, and
`holdfast flows resume` continues it. If the portal certainly bought nothing, the booking fails with the link.
"""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from holdfast import Write
from holdfast.core.errors import (
    CircuitOpen,
    ExternalServiceFailed,
    ExternalServiceRefused,
    HoldfastError,
    InProgress,
    InternalError,
    RetryLater,
    TransactionCancelled,
)
from holdfast.flows import Next, StepContext
from holdfast.model.ulids import Ulid
from tripcortex.domain.policy_rules.approvals import APPROVE
from tripcortex.integrations.portal.ports import OFFER_EXPIRED, Offer, Portal, Traveller
from tripcortex.integrations.portal.purchases import OutcomeOpen, PurchasedOrder, book_once, settle
from tripcortex.model import patterns
from tripcortex.model.entities import AuditEvent, Booking, Failure, FlightOption
from tripcortex.settings import TripCortexSettings
from tripcortex.workers.audit_entries import build_audit_entry
from tripcortex.workers.dependencies import get_dependencies, start_stopwatch
from tripcortex.workers.steps.approval import build_refusal
from tripcortex.workers.steps.endings import (
    build_message_writes,
    fail_after_retries,
    fail_booking,
    release_active_booking,
)
from tripcortex.workers.steps.repricing import (
    compute_tolerated_price,
    continue_approved,
    get_accepted_price,
    report_gone,
)

BEGIN_STEP: Final = "BeginBooking"
COMPLETE_STEP: Final = "CompleteBooking"
PRICE_MOVED: Final = "price_moved"
PENDING: Final = "pending"
OUTCOME_OPEN: Final = "outcome_open"
OUTCOME_UNKNOWN: Final = "outcome_unknown"
SURPLUS_ORDER: Final = "surplus_order"

# After this time the employee is informed of the open outcome.
PENDING_AFTER: Final = timedelta(minutes=5)
# After this time the portal is no longer polled, and the travel desk has to check.
SET_ASIDE_AFTER: Final = timedelta(hours=24)

OUTCOME_OPEN_TEXT: Final = (
    "The travel portal was asked to book this trip but has not confirmed whether it did. We are checking: "
    "please do not book it yourself meanwhile."
)
OUTCOME_UNKNOWN_TEXT: Final = (
    "We could not find out whether the travel portal booked this trip. The travel desk has to check there: "
    "please contact it before you book the trip yourself."
)

CONDITION_FAILED: Final = "ConditionalCheckFailed"
# Crockford's Base32, as in ULIDs.
_CROCKFORD: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_RANDOM_BYTES: Final = 10


class Unresolved(HoldfastError, label="Unresolved"):
    """It is unknown whether a trip was bought, and the step is no longer retried automatically."""


async def begin_booking(context: StepContext[Booking]) -> Next:
    """Price the chosen offer again and move to `booking`; fail with the link if the fare rose too much.

    If the offer expired while an approver decided, search for the same flights in the same cabin. After an
    approval `repricing` decides how to continue.
    """
    dependencies, watch, approval = get_dependencies(context), start_stopwatch(), context.item.approval
    if approval is not None and approval.decision != APPROVE:
        return fail_booking(context, BEGIN_STEP, build_refusal(approval))
    option = get_selected_option(context.item)
    try:
        offer = await _reprice(dependencies.portal, context.item, option)
    except ExternalServiceRefused as refused:
        if approval is not None:
            return report_gone(context, option, refused)
        failure = Failure(
            code=refused.code,
            text=refused.message,
            remedy="Request the trip again: other flights may be available.",
        )
        return fail_booking(context, BEGIN_STEP, failure, with_link=True)
    entry = build_audit_entry(
        context.stores,
        context.item,
        AuditEvent.flight_search,
        BEGIN_STEP,
        inputs={"option": option.option_id, "price_usd": str(option.price_usd)},
        outputs={"price_usd": str(offer.price_usd)},
        years=dependencies.settings.audit_years,
        latency_ms=watch.ms,
    )
    if approval is not None:
        return await continue_approved(context, option, offer, (entry,))
    if offer.price_usd > _compute_max_price(context.item, dependencies.settings):
        failure = Failure(
            code=PRICE_MOVED,
            text=f"The fare rose from ${option.price_usd} to ${offer.price_usd} since it was chosen.",
            remedy="Request the trip again and choose among the current fares.",
        )
        return fail_booking(context, BEGIN_STEP, failure, with_link=True, audit=(entry,))
    agreed = option.model_copy(
        update={
            "offer_id": offer.offer_id,
            "price_usd": offer.price_usd,
            "offer_expires_at": offer.expires_at,
        }
    )
    return Next("booking", {"selected_option": agreed}, writes=(entry,))


async def _reprice(portal: Portal, booking: Booking, option: FlightOption) -> Offer:
    """Return the offer at its current price; if it has expired, the cheapest offer for the same flights.

    Raise `ExternalServiceRefused` if there is no such offer.
    """
    try:
        return await portal.price(option.offer_id)
    except ExternalServiceRefused as refused:
        if refused.code != OFFER_EXPIRED or booking.booking_plan is None:
            raise
        plan = booking.booking_plan
        same = [
            each
            for each in await portal.search(plan.parameters, plan.preferences)
            if each.cabin == option.cabin and _list_flights(each) == _list_flights(option)
        ]
        if not same:
            raise
        return min(same, key=lambda each: (each.price_usd, each.offer_id))


def _list_flights(offered: Offer | FlightOption) -> list[tuple[str, datetime]]:
    """Return flight number and departure of each segment, to compare offers."""
    return [(each.flight_number, each.departs_at) for each in (*offered.outbound, *offered.inbound)]


async def complete_booking(context: StepContext[Booking]) -> Next:
    """Buy the option, or find the order that an earlier attempt placed; fail if the portal refuses it.

    Raise `OutcomeOpen` or `InProgress` while the outcome is unknown, `Unresolved` after a day.
    """
    dependencies, watch, booking = get_dependencies(context), start_stopwatch(), context.item
    option = get_selected_option(booking)
    try:
        bought = await book_once(
            context.stores,
            dependencies.portal,
            booking.booking_id,
            booking.employee_id,
            option,
            Traveller(traveller_id=booking.employee_id),
            max_price_usd=_compute_max_price(booking, dependencies.settings),
        )
        bought = await settle(context.stores, dependencies.portal, bought)
    except ExternalServiceRefused as refused:
        failure = Failure(
            code=refused.code,
            text=refused.message,
            remedy="Request the trip again, or book it on the portal's own pages.",
        )
        return fail_booking(context, COMPLETE_STEP, failure, with_link=True)
    except (OutcomeOpen, InProgress) as error:
        await _handle_open_outcome(context, error)
        raise
    entry = build_audit_entry(
        context.stores,
        booking,
        AuditEvent.booking_completion,
        COMPLETE_STEP,
        inputs={"option": option.option_id, "reference": booking.booking_id},
        outputs={"confirmation": bought.confirmation, "price_usd": str(bought.price_usd)},
        years=dependencies.settings.audit_years,
        latency_ms=watch.ms,
    )
    return _confirm(context, bought, option, (entry, *_build_surplus_entries(context, bought)))


async def handle_incomplete_purchase(context: StepContext[Booking], error: Exception) -> Next:
    """Handle an error that a retry does not fix: fail the booking if the portal certainly bought nothing.

    Otherwise inform the employee and raise `Unresolved`, which parks the booking.
    """
    if isinstance(error, ExternalServiceFailed | CircuitOpen) and not isinstance(error, OutcomeOpen):
        return fail_after_retries(COMPLETE_STEP)(context, error)
    await _notify_once(context, OUTCOME_UNKNOWN, OUTCOME_UNKNOWN_TEXT, SET_ASIDE_AFTER)
    raise Unresolved(
        f"It is unknown whether {context.item.booking_id} was bought: check the portal under that reference. "
        "`holdfast flows resume` asks the portal again and continues with its answer."
    )


def get_selected_option(booking: Booking) -> FlightOption:
    """Return the selected option. Raise `InternalError` if there is none."""
    if booking.selected_option is None:
        raise InternalError(
            f"Booking {booking.booking_id} is in state {booking.flow_state} without a selected option."
        )
    return booking.selected_option


async def _handle_open_outcome(context: StepContext[Booking], error: Exception) -> None:
    """Inform the employee once after five minutes. Raise `Unresolved` after a day."""
    open_for = context.now - (context.item.flow_since or context.now)
    if open_for >= SET_ASIDE_AFTER:
        raise Unresolved("The outcome of the purchase has been unknown for a day.") from error
    if open_for >= PENDING_AFTER:
        await _notify_once(context, OUTCOME_OPEN, OUTCOME_OPEN_TEXT, PENDING_AFTER)


async def _notify_once(context: StepContext[Booking], code: str, text: str, after: timedelta) -> None:
    """Write an audit entry and a message once per visit of this state, in one transaction.

    The entry's id is derived from the visit and `after`, so the store accepts only one.
    """
    booking, stores = context.item, context.stores
    since = booking.flow_since or context.now
    entry = build_audit_entry(
        stores,
        booking,
        AuditEvent.error,
        COMPLETE_STEP,
        inputs={"attempt": context.attempt},
        years=get_dependencies(context).settings.audit_years,
        error_code=code,
        error_message=text,
    ).entity.model_copy(
        update={"audit_id": _build_ulid((since + after).timestamp(), booking.booking_id, code)}
    )
    message = build_message_writes(stores, booking, PENDING, {"code": code, "text": text})
    try:
        await stores.transact(patterns.append_audit(entry), *message)
    except TransactionCancelled as cancelled:
        if cancelled.reasons[0].code != CONDITION_FAILED:
            raise RetryLater("Could not write the message to the employee. Retry.") from cancelled
        # Written by an earlier attempt.


def _build_ulid(at: float, *parts: str) -> Ulid:
    """Return a ULID with the time `at` that is the same for the same parts."""
    digest = hashlib.sha256("#".join(parts).encode()).digest()[:_RANDOM_BYTES]
    number = (int(at * 1000) << 8 * _RANDOM_BYTES) | int.from_bytes(digest)
    return Ulid("".join(_CROCKFORD[(number >> shift) & 31] for shift in range(125, -1, -5)))


def _build_surplus_entries(context: StepContext[Booking], bought: PurchasedOrder) -> tuple[Write[Any], ...]:
    """Return the audit entry for orders sold in addition to the one that counts; empty if there are none."""
    if not (bought.surplus or bought.left):
        return ()
    entry = build_audit_entry(
        context.stores,
        context.item,
        AuditEvent.error,
        COMPLETE_STEP,
        inputs={"reference": context.item.booking_id},
        outputs={"kept": bought.order_id, "cancelled": bought.surplus, "not_cancelled": bought.left},
        years=get_dependencies(context).settings.audit_years,
        error_code=SURPLUS_ORDER,
        error_message=(
            "The portal sold more than one order under the reference: cancel those not yet cancelled."
        ),
    )
    return (entry,)


def _confirm(
    context: StepContext[Booking],
    bought: PurchasedOrder,
    option: FlightOption,
    entries: tuple[Write[Any], ...],
) -> Next:
    """Return the transition to `confirmed`, with the order's numbers and price and a message."""
    booking = context.item
    message = build_message_writes(
        context.stores,
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
    return Next("confirmed", changes, writes=(*entries, release_active_booking(booking), *message))


def _compute_max_price(booking: Booking, settings: TripCortexSettings) -> Decimal:
    """Return the maximum accepted price: the price that the employee accepted plus the tolerance.

    After an approval the tolerance is smaller. It is never above the policy's cap or the employee's budget,
    if the choice was within them.
    """
    option = get_selected_option(booking)
    chosen_usd = get_accepted_price(booking, option)
    if booking.approval is None:
        most = chosen_usd * (100 + settings.price_tolerance_percent) / 100
    else:
        most = compute_tolerated_price(chosen_usd, settings)
    plan = booking.booking_plan
    caps = [] if plan is None else [plan.policy_constraints.max_budget_usd, plan.preferences.budget_usd]
    return min([most, *(cap for cap in caps if cap is not None and chosen_usd <= cap)])
