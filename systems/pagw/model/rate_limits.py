"""Rate limits of tenants and payers per minute, counted in the cache for all processes together.

The window slides, so that a burst across two minutes cannot double the limit. If the cache is down, all calls
pass: the limit protects the gateway and must not block patients' requests.
"""

from __future__ import annotations

from typing import Final

from holdfast import Rate, Stores
from holdfast.guarantees import WindowLimit
from pagw.model import entities
from pagw.settings import RANGES, PagwSettings

TENANT_LIMIT: Final = WindowLimit(
    entities.windows,
    prefix="RL",
    limit=RANGES["rate_limit"][1],
    rate=Rate(per="call of a client"),
    example={"tenant": "acme"},
    sliding=True,
)


# Per payer, before its signature is checked: above any payer's rate, and low enough to bound memory for
# bodies.
MAX_CALLBACKS: Final = 3000


async def count_callback(stores: Stores, payer_id: str) -> int:
    """Count a payer's callback before its body is read, and return how many are left in the window. Raise
    `RateLimited` if none is.

    Tenant names have no dot, so the names do not collide.
    """
    return await TENANT_LIMIT.take(stores, limit=MAX_CALLBACKS, tenant=f"payer.{payer_id}")


async def count_payer_call(stores: Stores, payer_id: str, limit: int) -> int:
    """Count a request to a payer and return how many are left in this minute. Raise `RateLimited`, with the
    time to wait, if none is.
    """
    return await TENANT_LIMIT.take(stores, limit=limit, tenant=f"to.{payer_id}")


async def count_call(stores: Stores, settings: PagwSettings, tenant: str) -> int:
    """Count a client's call and return how many are left. Raise `RateLimited`, with the time to wait, if none
    is.
    """
    return await TENANT_LIMIT.take(stores, limit=settings.get_tenant_limit(tenant), tenant=tenant)
