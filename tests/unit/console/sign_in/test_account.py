"""The account page: who the user is, in words, and their last sign-ins."""

from __future__ import annotations

from tests.unit.console.consoles import ConsoleUnderTest


async def test_says_the_roles_in_words(site: ConsoleUnderTest) -> None:
    page = await (await site.sign_in("pia")).read("/account")

    assert "with a password of this console" in page
    assert "sees everything, with personal data masked" in page and "(pagw)" in page
    assert "/admin/users" not in page


async def test_a_demo_says_so(demo: ConsoleUnderTest) -> None:
    browser = await demo.open_browser()
    await browser.post("/sign-in/demo")

    assert "with one click, because this console has no users" in await browser.read("/account")


async def test_lists_sign_ins_newest_first_with_what_became_of_them(site: ConsoleUnderTest) -> None:
    first = await site.sign_in("ada")
    await first.post("/sign-out")
    site.clock.moment += 60
    await site.sign_in("ada")
    site.clock.moment += 60
    stranger = await site.open_browser("192.0.2.66")
    await stranger.sign_in("ada", "not the password", 403)
    site.clock.moment += 60
    page = await (await site.sign_in("ada")).read("/account")

    states = ("this browser", "refused", "may be open", "over")
    places = [page.index(f">{state}<") for state in states]
    assert places == sorted(places)
    assert "192.0.2.66" in page and "wrong password" in page


async def test_shows_neither_the_password_nor_another_user(site: ConsoleUnderTest) -> None:
    await site.sign_in("otto")
    page = await (await site.sign_in("ada")).read("/account")

    assert "argon2" not in page and "otto" not in page


async def test_after_sign_out_everywhere_the_earlier_ones_are_over(site: ConsoleUnderTest) -> None:
    await site.sign_in("ada")
    site.clock.moment += 60
    await (await site.sign_in("ada")).post("/account/sign-out-everywhere")
    site.clock.moment += 60
    page = await (await site.sign_in("ada")).read("/account")

    assert page.count(">over<") == 2 and "may be open" not in page
