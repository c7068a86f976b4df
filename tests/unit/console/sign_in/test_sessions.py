"""Sessions: their cookie, their end, and that no one can choose or keep one."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.console.access import COOKIE, SECURE_COOKIE
from holdfast.console.model import MAX_SESSION_LIFETIME_S, SESSION_LIFETIME_S
from tests.unit.console.consoles import ConsoleUnderTest, open_console


async def test_the_cookie_cannot_be_read_by_scripts_nor_sent_by_other_sites(site: ConsoleUnderTest) -> None:
    response = await (await site.open_browser()).sign_in("ada")
    [cookie] = [each for each in response.headers.get_list("set-cookie") if each.startswith(COOKIE + "=")]

    assert "HttpOnly" in cookie and "SameSite=lax" in cookie and "Path=/" in cookie
    assert "Domain" not in cookie


async def test_over_tls_every_cookie_is_secure_and_the_session_is_bound_to_the_host(tmp_path: Path) -> None:
    url = "https://console.example.org"
    async with open_console(tmp_path, users={"ada": ["admin"]}, console_url=url) as site:
        browser = await site.open_browser()
        response = await browser.sign_in("ada")
        assert await browser.is_signed_in()
        cookies = response.headers.get_list("set-cookie")
        signed_out = await browser.post("/sign-out")
        cookies += signed_out.headers.get_list("set-cookie")

        assert any(each.startswith(f"{SECURE_COOKIE}=") for each in cookies)
        assert all("secure" in each.lower() for each in cookies)
        assert "strict-transport-security" in response.headers


async def test_over_tls_a_cookie_that_another_site_could_set_is_ignored(tmp_path: Path) -> None:
    async with open_console(
        tmp_path, users={"ada": ["admin"]}, console_url="https://console.example.org"
    ) as site:
        browser = await site.sign_in("ada")
        id = browser.client.cookies[SECURE_COOKIE]
        other = await site.open_browser()
        other.client.cookies.set(COOKIE, id)

        assert not await other.is_signed_in()


async def test_a_sign_in_has_a_new_session_and_ends_the_one_before(site: ConsoleUnderTest) -> None:
    """Somebody who planted a session in the browser does not share the one of its user."""
    browser, attacker = await site.open_browser(), await site.sign_in("otto")
    planted = attacker.client.cookies[COOKIE]
    browser.client.cookies.set(COOKIE, planted, domain="127.0.0.1", path="/")
    await browser.sign_in("ada")

    assert browser.client.cookies[COOKIE] != planted
    assert not await attacker.is_signed_in()


@pytest.mark.parametrize("id", ["", "x", "x" * 43, "é" * 43, "../" * 20])
async def test_an_invented_id_is_no_session(site: ConsoleUnderTest, id: str) -> None:
    browser = await site.open_browser()
    response = await browser.client.get("/account", headers={b"cookie": f"{COOKIE}={id}".encode()})

    assert response.status_code == 303


async def test_a_session_ends_without_use(site: ConsoleUnderTest) -> None:
    browser = await site.sign_in("ada")
    site.clock.moment += SESSION_LIFETIME_S - 1
    assert await browser.is_signed_in()
    site.clock.moment += SESSION_LIFETIME_S + 1

    assert not await browser.is_signed_in()


async def test_a_page_that_refreshes_itself_does_not_keep_its_user_signed_in(site: ConsoleUnderTest) -> None:
    browser = await site.sign_in("ada")
    for _ in range(3):
        site.clock.moment += SESSION_LIFETIME_S / 4
        await browser.get("/account", headers={"HX-Request": "true"})
    site.clock.moment += SESSION_LIFETIME_S / 4 + 1

    response = await browser.get("/account", 401, headers={"HX-Request": "true"})
    assert response.headers["hx-redirect"] == "/sign-in?next=/account"


async def test_a_session_in_use_ends_after_its_longest_time(site: ConsoleUnderTest) -> None:
    browser = await site.sign_in("ada")
    for _ in range(int(MAX_SESSION_LIFETIME_S / SESSION_LIFETIME_S * 2) - 1):
        site.clock.moment += SESSION_LIFETIME_S / 2
        assert await browser.is_signed_in()
    site.clock.moment += SESSION_LIFETIME_S / 2 + 1

    assert not await browser.is_signed_in()


async def test_sign_out_ends_this_session_only(site: ConsoleUnderTest) -> None:
    browser, other = await site.sign_in("ada"), await site.sign_in("ada")
    id = browser.client.cookies[COOKIE]
    response = await browser.post("/sign-out")

    assert response.headers["location"] == "/sign-in"
    assert COOKIE not in browser.client.cookies
    browser.client.cookies.set(COOKIE, id)
    assert not await browser.is_signed_in()
    assert await other.is_signed_in()
    assert (await site.list_actions())[-1] == ("ada", "sign-out")


async def test_sign_out_everywhere_ends_every_session_of_the_user_only(site: ConsoleUnderTest) -> None:
    browser, other, otto = await site.sign_in("ada"), await site.sign_in("ada"), await site.sign_in("otto")
    await browser.post("/account/sign-out-everywhere")

    assert not await browser.is_signed_in() and not await other.is_signed_in()
    assert await otto.is_signed_in()
    site.clock.moment += 1
    await browser.sign_in("ada")
    assert await browser.is_signed_in()


async def test_a_request_without_a_session_is_led_back_after_the_sign_in(site: ConsoleUnderTest) -> None:
    response = await (await site.open_browser()).get("/admin/audit?day=2026-02-04&user=otto", 303)

    assert response.headers["location"] == "/sign-in?next=/admin/audit%3Fday%3D2026-02-04%26user%3Dotto"


@pytest.mark.parametrize("token", [None, "", "x", "\ud800"])
async def test_a_change_needs_the_token_of_its_session(site: ConsoleUnderTest, token: str | None) -> None:
    browser = await site.sign_in("ada")
    body = "" if token is None else "csrf=" + ("%ED%A0%80" if token == "\ud800" else token)
    response = await browser.client.post(
        "/sign-out", content=body, headers={"content-type": "application/x-www-form-urlencoded"}
    )

    assert response.status_code == 403
    assert "belongs to another sign-in" in response.text
    assert await browser.is_signed_in()


async def test_the_token_of_another_session_is_refused_and_that_is_audited(site: ConsoleUnderTest) -> None:
    ada, otto = await site.sign_in("ada"), await site.sign_in("otto")
    page = (await otto.client.get("/account")).text
    token = page.split('name="csrf" value="')[1].split('"')[0]
    response = await ada.client.post("/sign-out", data={"csrf": token})

    assert response.status_code == 403
    refused = (await site.read_audit())[-1]
    assert (refused.user, refused.action, refused.target) == ("ada", "refused", "POST /sign-out")
    assert refused.parsed_payload == {"reason": "csrf"}


async def test_the_token_may_come_in_a_header(site: ConsoleUnderTest) -> None:
    browser = await site.sign_in("ada")
    token = (await browser.client.get("/account")).text.split('name="csrf" value="')[1].split('"')[0]
    response = await browser.client.post("/sign-out", headers={"X-CSRF-Token": token})

    assert response.status_code == 303
