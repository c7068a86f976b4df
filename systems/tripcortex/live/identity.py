"""Who calls: an employee, by a session token of Clerk's shape. Nothing that a client sends in a payload says who it is.

Beside what every token is checked for (`holdfast.web.tokens`), these are Clerk's: `azp`, the page in whose name a browser
asked, is one of TRIPCORTEX_AUTHORIZED_PARTIES where that is set; the organisation is TRIPCORTEX_ORGANISATION where that is set.
Clerk says it in two ways: in version 1 by `org_id` and `org_role`, in version 2 by `o` with `id` and `rol`. The employee is the
claim `employee_id`, or `sub`. An admin has the role `org:admin` in that very organisation: in Clerk anybody may found one and be
its admin, so that without the setting nobody is. Clerk's tokens have no audience unless it is told to give them one: with an
empty TRIPCORTEX_TOKEN_AUDIENCE none is asked for, and then it is `azp` alone that says whom a token is for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

from holdfast.clock import Clock
from holdfast.errors import CallerForbidden, SettingsError, TokenRefused
from holdfast.web.tokens import token_verifier
from tripcortex.model import EmployeeId
from tripcortex.requesting import Traveller
from tripcortex.settings import TripCortexSettings

# It becomes part of keys, and so has no character that means something there.
EMPLOYEE_FORM: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@:-]{0,127}")
AIRPORT_FORM: Final = re.compile(r"[A-Z]{3}")
ADMIN_ROLE: Final = "org:admin"
ROLE_PREFIX: Final = "org:"
DEFAULT_ZONE: Final = "UTC"


@dataclass(frozen=True)
class Employee:
    """Who calls. Where they are at home is public metadata of theirs, and no secret."""

    employee_id: EmployeeId
    is_admin: bool = False
    time_zone: str = DEFAULT_ZONE
    home_airport: str | None = None
    # When the token ends, in epoch seconds.
    expires_at: float = field(default=float("inf"), compare=False)

    @property
    def traveller(self) -> Traveller:
        return Traveller(self.employee_id, self.time_zone, self.home_airport)

    def need_admin(self) -> None:
        if not self.is_admin:
            raise CallerForbidden([ADMIN_ROLE])


class Membership(NamedTuple):
    """Of an organisation, as a token says it; None where it says nothing."""

    organisation: Any
    role: Any


class Identities:
    """One per process. It is made without a look at the issuer: that may come up later."""

    def __init__(self, settings: TripCortexSettings, clock: Clock) -> None:
        self._organisation = settings.organisation.strip()
        listed = settings.authorized_parties.split(",")
        self._parties = frozenset(each.strip() for each in listed if each.strip())
        self._audience = settings.token_audience.strip() or None
        if self._audience is None and not self._parties:
            raise SettingsError(
                "Nothing would say whom a token is for: with an empty TRIPCORTEX_TOKEN_AUDIENCE, set "
                "TRIPCORTEX_AUTHORIZED_PARTIES to the pages that may ask."
            )
        self._settings, self._clock = settings, clock
        self._verifier: Any = None

    async def employee(self, token: str) -> Employee:
        """Raises `TokenRefused`, or `TokenKeysUnreachable` where nobody can tell."""
        self._verifier = self._verifier or self._made_verifier()
        verified = await self._verifier.verify(token)
        claims: Mapping[str, Any] = verified.claims
        membership = _membership(claims)
        self._check_place(claims, membership)
        home = claims.get("public_metadata")
        home = home if isinstance(home, dict) else {}
        return Employee(
            employee_id=_employee_id(claims),
            is_admin=bool(self._organisation) and membership.role == ADMIN_ROLE,
            time_zone=_zone(home.get("time_zone")),
            home_airport=_airport(home.get("home_airport")),
            expires_at=verified.expires_at,
        )

    def _check_place(self, claims: Mapping[str, Any], membership: Membership) -> None:
        if self._parties and claims.get("azp") not in self._parties:
            raise TokenRefused(
                "PartyWrong", "The token was asked for by another page than those trusted here."
            )
        if self._organisation and membership.organisation != self._organisation:
            raise TokenRefused(
                "OrganisationWrong",
                "The token is of another organisation: choose the one that is served here.",
            )

    def _made_verifier(self) -> Any:
        settings = self._settings
        if not (settings.jwks_url and settings.token_issuer):
            raise SettingsError(
                "Nobody can prove who calls: set TRIPCORTEX_JWKS_URL and TRIPCORTEX_TOKEN_ISSUER to those of the issuer "
                "of employees' tokens."
            )
        keys = settings.jwks_url if "://" in settings.jwks_url else Path(settings.jwks_url)
        return token_verifier(keys, issuer=settings.token_issuer, audience=self._audience, clock=self._clock)


def _membership(claims: Mapping[str, Any]) -> Membership:
    """All of it in one way or in the other: a role of the one is none in the organisation of the other."""
    nested = claims.get("o")
    if nested is None:
        return Membership(claims.get("org_id"), claims.get("org_role"))
    if not isinstance(nested, dict):
        return Membership(None, None)
    role = nested.get("rol")
    role = ROLE_PREFIX + role.removeprefix(ROLE_PREFIX) if isinstance(role, str) else None
    return Membership(nested.get("id"), role)


def _employee_id(claims: Mapping[str, Any]) -> EmployeeId:
    told = claims.get("employee_id") or claims["sub"]
    if not isinstance(told, str) or not EMPLOYEE_FORM.fullmatch(told):
        raise TokenRefused("ClaimMissing", "The token does not say whose it is (claim employee_id, or sub).")
    return EmployeeId(told)


def _zone(told: Any) -> str:
    """One that nobody knows counts as none: a date is then meant as in UTC."""
    try:
        return ZoneInfo(told).key if isinstance(told, str) and told else DEFAULT_ZONE
    except (KeyError, ValueError, OSError):
        return DEFAULT_ZONE


def _airport(told: Any) -> str | None:
    return told if isinstance(told, str) and AIRPORT_FORM.fullmatch(told) else None
