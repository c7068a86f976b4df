"""The headers that protect pages are on every response, whatever answers; pages have nothing inline."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from fastapi import APIRouter

from holdfast import System, Table
from holdfast.console import PageLink, SystemPages
from holdfast.console.assets import ASSETS_VERSION
from holdfast.model.components import Component
from tests.unit.console.consoles import ConsoleUnderTest, open_console

INLINE = re.compile(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=|javascript:", re.IGNORECASE)
router = APIRouter()


@router.get("/broken")
async def fail() -> None:
    raise RuntimeError("the reason, with the password of ada")


@pytest.fixture
async def console(tmp_path: Path) -> AsyncIterator[ConsoleUnderTest]:
    pages = SystemPages(router, tmp_path, (PageLink("Broken", "/broken"),))
    system = System(
        "harbour",
        "Harbour",
        tables=(Table("ConsoleHarbour", partition="id"),),
        components=(Component("console", "Serves the pages"),),
        pages=lambda stores: pages,
    )
    async with open_console(tmp_path, system, users={"ada": ["admin"]}) as opened:
        yield opened


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/sign-in", 200),
        ("GET", "/", 200),
        ("GET", "/account", 200),
        ("POST", "/sign-out", 403),
        ("GET", "/nothing", 404),
        ("DELETE", "/account", 405),
        ("GET", "/admin/audit?day=x", 400),
        ("GET", "/apps/harbour/broken", 500),
        ("GET", "/health/live", 200),
        ("GET", "/metrics", 200),
        ("GET", f"/assets/{ASSETS_VERSION}/console.css", 200),
        ("GET", f"/assets/{ASSETS_VERSION}/nothing.css", 404),
        ("GET", "/assets/old/console.css", 404),
    ],
)
async def test_every_response_has_the_headers(
    console: ConsoleUnderTest, method: str, path: str, status: int
) -> None:
    browser = await console.sign_in("ada") if path != "/sign-in" else await console.open_browser()
    response = await browser.client.request(method, path)
    found = response.headers

    assert response.status_code == status
    policy = dict(each.partition(" ")[::2] for each in found["content-security-policy"].split("; "))
    assert policy["default-src"] == policy["base-uri"] == policy["frame-ancestors"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["form-action"] == "'self'"
    assert "unsafe" not in found["content-security-policy"]
    assert found["x-frame-options"] == "DENY"
    assert found["x-content-type-options"] == "nosniff"
    assert found["referrer-policy"] == "same-origin"
    is_asset = path.endswith(".css") and status == 200
    assert found["cache-control"] == ("public, max-age=31536000, immutable" if is_asset else "no-store")
    assert len(found.get_list("content-security-policy")) == len(found.get_list("cache-control")) == 1


async def test_a_body_that_is_too_large_is_refused_with_the_headers(console: ConsoleUnderTest) -> None:
    browser = await console.open_browser()
    response = await browser.client.post("/sign-in/password", content=b"x" * (1024 * 1024 + 1))

    assert response.status_code == 413
    assert "content-security-policy" in response.headers


async def test_an_unexpected_failure_shows_its_correlation_id_and_no_reason(
    console: ConsoleUnderTest, caplog: pytest.LogCaptureFixture
) -> None:
    browser = await console.sign_in("ada")
    page = await browser.read("/apps/harbour/broken", 500)

    assert "the password of ada" not in page
    assert "the password of ada" in caplog.text
    assert re.search(r"under the correlation id [\w-]{8,}", page)
    assert 'href="/account"' in page  # the navigation of the user


async def test_an_unknown_page_keeps_the_navigation(console: ConsoleUnderTest) -> None:
    assert 'href="/account"' in await (await console.sign_in("ada")).read("/nothing", 404)


@pytest.mark.parametrize("path", ["/sign-in", "/", "/account", "/admin/users", "/admin/audit", "/nothing"])
async def test_pages_contain_nothing_inline_that_the_policy_would_forbid(
    console: ConsoleUnderTest, path: str
) -> None:
    browser = await console.sign_in("ada") if path != "/sign-in" else await console.open_browser()
    page = (await browser.client.get(path)).text

    assert INLINE.findall(page) == []
    assert not re.search(r'(src|href|action)="(https?:)?//', page)
