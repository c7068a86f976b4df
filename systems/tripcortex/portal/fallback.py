"""The link by which an employee books alone, on the portal's own pages, when it cannot be worked for them.

It says where, when and in which cabin, and nothing of who: whoever opens it logs in there.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlencode

from holdfast.errors import SettingsError
from holdfast.web.party_addresses import party_address
from tripcortex.model import TripParameters

WEB_VARIABLE: Final = "TRIPCORTEX_PORTAL_WEB_URL"
PAGE: Final = "/flights"


def portal_web_url(environ: Mapping[str, str] | None = None) -> str:
    """Where the portal's pages are, from the environment; empty where nobody has said it."""
    address = (os.environ if environ is None else environ).get(WEB_VARIABLE, "")
    try:
        return party_address(address) if address else ""
    except ValueError as error:
        raise SettingsError(
            f"{WEB_VARIABLE} {error}: give the address of the portal's own pages, as https://travel.example.com."
        ) from None


def fallback_url(web_url: str, parameters: TripParameters) -> str:
    """The portal's search page, filled in."""
    asked = {
        "from": parameters.origin,
        "to": parameters.destination,
        "depart": parameters.departure_date.isoformat(),
        "return": parameters.return_date.isoformat() if parameters.return_date else None,
        "cabin": parameters.cabin_class.value,
    }
    return f"{web_url}{PAGE}?{urlencode({name: value for name, value in asked.items() if value is not None})}"
