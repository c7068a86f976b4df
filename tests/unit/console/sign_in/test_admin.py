"""The pages of administrators: users and their sign-ins, and the audit."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.console.audit_trail import audit
from holdfast.console.users import User
from tests.unit.console.consoles import ConsoleUnderTest, open_console


async def test_lists_every_user_of_the_file_with_roles_and_the_last_sign_in(site: ConsoleUnderTest) -> None:
    await site.sign_in("otto")
    page = await (await site.sign_in("ada")).read("/admin/users")

    assert all(name in page for name in ("ada", "otto", "pia", "pagw:viewer"))
    assert page.count(">never<") == 1
    assert "argon2" not in page


async def test_a_removed_user_is_listed_as_removed(site: ConsoleUnderTest) -> None:
    await site.sign_in("otto")
    with_ada = await site.sign_in("ada")
    from holdfast.console.sign_in.user_file import UserFile

    with UserFile(site.users).edit() as users:
        del users["otto"]
    page = await with_ada.read("/admin/users")

    assert ">removed<" in page


async def test_ends_the_sign_ins_of_another_user(site: ConsoleUnderTest) -> None:
    otto, ada = await site.sign_in("otto"), await site.sign_in("ada")
    await ada.post("/admin/users/end", account="local:otto")

    assert not await otto.is_signed_in()
    assert await ada.is_signed_in()
    last = (await site.read_audit())[-1]
    assert (last.user, last.action, last.target) == ("ada", "end sign-ins", "otto")


async def test_an_unknown_account_is_not_found(site: ConsoleUnderTest) -> None:
    ada = await site.sign_in("ada")
    response = await ada.post("/admin/users/end", 404, account="local:nobody")

    assert "No such user has signed in" in response.text


@pytest.mark.parametrize("path", ["/admin/users", "/admin/audit"])
async def test_only_administrators_see_the_pages_and_a_refusal_is_audited(
    site: ConsoleUnderTest, path: str
) -> None:
    otto = await site.sign_in("otto")
    page = await otto.read(path, 403)

    assert "This needs the role admin, which otto does not have" in page
    last = (await site.read_audit())[-1]
    assert (last.user, last.action, last.target) == ("otto", "refused", f"GET {path}")
    assert last.parsed_payload == {"reason": "role admin"}


async def test_an_administrator_of_one_system_is_none_of_the_console(tmp_path: Path) -> None:
    async with open_console(tmp_path, users={"pia": ["pagw:admin"]}) as site:
        await (await site.sign_in("pia")).get("/admin/audit", 403)


async def test_shows_the_audit_of_a_day_newest_first(site: ConsoleUnderTest) -> None:
    await site.sign_in("otto")
    ada = await site.sign_in("ada")
    page = await ada.read("/admin/audit")

    assert page.index(">ada</td>") < page.index(">otto</td>")
    assert "Nothing on this day" in await ada.read("/admin/audit?day=2020-01-01")


async def test_filters_by_user_and_action(site: ConsoleUnderTest) -> None:
    await site.sign_in("otto")
    ada = await site.sign_in("ada")
    await ada.get("/admin/users")
    await audit(site.console, User("otto"), "redrive", system="pagw", target="queue q")

    of_otto = await ada.read("/admin/audit?user=otto")
    redrives = await ada.read("/admin/audit?user=otto&action=redrive")
    assert of_otto.count("</tr>") == 3 and ">ada</td>" not in of_otto
    assert redrives.count("</tr>") == 2 and "queue q" in redrives


async def test_a_long_day_has_pages(site: ConsoleUnderTest) -> None:
    ada = await site.sign_in("ada")
    for number in range(60):
        await audit(site.console, User("otto"), "redrive", target=f"queue {number:02}")
    page = await ada.read("/admin/audit")
    older = page.split('href="')[-1].split('"')[0]
    second = await ada.read(older)

    assert "queue 59" in page and "queue 09" not in page
    assert "queue 09" in second and "queue 59" not in second


async def test_an_invalid_day_says_what_is_expected(site: ConsoleUnderTest) -> None:
    ada = await site.sign_in("ada")

    assert "expected a date such as 2026-02-04" in await ada.read("/admin/audit?day=yesterday", 400)


async def test_text_of_an_audit_entry_is_escaped(site: ConsoleUnderTest) -> None:
    ada = await site.sign_in("ada")
    await audit(site.console, User("otto"), "redrive", target="<script>alert(1)</script>")

    assert "<script>alert(1)" not in (await ada.get("/admin/audit")).text


async def test_a_demo_lists_its_one_user(demo: ConsoleUnderTest) -> None:
    browser = await demo.open_browser()
    await browser.post("/sign-in/demo")
    page = await browser.read("/admin/users")

    assert "one click signs in" in page and page.count('<th scope="row">') == 1
