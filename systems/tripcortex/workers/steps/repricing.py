"""The price of an approved flight: bought within the tolerance, otherwise back to people.

An approval may take days, so its flight is priced and judged again. More approval than was given is asked for
first; above the tolerance the traveller accepts the new price; if the flights are sold out, the traveller may
search again.

    BeginBooking ─ within the tolerance ─▶ booking
        ├─ needs more approval ─▶ approving ─▶ BeginBooking
        └─ dearer, or sold out ─▶ repriced ── accept ──▶ BeginBooking
                                     └─────── search ──▶ ExecuteSearch
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from holdfast import Write
from holdfast.core.errors import ExternalServiceRefused, InternalError, InvalidRequest
from holdfast.flows import Next, StepContext
from tripcortex.domain.policy_rules.approvals import covers
from tripcortex.domain.policy_rules.booking_checks import rank_by_rules
from tripcortex.domain.policy_rules.option_ranking import Ranking
from tripcortex.domain.policy_rules.travel_policy import Reason
from tripcortex.integrations.portal.ports import Offer
from tripcortex.model.entities import Approval, AuditEvent, Booking, Failure, FlightOption, Repricing
from tripcortex.policies.rule_loader import load_rules_for_judgement
from tripcortex.settings import TripCortexSettings
from tripcortex.workers.audit_entries import build_audit_entry
from tripcortex.workers.dependencies import find_employee_level, get_dependencies
from tripcortex.workers.steps.approval import get_approval, request_approval
from tripcortex.workers.steps.endings import (
    OUT_OF_POLICY,
    build_message_writes,
    end_cancelled,
    fail_booking,
)
from tripcortex.workers.steps.local_date import get_local_date
from tripcortex.workers.steps.validation import get_plan

STEP: Final = "Repricing"
REPRICED: Final = "repriced"
# Kinds of messages to the traveller.
PRICE_CHANGED: Final = "price_changed"
OFFER_GONE: Final = "offer_gone"
REPRICING_EXPIRED: Final = "repricing_expired"
# The time that a traveller has to accept a new price. It is priced again when they do.
REPRICING_S: Final = 86_400.0
# Breaches whose extent is the price: an approval of one price is none of a higher one.
PRICE_REASONS: Final = frozenset({Reason.fare_above_cap.value})


async def continue_approved(
    context: StepContext[Booking],
    option: FlightOption,
    offer: Offer,
    writes: Sequence[Write[Any]],
) -> Next:
    """Return the transition of an approved booking whose offer was priced again."""
    booking, settings = context.item, get_dependencies(context).settings
    approval = get_approval(booking)
    accepted_usd = get_accepted_price(booking, option)
    current = option.model_copy(
        update={
            "offer_id": offer.offer_id,
            "price_usd": offer.price_usd,
            "offer_expires_at": offer.expires_at,
        }
    )
    ranking = await _judge_again(context, current)
    if not ranking.options:
        return _refuse(context, ranking, writes)
    current = current.model_copy(update={"breaches": ranking.options[0].breaches})
    if _needs_approval_again(approval, option, current, settings):
        return await request_approval(
            context, current, current.breaches, writes, accepted_usd=accepted_usd, repricing=None
        )
    if offer.price_usd > compute_tolerated_price(accepted_usd, settings):
        return _ask_traveller(context, accepted_usd, offer.price_usd, writes, selected_option=current)
    return Next("booking", {"selected_option": current}, writes=writes)


def report_gone(context: StepContext[Booking], option: FlightOption, refused: ExternalServiceRefused) -> Next:
    """Return the transition of an approved booking whose flights the portal no longer sells."""
    entry = build_audit_entry(
        context.stores,
        context.item,
        AuditEvent.flight_search,
        STEP,
        inputs={"option": option.option_id, "price_usd": str(option.price_usd)},
        outputs={"gone": refused.code},
        years=get_dependencies(context).settings.audit_years,
    )
    return _ask_traveller(context, get_accepted_price(context.item, option), None, (entry,))


def accept_price(context: StepContext[Booking], payload: Mapping[str, Any]) -> Next:
    """Accept the new price: the offer is priced again, and bought within the tolerance of this price.

    Raise `InvalidRequest` if the flights are sold out.
    """
    booking = context.item
    repricing, approval = _get_repricing(booking), get_approval(booking)
    if repricing.price_usd is None:
        raise InvalidRequest("These flights are sold out: search again, or cancel.")
    approval = approval.model_copy(update={"accepted_usd": repricing.price_usd})
    entry = _build_answer_entry(context, {"accepted_usd": str(repricing.price_usd)})
    return Next("user_selected", {"approval": approval, "repricing": None}, writes=(entry,))


def search_again(context: StepContext[Booking], payload: Mapping[str, Any]) -> Next:
    """Search the same trip again instead; what was approved no longer counts."""
    entry = _build_answer_entry(context, {"searches_again": True})
    changes: dict[str, Any] = {
        "approval": None,
        "repricing": None,
        "selected_option": None,
        "flight_options": [],
    }
    return Next("validated", changes, writes=(entry,))


def expire_repricing(context: StepContext[Booking]) -> Next:
    """Cancel the booking because the traveller did not answer."""
    text = "You did not accept the new price in time, so nothing was bought. Request the trip again."
    return end_cancelled(context, STEP, REPRICING_EXPIRED, text)


def get_accepted_price(booking: Booking, option: FlightOption) -> Decimal:
    """Return the price that the traveller accepted last: the chosen one, or a new one after an approval."""
    if booking.approval is not None and booking.approval.accepted_usd is not None:
        return booking.approval.accepted_usd
    shown = (each.price_usd for each in booking.flight_options if each.option_id == option.option_id)
    return next(shown, option.price_usd)


def compute_tolerated_price(price_usd: Decimal, settings: TripCortexSettings) -> Decimal:
    """Return the highest price that is bought without asking: the smaller of both tolerances counts."""
    percent = price_usd * settings.approval_tolerance_percent / 100
    return price_usd + min(percent, Decimal(settings.approval_tolerance_usd))


def _needs_approval_again(
    approval: Approval, option: FlightOption, current: FlightOption, settings: TripCortexSettings
) -> bool:
    """Return whether the current price needs more approval than was given."""
    if not covers(approval, current.breaches):
        return True
    approved_usd = option.price_usd if approval.price_usd is None else approval.price_usd
    is_dearer = current.price_usd > compute_tolerated_price(approved_usd, settings)
    return is_dearer and any(each.code in PRICE_REASONS for each in current.breaches)


async def _judge_again(context: StepContext[Booking], option: FlightOption) -> Ranking:
    """Judge the flight at its current price, as of the day of the request: waiting is not lateness."""
    booking = context.item
    return rank_by_rules(
        [option],
        get_plan(booking),
        await load_rules_for_judgement(context.stores),
        1,
        today=get_local_date(booking, booking.created_at),
        employee_level=await find_employee_level(context),
    )


def _refuse(context: StepContext[Booking], ranking: Ranking, writes: Sequence[Write[Any]]) -> Next:
    """Fail the booking: at its current price the policy forbids the flight."""
    failure = ranking.failure or Failure(
        code=OUT_OF_POLICY,
        text="At its current price the policy does not allow this flight.",
        remedy="Request the trip again and choose among the current fares.",
    )
    return fail_booking(context, STEP, failure, with_link=True, audit=writes)


def _ask_traveller(
    context: StepContext[Booking],
    accepted_usd: Decimal,
    price_usd: Decimal | None,
    writes: Sequence[Write[Any]],
    **changes: Any,
) -> Next:
    """Return the transition to the wait for the traveller, with a message that says what happened."""
    repricing = Repricing(accepted_usd=accepted_usd, price_usd=price_usd)
    if price_usd is None:
        kind = OFFER_GONE
        text = "The flights that were approved are sold out. Search again, or cancel."
    else:
        kind = PRICE_CHANGED
        text = (
            f"While the approval was decided, the fare rose from ${accepted_usd} to ${price_usd}. Accept it, "
            "search again, or cancel."
        )
    body = {
        "text": text,
        "acceptedUsd": str(accepted_usd),
        "priceUsd": None if price_usd is None else str(price_usd),
    }
    message = build_message_writes(context.stores, context.item, kind, body)
    return Next(REPRICED, {"repricing": repricing, **changes}, writes=(*writes, *message))


def _build_answer_entry(context: StepContext[Booking], outputs: Mapping[str, Any]) -> Write[Any]:
    """Return the audit entry of the traveller's answer."""
    repricing = _get_repricing(context.item)
    return build_audit_entry(
        context.stores,
        context.item,
        AuditEvent.user_selection,
        STEP,
        inputs={"accepted_usd": str(repricing.accepted_usd), "price_usd": str(repricing.price_usd)},
        outputs=outputs,
    )


def _get_repricing(booking: Booking) -> Repricing:
    """Return the booking's new price. Raise `InternalError` if it has none."""
    if booking.repricing is None:
        raise InternalError(f"Booking {booking.booking_id} is in {booking.flow_state} without a new price.")
    return booking.repricing
