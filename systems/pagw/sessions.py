"""Sessions of clients' people: a token is shown once, and an id that says nothing stands for it until it ends.

A session is in the cache and nowhere else (`session:{tenant}:{id}`). To lose it is to log in again. What a client holds is
`{tenant}.{id}`: no tenant has a dot in its name, and another tenant before the id is another key.
"""

from __future__ import annotations

import re
from typing import Final

from pydantic import BaseModel, ConfigDict

from holdfast import Rate, Stores
from holdfast.errors import TokenRefused
from holdfast.guarantees import Sessions

LIFETIME_S: Final = 1800.0
LONGEST_S: Final = 12 * 3600.0
_TENANT: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,49}")


class LoggedIn(BaseModel):
    """Whose session it is: what its token said, and nothing of the token itself."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    subject: str
    client_id: str
    scopes: tuple[str, ...]
    # When its token ends, in epoch seconds: a session does not outlive it.
    ends_at: float


SESSIONS: Final = Sessions(
    "session:{tenant}:{id}",
    LoggedIn,
    "SE",
    lifetime_s=LIFETIME_S,
    longest_s=LONGEST_S,
    rate=Rate(per="call of a client"),
    example={"tenant": "acme"},
    example_value=LoggedIn(
        subject="acme-client", client_id="acme-client", scopes=("system/Claim.read",), ends_at=1770170400.0
    ),
)


async def begin(stores: Stores, tenant: str, logged_in: LoggedIn) -> str:
    return f"{tenant}.{await SESSIONS.begin(stores, logged_in, tenant=tenant)}"


async def found(stores: Stores, session: str) -> tuple[str, LoggedIn]:
    """The tenant and who it is. Raises `TokenRefused` where there is no such session: log in again."""
    tenant, id = _parts(session)
    logged_in = await SESSIONS.find(stores, id, tenant=tenant) if tenant else None
    if logged_in is not None and logged_in.ends_at <= stores.clock.now():
        await SESSIONS.end(stores, id, tenant=tenant)
        logged_in = None
    if logged_in is None:
        raise TokenRefused(
            "SessionEnded", "There is no such session: log in again with a token.", challenge="Bearer"
        )
    return tenant, logged_in


async def end(stores: Stores, session: str) -> None:
    tenant, id = _parts(session)
    if tenant:
        await SESSIONS.end(stores, id, tenant=tenant)


def _parts(session: str) -> tuple[str, str]:
    tenant, _, id = session.partition(".")
    return (tenant, id) if _TENANT.fullmatch(tenant) else ("", "")
