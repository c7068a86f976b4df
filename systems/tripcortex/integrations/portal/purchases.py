"""Buys a trip at the portal exactly once, even if a process dies between the call and its record.

A portal need not deduplicate. Our reference is the booking's id. An attempt with an unknown outcome is looked
up by it before the purchase is sent again, after the portal's time to act (`Portal.act_s`). A refusal is
permanent: the booking is not retried with another card. The exception is a price that moved within the agreed
maximum: it is accepted once.

    lost ── act_s ──> looked up ── found ─────────────────────────────────────> bought
                          └─────── not found ──> sent again ── SETTLED_S ──> looked up: surplus is cancelled

The limit: a portal that completes a purchase later than that, and ignores our key, sells two without notice.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Final, Protocol

from pydantic import AwareDatetime, Field

from holdfast import Rate, Stores, Write
from holdfast.core.errors import CircuitOpen, ExternalServiceFailed, ExternalServiceRefused, error_label
from holdfast.guarantees import Once, fingerprint
from tripcortex.integrations.portal.client import build_refusal
from tripcortex.integrations.portal.ports import (
    ORDER_CANCELLED,
    PRICE_CHANGED,
    Order,
    Portal,
    Traveller,
    select_live,
)
from tripcortex.model.entities import EmployeeId, PortalCall

log = logging.getLogger(__name__)

LEASE_S: Final = 60.0
# The lease exceeds the portal's time to act by this much.
LEASE_BEYOND_S: Final = 30.0
# Longer than a booking's message stays in its queue and dead-letter queue.
RETENTION_S: Final = 90 * 86_400.0
# The wait after a repeated purchase before looking up whether the first one succeeded too.
SETTLED_S: Final = 60.0

_REFERENCE: Final = "01KKBW6R000000000000000000"


class OutcomeOpen(ExternalServiceFailed, label="OutcomeOpen"):
    """It is unknown whether, or how often, the trip was bought.

    Retry after `retry_after_s`, and do not give up before it was looked up. Any other `ExternalServiceFailed`
    of `book_once`, and `CircuitOpen`, mean that nothing was bought.
    """

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message, may_be_done=True, retry_after_s=retry_after_s)


class PurchasedOrder(Order):
    """The order that counts.

    `asked_again_at` is the time of the purchase if an earlier attempt was lost. `surplus` are further orders
    under the reference that are now cancelled, `left` those that are not.
    """

    asked_again_at: AwareDatetime | None = None
    surplus: list[str] = Field(default_factory=list)
    left: list[str] = Field(default_factory=list)


def _build_record(reference: str, employee_id: EmployeeId, offer_id: str, traveller_id: str) -> PortalCall:
    """Build the idempotency record of a purchase: which offer for which traveller.

    The price is left out: the portal enforces the agreed one.
    """
    sha256 = fingerprint({"offer": offer_id, "traveller": traveller_id})
    return PortalCall(reference=reference, employee_id=employee_id, payload_sha256=sha256)


PORTAL_CALLS: Final = Once(
    PortalCall,
    prefix="PB",
    rate=Rate(per="booking at the portal"),
    example=lambda: _build_record(_REFERENCE, EmployeeId("emp-42"), "OF-1", "emp-42"),
    lease_s=LEASE_S,
    retention_s=RETENTION_S,
)


class PricedOffer(Protocol):
    """An offer of the portal, or the option that was built from it."""

    @property
    def offer_id(self) -> str: ...
    @property
    def price_usd(self) -> Decimal: ...


async def book_once(
    stores: Stores,
    portal: Portal,
    booking_id: str,
    employee_id: EmployeeId,
    offer: PricedOffer,
    traveller: Traveller,
    *,
    max_price_usd: Decimal | None = None,
    writes: Callable[[PurchasedOrder], Sequence[Write[Any]]] = lambda _: (),
) -> PurchasedOrder:
    """Return the order under the booking's id: newly bought, found at the portal, or recorded earlier.

    Raise `InProgress` while another worker buys it, `OutcomeOpen` if it may have been bought,
    `ExternalServiceRefused` for a permanent refusal. A price that moved is accepted up to `max_price_usd`.
    `writes` are committed in one transaction with the record of the order.
    """
    record = _build_record(booking_id, employee_id, offer.offer_id, traveller.traveller_id)
    purchase = _Purchase(stores, portal, record, offer.offer_id, traveller, writes)
    try:
        return await purchase.buy(offer.price_usd)
    except ExternalServiceRefused as refused:
        if refused.code != PRICE_CHANGED or max_price_usd is None:
            raise
        now_usd = (await portal.price(offer.offer_id)).price_usd
        if now_usd > max_price_usd:
            raise
        # This attempt bought nothing, and earlier ones were looked up: buying at the current price is safe.
        await PORTAL_CALLS.reopen(stores, record)
        return await purchase.buy(now_usd)


async def settle(stores: Stores, portal: Portal, bought: PurchasedOrder) -> PurchasedOrder:
    """Return the order when no earlier attempt can succeed any more; raise `OutcomeOpen` until then.

    If a late attempt succeeded as well, its order is cancelled.
    """
    if bought.asked_again_at is None:
        return bought
    settled_s, asked_at = max(SETTLED_S, portal.act_s), bought.asked_again_at.timestamp()
    key, version = ("settled", bought.reference), asked_at
    if (wait_s := stores.deadlines.compute_left_s(key, version, asked_at + settled_s, settled_s)) > 0:
        raise OutcomeOpen(
            f"{bought.reference} is bought, but an earlier attempt may still succeed. Retry in {wait_s:.1f} "
            "s.",
            retry_after_s=wait_s,
        )
    try:
        found = await portal.look_up(bought.reference)
    except (ExternalServiceFailed, ExternalServiceRefused, CircuitOpen) as error:
        # It is bought: report that to the traveller, although a second order may exist.
        stores.count("portal_not_looked_again")
        log.warning("Could not look up surplus orders of %s: %s.", bought.reference, error_label(error))
        return bought
    return await _cancel_surplus(stores, portal, found, bought)


class _Purchase:
    """One purchase at a portal, and the conversion of its failures."""

    def __init__(
        self,
        stores: Stores,
        portal: Portal,
        record: PortalCall,
        offer_id: str,
        traveller: Traveller,
        writes: Callable[[PurchasedOrder], Sequence[Write[Any]]],
    ) -> None:
        self._stores, self._portal, self._record = stores, portal, record
        self._offer_id, self._traveller, self._writes = offer_id, traveller, writes
        self._is_repeat = False

    async def buy(self, price_usd: Decimal) -> PurchasedOrder:
        """Buy at this price, or return the order that is already recorded or found at the portal.

        Raise `OutcomeOpen` if it may have been bought.
        """

        async def act(reference: str) -> dict[str, Any]:
            order = await self._portal.book(reference, self._offer_id, self._traveller, price_usd)
            return _to_record(order, self._now if self._is_repeat else None)

        try:
            done = await _get_portal_calls(self._portal).call_external(
                self._stores,
                self._record,
                act=act,
                look_up=self._look_up,
                act_s=self._portal.act_s,
                writes=lambda kept: self._writes(PurchasedOrder.model_validate(kept)),
            )
        except ExternalServiceFailed as error:
            if not error.may_be_done:
                raise
            raise OutcomeOpen(error.message, retry_after_s=error.retry_after_s) from error
        return PurchasedOrder.model_validate(done.result)

    async def _look_up(self, reference: str) -> dict[str, Any] | None:
        """Return the order of an earlier attempt, or None if there is none; cancel surplus orders.

        Any failure of the look-up leaves the outcome open. Raise a refusal if the order was cancelled at the
        portal.
        """
        try:
            orders = await self._portal.look_up(reference)
        except (ExternalServiceFailed, ExternalServiceRefused, CircuitOpen) as error:
            pause_s = getattr(error, "retry_after_s", None)
            text = f"Could not look up whether {reference} was bought: {error.message}"
            raise ExternalServiceFailed(text, may_be_done=True, retry_after_s=pause_s) from error
        if not orders:
            self._is_repeat = True
            return None
        if not (live := select_live(orders)):
            # It was cancelled at the portal on purpose, so it is not bought again.
            raise build_refusal(ORDER_CANCELLED)
        first = PurchasedOrder.model_validate(_to_record(live[0]))
        return _to_record(await _cancel_surplus(self._stores, self._portal, orders, first))

    @property
    def _now(self) -> datetime:
        return self._stores.now()


async def _cancel_surplus(
    stores: Stores, portal: Portal, orders: tuple[Order, ...], bought: PurchasedOrder
) -> PurchasedOrder:
    """Cancel every other order under the reference; return the order with what was and was not cancelled.

    If the order that counts is itself cancelled, cancel none and leave the decision to a person.
    """
    live = select_live(orders)
    others = [each for each in orders if each.order_id != bought.order_id]
    if not others:
        return bought
    is_live = any(each.order_id == bought.order_id for each in live)
    left = [
        each.order_id for each in others if each in live and not (is_live and await _try_cancel(portal, each))
    ]
    surplus = [each.order_id for each in others if each.order_id not in left]
    stores.count("portal_surplus_orders", len(others))
    log.error(
        "Booking %s, order %s: further orders were sold. Cancelled: %s. Not cancelled: %s (cancel at the "
        "portal).",
        *(bought.reference, bought.order_id, surplus or "none", left or "none"),
    )
    return bought.model_copy(update={"surplus": surplus, "left": left})


async def _try_cancel(portal: Portal, order: Order) -> bool:
    """Cancel the order, and return False if the portal did not."""
    try:
        await portal.cancel(order)
    except (ExternalServiceFailed, ExternalServiceRefused, CircuitOpen):
        return False
    return True


def _get_portal_calls(portal: Portal) -> Once[PortalCall]:
    """Return the same records and patterns with a lease that outlasts the portal's time to act."""
    if PORTAL_CALLS.lease_s > portal.act_s + PORTAL_CALLS.clock_margin_s:
        return PORTAL_CALLS
    longer = copy.copy(PORTAL_CALLS)
    longer.lease_s = portal.act_s + LEASE_BEYOND_S
    return longer


def _to_record(order: Order, asked_again_at: datetime | None = None) -> dict[str, Any]:
    """Return the order as JSON for the record, with the time of a repeated purchase."""
    kept = order.model_dump(mode="json")
    return kept if asked_again_at is None else kept | {"asked_again_at": asked_again_at.isoformat()}
