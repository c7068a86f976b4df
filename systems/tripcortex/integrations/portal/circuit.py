"""The portal's circuit breaker, which all processes share, and the portal behind it.

It is the library's `Breaker` on the design document's table: D13 reads the circuit before a call, and D14
changes it. Consecutive failures open it; a success clears them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, TypeVar

from holdfast import Rate, Stores
from holdfast.core.errors import DeclarationError, ExternalServiceFailed
from holdfast.guarantees import Breaker
from tripcortex.integrations.portal.ports import Cancellation, Offer, Order, Portal, Traveller
from tripcortex.model.entities import Circuit, Preferences, TripParameters

R = TypeVar("R")

PORTAL_CIRCUIT: Final = "travel-portal-booking"


def build_breaker(*, failures: int = 5, recovery_s: float = 60.0, lease_s: float = 30.0) -> Breaker[Circuit]:
    """Build the portal's breaker. A refusal by the portal shows that it responds: only its failures count."""
    return Breaker(
        Circuit,
        prefix=("D13", "D14"),
        rate=Rate("call of the portal"),
        counted_errors=(ExternalServiceFailed,),
        failures=failures,
        window_s=None,
        recovery_s=recovery_s,
        lease_s=lease_s,
        closed_cache_s=0.0,
    )


BREAKER: Final = build_breaker()


@dataclass(frozen=True)
class GuardedPortal:
    """A `Portal` behind its circuit: the circuit admits or refuses each call and records its outcome.

    Raise `DeclarationError` if a probe's lease is shorter than the portal's time to complete a purchase.
    """

    stores: Stores
    portal: Portal
    breaker: Breaker[Circuit]

    def __post_init__(self) -> None:
        lease_s = self.breaker.limits.lease_s
        if lease_s < self.portal.act_s:
            raise DeclarationError(
                f"A purchase at this portal may take {self.portal.act_s:g} s, and a probe of its circuit "
                f"{lease_s:g} s: another caller would probe meanwhile. Increase lease_s of build_breaker()."
            )

    @property
    def act_s(self) -> float:
        return self.portal.act_s

    async def search(self, parameters: TripParameters, preferences: Preferences) -> tuple[Offer, ...]:
        return await self._call(lambda: self.portal.search(parameters, preferences))

    async def price(self, offer_id: str) -> Offer:
        return await self._call(lambda: self.portal.price(offer_id))

    async def book(self, reference: str, offer_id: str, traveller: Traveller, price_usd: Decimal) -> Order:
        return await self._call(lambda: self.portal.book(reference, offer_id, traveller, price_usd))

    async def look_up(self, reference: str) -> tuple[Order, ...]:
        return await self._call(lambda: self.portal.look_up(reference))

    async def cancel(self, order: Order) -> Cancellation:
        return await self._call(lambda: self.portal.cancel(order))

    async def _call(self, function: Callable[[], Awaitable[R]]) -> R:
        return await self.breaker.call(self.stores, PORTAL_CIRCUIT, function)
