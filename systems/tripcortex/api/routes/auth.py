"""Authentication of the routes by bearer token, and what the routes share."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Final

from fastapi import Depends, FastAPI

from holdfast import Stores
from holdfast.web.problems import PROBLEM_FORMAT, set_error_format
from holdfast.web.tokens import BearerToken
from tripcortex.api.identity import Authenticator, Employee
from tripcortex.api.trips import Trips
from tripcortex.settings import TripCortexSettings

BEARER: Final = BearerToken(
    "A session token from the employees' token issuer, in Clerk's format. Admins have the role org:admin."
)
BAD_REQUEST: Final = 400


class Gate:
    """The dependencies that authenticate callers, and the stores, settings and booking operations.

    One per process and component.
    """

    def __init__(self, stores: Stores, settings: TripCortexSettings) -> None:
        self.stores, self.settings = stores, settings
        self.authenticator = Authenticator(settings, stores.clock)
        self.trips = Trips(
            stores,
            request_chars_max=settings.request_chars_max,
            requests_a_minute=settings.requests_a_minute,
        )

    async def employee(self, token: Annotated[str, Depends(BEARER)]) -> Employee:
        """Return the employee of the token. Raise `TokenRefused`."""
        return await self.authenticator.authenticate(token)

    async def admin(self, token: Annotated[str, Depends(BEARER)]) -> Employee:
        """Return the employee of the token, an admin. Raise `TokenRefused` or `CallerForbidden`."""
        employee = await self.authenticator.authenticate(token)
        employee.require_admin()
        return employee


def configure_errors(app: FastAPI) -> None:
    """Answer invalid parameters with 400, and log errors without messages: they may be personal data."""
    set_error_format(app, replace(PROBLEM_FORMAT, invalid_status=BAD_REQUEST, logs_messages=False))
