"""How much a tenant may ask in a minute: counted in the cache, for all processes together.

The window slides, so that the border of two minutes lets no double share through. A cache that is away lets all through:
a limit protects the gateway, and is no reason to turn patients' requests away.
"""

from __future__ import annotations

from typing import Final

from holdfast import Rate, Stores
from holdfast.guarantees import WindowLimit
from pagw import model
from pagw.settings import RANGES, PagwSettings

TENANT_LIMIT: Final = WindowLimit(
    model.windows,
    "RL",
    limit=RANGES["rate_limit"][1],
    rate=Rate(per="call of a client"),
    example={"tenant": "acme"},
    sliding=True,
)


# A payer's, that proved nothing yet: more than any calls back, and less than would fill the process with bodies.
CALLBACKS_MAX: Final = 3000


async def take_callback(stores: Stores, payer_id: str) -> int:
    """Counts a callback before its body is read. No tenant has a dot in its name."""
    return await TENANT_LIMIT.take(stores, limit=CALLBACKS_MAX, tenant=f"payer.{payer_id}")


async def take_one(stores: Stores, settings: PagwSettings, tenant: str) -> int:
    """Counts a call, and gives how many are left; `RateLimited`, with the time to wait, where none is."""
    return await TENANT_LIMIT.take(stores, limit=settings.limit_of(tenant), tenant=tenant)
