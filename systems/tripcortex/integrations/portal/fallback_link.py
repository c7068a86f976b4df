"""The link with which an employee books on the portal's own pages (TC-66).

It is offered when we cannot use the portal. It contains the places, the dates and the cabin, and no personal
data: the employee logs in there.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlencode

from tripcortex.model.entities import TripParameters

PAGE: Final = "/flights"


def build_fallback_url(web_url: str, parameters: TripParameters) -> str:
    """Return the portal's search page with the trip filled in.

    `web_url` is its web address (TRIPCORTEX_PORTAL_WEB_URL).
    """
    fields = {
        "from": parameters.origin,
        "to": parameters.destination,
        "depart": parameters.departure_date.isoformat(),
        "return": parameters.return_date.isoformat() if parameters.return_date else None,
        "cabin": parameters.cabin_class.value,
    }
    query = urlencode({name: value for name, value in fields.items() if value is not None})
    return f"{web_url.rstrip('/')}{PAGE}?{query}"
