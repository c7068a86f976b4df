"""Sessions of a client's users: an opaque id replaces the token until the session ends.

A session exists only in the cache (`session:{tenant}:{id}`). If it is lost, the user logs in again. The
client holds `{tenant}.{id}`: tenant names have no dot, and the id under another tenant is another key.
"""

from __future__ import annotations

import re
from typing import Final

from pydantic import BaseModel, ConfigDict

from holdfast import Rate, Stores
from holdfast.core.errors import TokenRefused
from holdfast.guarantees import Sessions

LIFETIME_S: Final = 1800.0
MAX_LIFETIME_S: Final = 12 * 3600.0
_TENANT: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,49}")


class SessionIdentity(BaseModel):
    """The user of a session: the claims of the token, without the token itself."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    subject: str
    client_id: str
    scopes: tuple[str, ...]
    # Expiry of the token in epoch seconds. The session ends with it.
    ends_at: float


SESSIONS: Final = Sessions(
    "session:{tenant}:{id}",
    SessionIdentity,
    prefix="SE",
    lifetime_s=LIFETIME_S,
    max_lifetime_s=MAX_LIFETIME_S,
    rate=Rate(per="call of a client"),
    example={"tenant": "acme"},
    example_value=SessionIdentity(
        subject="acme-client", client_id="acme-client", scopes=("system/Claim.read",), ends_at=1770170400.0
    ),
)


async def begin(stores: Stores, tenant: str, logged_in: SessionIdentity) -> str:
    """Start a session of this user and return its id, `{tenant}.{id}`."""
    return f"{tenant}.{await SESSIONS.begin(stores, logged_in, tenant=tenant)}"


async def find(stores: Stores, session: str) -> tuple[str, SessionIdentity]:
    """Return the session's tenant and user. Raise `TokenRefused` for an unknown or expired session."""
    tenant, id = _split(session)
    logged_in = await SESSIONS.find(stores, id, tenant=tenant) if tenant else None
    if logged_in is not None and logged_in.ends_at <= stores.clock.now():
        await SESSIONS.end(stores, id, tenant=tenant)
        logged_in = None
    if logged_in is None:
        raise TokenRefused(
            "SessionEnded", "Unknown or expired session. Log in again with a token.", challenge="Bearer"
        )
    return tenant, logged_in


async def end(stores: Stores, session: str) -> None:
    """End a session. An unknown one is ignored."""
    tenant, id = _split(session)
    if tenant:
        await SESSIONS.end(stores, id, tenant=tenant)


def _split(session: str) -> tuple[str, str]:
    """Return tenant and id, or two empty strings if the tenant is invalid."""
    tenant, _, id = session.partition(".")
    return (tenant, id) if _TENANT.fullmatch(tenant) else ("", "")
