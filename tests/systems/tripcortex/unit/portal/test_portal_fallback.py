"""Tests of the link with which employees book on their own: it has the trip and no personal data."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from holdfast.web import serve_in_thread
from holdfast_demo.tripcortex.sandbox.portal import build_portal_app
from tests.systems.tripcortex.unit.portal.portal_bench import TO_CHICAGO, make_sandbox
from tripcortex.integrations.portal.fallback_link import build_fallback_url


@pytest.mark.proves("TC-66")
def test_link_contains_the_trip_only() -> None:
    link = build_fallback_url("https://travel.example.com", TO_CHICAGO)
    parts = urlsplit(link)
    assert (parts.scheme, parts.netloc, parts.path) == ("https", "travel.example.com", "/flights")
    assert parse_qs(parts.query) == {
        "from": ["HYD"],
        "to": ["ORD"],
        "depart": ["2026-03-17"],
        "return": ["2026-03-19"],
        "cabin": ["economy"],
    }
    one_way = build_fallback_url(
        "https://travel.example.com/eu", TO_CHICAGO.model_copy(update={"return_date": None})
    )
    assert one_way == (
        "https://travel.example.com/eu/flights?from=HYD&to=ORD&depart=2026-03-17&cabin=economy"
    )


@pytest.mark.proves("TC-66")
def test_link_works_while_the_portals_api_is_down() -> None:
    with serve_in_thread(build_portal_app(make_sandbox(is_down=True))) as url:
        page = httpx2.get(build_fallback_url(url, TO_CHICAGO))
    assert page.status_code == 200
    assert "<dd>ORD</dd>" in page.text
