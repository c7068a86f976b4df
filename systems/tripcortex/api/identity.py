"""Authentication of employees by Clerk session tokens; the caller's identity never comes from a payload.

In addition to the checks of `holdfast.web.tokens`, these are specific to Clerk: `azp`, the web origin that
requested the token, must be in TRIPCORTEX_AUTHORIZED_PARTIES if that is set; the organisation must be
TRIPCORTEX_ORGANISATION if that is set. Clerk names it in two ways: version 1 by `org_id` and `org_role`,
version 2 by `o` with `id` and `rol`. The employee is the claim `employee_id`, or `sub`.

An admin has the role `org:admin` in that organisation. Anyone can found an organisation in Clerk and be its
admin, so without the setting there are no admins. Clerk's tokens have no audience unless configured: with an
empty TRIPCORTEX_TOKEN_AUDIENCE none is required, and `azp` alone says for which service a token is meant.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

from holdfast.core.clock import Clock
from holdfast.core.errors import CallerForbidden, SettingsError, TokenRefused
from holdfast.web.tokens import LazyVerifier
from tripcortex.model import directory
from tripcortex.model.entities import EmployeeId
from tripcortex.settings import TripCortexSettings
from tripcortex.workers.booking_requests import Requester

EMPLOYEE_FORM: Final = directory.EMPLOYEE_FORM
AIRPORT_FORM: Final = re.compile(r"[A-Z]{3}")
ADMIN_ROLE: Final = "org:admin"
ROLE_PREFIX: Final = "org:"
DEFAULT_ZONE: Final = "UTC"
NO_ISSUER: Final = (
    "Token verification is not configured: set TRIPCORTEX_JWKS_URL and TRIPCORTEX_TOKEN_ISSUER to those of "
    "the issuer of employees' tokens."
)


@dataclass(frozen=True)
class Employee:
    """The authenticated caller. Time zone and home airport come from the token's public metadata."""

    employee_id: EmployeeId
    is_admin: bool = False
    time_zone: str = DEFAULT_ZONE
    home_airport: str | None = None
    # When the token expires, in epoch seconds.
    expires_at: float = field(default=float("inf"), compare=False)

    @property
    def traveller(self) -> Requester:
        """Return the employee as the traveller of a booking request."""
        return Requester(self.employee_id, self.time_zone, self.home_airport)

    def require_admin(self) -> None:
        """Raise `CallerForbidden` unless the employee is an admin."""
        if not self.is_admin:
            raise CallerForbidden([ADMIN_ROLE])


class Membership(NamedTuple):
    """An organisation and role as a token names them; None if it names none."""

    organisation: Any
    role: Any


class Authenticator:
    """Verifies employees' tokens; one per process.

    The constructor raises `SettingsError` if neither an audience nor authorized parties are configured. The
    verifier, which fetches the issuer's keys, is opened with the first token.
    """

    def __init__(self, settings: TripCortexSettings, clock: Clock) -> None:
        self._organisation = settings.organisation.strip()
        self._authorized_parties = frozenset(settings.trusted_origins)
        audience = settings.token_audience.strip() or None
        if audience is None and not self._authorized_parties:
            raise SettingsError(
                "TRIPCORTEX_TOKEN_AUDIENCE is empty, so tokens for other services would be accepted: set "
                "TRIPCORTEX_AUTHORIZED_PARTIES to the web origins that may call."
            )
        self._verifier = LazyVerifier(
            settings.jwks_url,
            issuer=settings.token_issuer,
            audience=audience,
            clock=clock,
            missing=NO_ISSUER,
        )

    async def authenticate(self, token: str) -> Employee:
        """Verify a token and return its employee.

        Raise `TokenRefused` if the token is invalid, `TokenKeysUnreachable` if the issuer's keys are not
        available, `SettingsError` if no issuer is configured.
        """
        verified = await self._verifier.verify(token)
        claims: Mapping[str, Any] = verified.claims
        membership = _read_membership(claims)
        self._check_origin(claims, membership)
        home = claims.get("public_metadata")
        home = home if isinstance(home, dict) else {}
        return Employee(
            employee_id=_read_employee_id(claims),
            is_admin=bool(self._organisation) and membership.role == ADMIN_ROLE,
            time_zone=_read_time_zone(home.get("time_zone")),
            home_airport=_read_airport(home.get("home_airport")),
            expires_at=verified.expires_at,
        )

    def _check_origin(self, claims: Mapping[str, Any], membership: Membership) -> None:
        """Raise `TokenRefused` if the token's web origin or organisation is not the configured one."""
        if self._authorized_parties and claims.get("azp") not in self._authorized_parties:
            raise TokenRefused("PartyWrong", "The token was issued to a web origin that is not trusted here.")
        if self._organisation and membership.organisation != self._organisation:
            raise TokenRefused(
                "OrganisationWrong",
                "The token is for another organisation: select the organisation of this service.",
            )


def _read_membership(claims: Mapping[str, Any]) -> Membership:
    """Read organisation and role from version 2's claim `o` if present, else from version 1's claims.

    Never combine one version's role with the other's organisation.
    """
    nested = claims.get("o")
    if nested is None:
        return Membership(claims.get("org_id"), claims.get("org_role"))
    if not isinstance(nested, dict):
        return Membership(None, None)
    role = nested.get("rol")
    role = ROLE_PREFIX + role.removeprefix(ROLE_PREFIX) if isinstance(role, str) else None
    return Membership(nested.get("id"), role)


def _read_employee_id(claims: Mapping[str, Any]) -> EmployeeId:
    """Return the claim `employee_id`, or `sub`. Raise `TokenRefused` if it is not a valid employee id."""
    claim = claims.get("employee_id") or claims["sub"]
    if not isinstance(claim, str) or not EMPLOYEE_FORM.fullmatch(claim):
        raise TokenRefused("ClaimMissing", "The token has no valid employee id (claim employee_id, or sub).")
    return EmployeeId(claim)


def _read_time_zone(claim: Any) -> str:
    """Return a valid time zone; UTC if the claim is missing or unknown."""
    try:
        return ZoneInfo(claim).key if isinstance(claim, str) and claim else DEFAULT_ZONE
    except (KeyError, ValueError, OSError):
        return DEFAULT_ZONE


def _read_airport(claim: Any) -> str | None:
    """Return the claim if it is an airport code (three capitals), else None."""
    return claim if isinstance(claim, str) and AIRPORT_FORM.fullmatch(claim) else None
