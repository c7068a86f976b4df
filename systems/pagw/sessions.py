"""Sessions of clients' people: a token is shown once, and an id that says nothing stands for it until it ends.

A session is in the cache and nowhere else (`session:{tenant}:{id}`). To lose it is to log in again. What a client holds is
`{tenant}.{id}`: no tenant has a dot in its name, and another tenant before the id is another key.
"""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, ConfigDict

from holdfast import Rate, Stores
from holdfast.errors import TokenRefused
from holdfast.guarantees import Sessions
from holdfast.web.tokens import TENANT_FORM, Caller

LIFETIME_S: Final = 1800.0
LONGEST_S: Final = 12 * 3600.0


class LoggedIn(BaseModel):
    """Whose session it is: what its token said, and nothing of the token itself."""

    model_config = ConfigDict(frozen=True)

    subject: str
    client_id: str
    scopes: tuple[str, ...]


SESSIONS: Final = Sessions(
    "session:{tenant}:{id}",
    LoggedIn,
    "SE",
    lifetime_s=LIFETIME_S,
    longest_s=LONGEST_S,
    rate=Rate(per="call of a client"),
    example={"tenant": "acme"},
    example_value=LoggedIn(subject="acme-client", client_id="acme-client", scopes=("system/Claim.read",)),
)


async def begin(stores: Stores, caller: Caller) -> str:
    logged_in = LoggedIn(
        subject=caller.subject, client_id=caller.client_id, scopes=tuple(sorted(caller.scopes))
    )
    return f"{caller.tenant}.{await SESSIONS.begin(stores, logged_in, tenant=caller.tenant)}"


async def caller_of(stores: Stores, session: str) -> Caller:
    """Raises `TokenRefused` where there is no such session: log in again."""
    tenant, id = _parts(session)
    found = await SESSIONS.find(stores, id, tenant=tenant) if tenant else None
    if found is None:
        raise TokenRefused(
            "SessionEnded", "There is no such session: log in again with a token.", challenge="Bearer"
        )
    return Caller(tenant, found.subject, frozenset(found.scopes), found.client_id)


async def end(stores: Stores, session: str) -> None:
    tenant, id = _parts(session)
    if tenant:
        await SESSIONS.end(stores, id, tenant=tenant)


def _parts(session: str) -> tuple[str, str]:
    tenant, _, id = session.partition(".")
    return (tenant, id) if TENANT_FORM.fullmatch(tenant) else ("", "")
