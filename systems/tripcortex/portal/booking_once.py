"""A trip bought once: the intent is recorded, the portal is asked, the order is recorded, whoever dies in between.

The portal deduplicates nothing. Our reference is the booking's id, and by it an attempt whose outcome nobody knows is looked
up before anything is asked again. A refusal is for good: the same booking is not tried again with another card.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final, Protocol

from holdfast import Rate, Stores, Write
from holdfast.guarantees import Once, fingerprint
from tripcortex.model import EmployeeId, PortalCall
from tripcortex.portal.client import refusal
from tripcortex.portal.ports import ORDER_CANCELLED, Order, OrderStatus, Portal, Traveller

LEASE_S: Final = 60.0
# How long the portal has to act. Its client gives up before that (`client.ANSWER_S`), and the lease ends after it.
ACT_S: Final = 20.0
# Longer than any message of a booking lives in its queue and among the dead letters.
LIFETIME_S: Final = 90 * 86_400.0

_REFERENCE: Final = "01KKBW6R000000000000000000"


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
    act_s: float = ACT_S,
    writes: Callable[[Order], Sequence[Write[Any]]] = lambda _: (),
) -> Order:
    """The order under the booking's id: newly bought, found at the portal, or as it was recorded before.

    `InProgress` while another works on it; `PartyFailed` where it is open whether it was bought: come again after
    `retry_after_s`, and do not give the booking up before it was looked up. `PartyRefused` is for good. `writes` are
    made with the record of the order, in one transaction.
    """

    async def act(reference: str) -> dict[str, Any]:
        return _kept(await portal.book(reference, offer.offer_id, traveller, offer.price_usd))

    async def look_up(reference: str) -> dict[str, Any] | None:
        found = await portal.look_up(reference)
        if found is not None and found.status is OrderStatus.cancelled:
            # Somebody has ended it there: that is respected, and it is not bought anew.
            raise refusal(ORDER_CANCELLED)
        return None if found is None else _kept(found)

    done = await PORTAL_CALLS.outside(
        stores,
        _record(booking_id, employee_id, offer.offer_id, traveller.traveller_id),
        act=act,
        look_up=look_up,
        act_s=act_s,
        writes=lambda kept: writes(Order.model_validate(kept)),
    )
    return Order.model_validate(done.result)


def _kept(order: Order) -> dict[str, Any]:
    return order.model_dump(mode="json")
