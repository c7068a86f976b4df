"""The link by which an employee books alone, on the portal's own pages, when it cannot be worked for them (TC-66).

It says where, when and in which cabin, and nothing of who: whoever opens it logs in there.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlencode

from tripcortex.model import TripParameters

PAGE: Final = "/flights"


def fallback_url(web_url: str, parameters: TripParameters) -> str:
    """The portal's search page, filled in. `web_url` is where its pages are (TRIPCORTEX_PORTAL_WEB_URL)."""
    asked = {
        "from": parameters.origin,
        "to": parameters.destination,
        "depart": parameters.departure_date.isoformat(),
        "return": parameters.return_date.isoformat() if parameters.return_date else None,
        "cabin": parameters.cabin_class.value,
    }
    told = urlencode({name: value for name, value in asked.items() if value is not None})
    return f"{web_url.rstrip('/')}{PAGE}?{told}"
