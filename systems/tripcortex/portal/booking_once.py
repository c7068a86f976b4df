"""A trip bought once: the intent is recorded, the portal is asked, the order is recorded, whoever dies in between.

A portal need not deduplicate. Our reference is the booking's id, and by it an attempt whose outcome nobody knows is looked up
before anything is asked again, when the portal's time to act (`Portal.act_s`) is over. A refusal is for good: the same booking is
not tried again with another card. One is not: a price that moved within what was agreed is agreed to, once.

    lost ── act_s ──> looked up ── there ──────────────────────────────────────> bought
                          └─────── not there ──> asked again ── SETTLED_S ──> looked up: the surplus is cancelled

The limit: a portal that makes a purchase later than that, and does not know our key, has sold two, and nobody is told.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final, Protocol

from pydantic import AwareDatetime, Field

from holdfast import Rate, Stores, Write
from holdfast.errors import CircuitOpen, PartyFailed, PartyRefused, error_label
from holdfast.guarantees import Once, fingerprint
from tripcortex.model import EmployeeId, PortalCall
from tripcortex.portal.client import refusal
from tripcortex.portal.ports import (
    ORDER_CANCELLED,
    PRICE_CHANGED,
    Order,
    Portal,
    Traveller,
    live_of,
)

log = logging.getLogger(__name__)

LEASE_S: Final = 60.0
# By so much a lease is longer than a portal has to act.
LEASE_BEYOND_S: Final = 30.0
# Longer than any message of a booking lives in its queue and among the dead letters.
LIFETIME_S: Final = 90 * 86_400.0
# So long after a purchase was asked for again it is looked whether the first one came through as well.
SETTLED_S: Final = 60.0

_REFERENCE: Final = "01KKBW6R000000000000000000"


class OutcomeOpen(PartyFailed, label="OutcomeOpen"):
    """Whether it was bought is open, or how often: come again after `retry_after_s`, and do not give it up before it was looked
    up. Any other `PartyFailed` of `book_once`, and `CircuitOpen`, say that nothing was bought."""

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message, may_be_done=True, retry_after_s=retry_after_s)


class Bought(Order):
    """The order that counts. `asked_again_at` is when it was bought, where an attempt before it was lost; `surplus` are further
    orders under the reference that are cancelled now, `left` those that are not."""

    asked_again_at: AwareDatetime | None = None
    surplus: list[str] = Field(default_factory=list)
    left: list[str] = Field(default_factory=list)


def _record(reference: str, employee_id: EmployeeId, offer_id: str, traveller_id: str) -> PortalCall:
    """What is bought and for whom; not the price, which the portal itself holds to what was agreed."""
    sha256 = fingerprint({"offer": offer_id, "traveller": traveller_id})
    return PortalCall(reference=reference, employee_id=employee_id, payload_sha256=sha256)


PORTAL_CALLS: Final = Once(
    PortalCall,
    "PB",
    rate=Rate(per="booking at the portal"),
    example=lambda: _record(_REFERENCE, EmployeeId("emp-42"), "OF-1", "emp-42"),
    lease_s=LEASE_S,
    lifetime_s=LIFETIME_S,
)


class Chosen(Protocol):
    """An offer of the portal, or the option that was made of it."""

    @property
    def offer_id(self) -> str: ...
    @property
    def price_usd(self) -> Decimal: ...


async def book_once(
    stores: Stores,
    portal: Portal,
    booking_id: str,
    employee_id: EmployeeId,
    offer: Chosen,
    traveller: Traveller,
    *,
    most_usd: Decimal | None = None,
    writes: Callable[[Bought], Sequence[Write[Any]]] = lambda _: (),
) -> Bought:
    """The order under the booking's id: newly bought, found at the portal, or as it was recorded before.

    `InProgress` while another works on it, `OutcomeOpen` where it may have been bought, `PartyRefused` for good. Up to
    `most_usd` a price that has moved is agreed to. `writes` are made with the record of the order, in one transaction.
    """
    record = _record(booking_id, employee_id, offer.offer_id, traveller.traveller_id)
    purchase = _Purchase(stores, portal, record, offer.offer_id, traveller, writes)
    try:
        return await purchase.made(offer.price_usd)
    except PartyRefused as refused:
        if refused.code != PRICE_CHANGED or most_usd is None:
            raise
        now_usd = (await portal.price(offer.offer_id)).price_usd
        if now_usd > most_usd:
            raise
        # This attempt did nothing, and what came before it was looked up: it may be made at the price of now.
        await PORTAL_CALLS.reopen(stores, record)
        return await purchase.made(now_usd)


async def settled(stores: Stores, portal: Portal, bought: Bought) -> Bought:
    """What was bought, once nothing is to be feared any more of an attempt before it: `OutcomeOpen` until then. Where a late one
    came through as well, the surplus is cancelled."""
    if bought.asked_again_at is None:
        return bought
    settles_at = bought.asked_again_at.timestamp() + max(SETTLED_S, portal.act_s)
    if (wait_s := settles_at - stores.clock.now()) > 0:
        raise OutcomeOpen(
            f"{bought.reference} is bought, and an attempt before may come through yet: look again in {wait_s:.1f} s.",
            retry_after_s=wait_s,
        )
    try:
        found = await portal.look_up(bought.reference)
    except (PartyFailed, PartyRefused, CircuitOpen) as error:
        # It is bought: who travels is told so, though nobody knows whether there is a second one.
        stores.count("portal_not_looked_again")
        log.warning("%s is not looked up again: %s.", bought.reference, error_label(error))
        return bought
    return await _without_surplus(stores, portal, found, bought)


class _Purchase:
    """One purchase at a portal, and what is told of its failures."""

    def __init__(
        self,
        stores: Stores,
        portal: Portal,
        record: PortalCall,
        offer_id: str,
        traveller: Traveller,
        writes: Callable[[Bought], Sequence[Write[Any]]],
    ) -> None:
        self._stores, self._portal, self._record = stores, portal, record
        self._offer_id, self._traveller, self._writes = offer_id, traveller, writes
        self._is_repeat = False

    async def made(self, price_usd: Decimal) -> Bought:
        async def act(reference: str) -> dict[str, Any]:
            order = await self._portal.book(reference, self._offer_id, self._traveller, price_usd)
            return _kept(order, self._now if self._is_repeat else None)

        try:
            done = await _calls(self._portal).outside(
                self._stores,
                self._record,
                act=act,
                look_up=self._found,
                act_s=self._portal.act_s,
                writes=lambda kept: self._writes(Bought.model_validate(kept)),
            )
        except PartyFailed as error:
            if not error.may_be_done:
                raise
            raise OutcomeOpen(error.message, retry_after_s=error.retry_after_s) from error
        return Bought.model_validate(done.result)

    async def _found(self, reference: str) -> dict[str, Any] | None:
        """What the portal has of an attempt before. While it does not say, whatever it says instead, that stays open."""
        try:
            orders = await self._portal.look_up(reference)
        except (PartyFailed, PartyRefused, CircuitOpen) as error:
            pause_s = getattr(error, "retry_after_s", None)
            text = f"Whether {reference} was bought cannot be looked up: {error.message}"
            raise PartyFailed(text, may_be_done=True, retry_after_s=pause_s) from error
        if not orders:
            self._is_repeat = True
            return None
        if not (live := live_of(orders)):
            # Somebody has ended it there: that is respected, and it is not bought anew.
            raise refusal(ORDER_CANCELLED)
        first = Bought.model_validate(_kept(live[0]))
        return _kept(await _without_surplus(self._stores, self._portal, orders, first))

    @property
    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._stores.clock.now(), UTC)


async def _without_surplus(
    stores: Stores, portal: Portal, orders: tuple[Order, ...], bought: Bought
) -> Bought:
    """Every other order under the reference is one too many. Where the one that counts is cancelled, nobody decides but a person."""
    live = live_of(orders)
    others = [each for each in orders if each.order_id != bought.order_id]
    if not others:
        return bought
    is_live = any(each.order_id == bought.order_id for each in live)
    left = [each.order_id for each in others if each in live and not (is_live and await _ended(portal, each))]
    surplus = [each.order_id for each in others if each.order_id not in left]
    stores.count("portal_surplus_orders", len(others))
    log.error(
        "Under %s were sold beside %s: %s, which are cancelled; and %s, which are not: cancel them at the portal.",
        *(bought.reference, bought.order_id, surplus or "none", left or "none"),
    )
    return bought.model_copy(update={"surplus": surplus, "left": left})


async def _ended(portal: Portal, order: Order) -> bool:
    try:
        await portal.cancel(order)
    except (PartyFailed, PartyRefused, CircuitOpen):
        return False
    return True


def _calls(portal: Portal) -> Once[PortalCall]:
    """The same records and patterns, under a lease that outlasts the portal's time to act."""
    if PORTAL_CALLS.lease_s > portal.act_s:
        return PORTAL_CALLS
    longer = copy.copy(PORTAL_CALLS)
    longer.lease_s = portal.act_s + LEASE_BEYOND_S
    return longer


def _kept(order: Order, asked_again_at: datetime | None = None) -> dict[str, Any]:
    kept = order.model_dump(mode="json")
    return kept if asked_again_at is None else kept | {"asked_again_at": asked_again_at.isoformat()}
