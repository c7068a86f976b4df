"""The link by which an employee books alone: the trip and nothing of the traveller."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from holdfast.web import serving
from tests.unit.tripcortex.portal.portal_play import TO_CHICAGO, make_sandbox
from tripcortex.portal.fallback import fallback_url
from tripcortex.sandbox.portal import portal_app


@pytest.mark.proves("TC-66")
def test_the_link_has_the_trip_and_nothing_else() -> None:
    link = fallback_url("https://travel.example.com", TO_CHICAGO)
    parts = urlsplit(link)
    assert (parts.scheme, parts.netloc, parts.path) == ("https", "travel.example.com", "/flights")
    assert parse_qs(parts.query) == {
        "from": ["HYD"],
        "to": ["ORD"],
        "depart": ["2026-03-17"],
        "return": ["2026-03-19"],
        "cabin": ["economy"],
    }
    one_way = fallback_url(
        "https://travel.example.com/eu", TO_CHICAGO.model_copy(update={"return_date": None})
    )
    assert one_way == (
        "https://travel.example.com/eu/flights?from=HYD&to=ORD&depart=2026-03-17&cabin=economy"
    )


@pytest.mark.proves("TC-66")
def test_the_link_opens_also_while_the_portals_api_is_down() -> None:
    with serving(portal_app(make_sandbox(is_down=True))) as url:
        page = httpx2.get(fallback_url(url, TO_CHICAGO))
    assert page.status_code == 200
    assert "<dd>ORD</dd>" in page.text
