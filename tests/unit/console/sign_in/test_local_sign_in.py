"""Signing in with a password: who is let in, what a refusal tells, and how often one may try."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.console.model import MAX_ATTEMPTS_PER_ADDRESS, MAX_ATTEMPTS_PER_NAME
from holdfast.console.sign_in import routes
from holdfast.console.sign_in.passwords import hash_password
from holdfast.console.sign_in.routes import clean_target
from holdfast.console.sign_in.user_file import UserFile
from tests.unit.console.consoles import PASSWORD, ConsoleUnderTest, open_console

WRONG = "this is not the password"


async def test_a_user_with_the_right_password_is_let_in(site: ConsoleUnderTest) -> None:
    browser = await site.open_browser()
    response = await browser.sign_in("ada")

    assert response.headers["location"] == "/"
    assert "signed in as <strong>ada</strong>" in await browser.read("/account")
    assert await site.list_actions() == [("ada", "sign-in")]


async def test_the_name_may_be_typed_in_capitals_and_with_blanks(site: ConsoleUnderTest) -> None:
    browser = await site.open_browser()
    await browser.sign_in(" Ada ")

    assert await browser.is_signed_in()


async def test_a_refusal_says_the_same_for_unknown_users(site: ConsoleUnderTest) -> None:
    browser = await site.open_browser()
    known = await browser.sign_in("ada", WRONG, 403)
    unknown = await browser.sign_in("eve", WRONG, 403)

    assert "The name or the password is wrong" in known.text
    assert known.text == unknown.text.replace('value="eve"', 'value="ada"')
    assert not await browser.is_signed_in()


async def test_a_refused_attempt_is_audited_without_what_was_typed(site: ConsoleUnderTest) -> None:
    browser = await site.open_browser("192.0.2.7")
    await browser.sign_in("ada", WRONG, 403)
    await browser.sign_in(PASSWORD, WRONG, 403)

    known, unknown = await site.read_audit()
    assert (known.user, known.action) == ("ada", "sign-in refused")
    assert known.parsed_payload == {"reason": "password", "address": "192.0.2.7"}
    assert (unknown.user, unknown.action) == ("(not signed in)", "sign-in refused")
    assert PASSWORD not in unknown.model_dump_json() and WRONG not in known.model_dump_json()


async def test_a_refusal_writes_as_much_for_an_unknown_user(
    site: ConsoleUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser, written = await site.open_browser(), []
    run = site.own.tables.run

    async def count(operation: Any) -> Any:
        written.append(type(operation).__name__)
        return await run(operation)

    monkeypatch.setattr(site.own.tables, "run", count)
    await browser.sign_in("ada", WRONG, 403)
    known = written.copy()
    written.clear()
    await browser.sign_in("eve", WRONG, 403)

    assert known.count("PutItem") == 2
    assert written == known


async def test_attempts_for_a_name_are_limited_from_every_address(site: ConsoleUnderTest) -> None:
    for number in range(MAX_ATTEMPTS_PER_NAME):
        await (await site.open_browser(f"192.0.2.{number}")).sign_in("ada", WRONG, 403)
    browser = await site.open_browser("198.51.100.1")
    refused = await browser.sign_in("ada", status=429)

    assert "Too many attempts" in refused.text
    assert int(refused.headers["retry-after"]) > 0
    await browser.sign_in("otto")


async def test_an_unknown_name_is_limited_like_a_known_one(site: ConsoleUnderTest) -> None:
    browser = await site.open_browser()
    for _ in range(MAX_ATTEMPTS_PER_NAME):
        await browser.sign_in("eve", WRONG, 403)

    await browser.sign_in("eve", WRONG, 429)


async def test_attempts_from_an_address_are_limited_for_all_names(
    site: ConsoleUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(hash: str | None, password: str) -> bool:
        return False

    monkeypatch.setattr(routes, "verify_password", refuse)
    browser = await site.open_browser("192.0.2.1")
    for number in range(MAX_ATTEMPTS_PER_ADDRESS):
        await browser.sign_in(f"eve{number}", WRONG, 403)

    await browser.sign_in("ada", status=429)
    await (await site.open_browser("192.0.2.2")).sign_in("ada", WRONG, 403)


async def test_the_limit_ends_with_its_window(site: ConsoleUnderTest) -> None:
    browser = await site.open_browser()
    for _ in range(MAX_ATTEMPTS_PER_NAME):
        await browser.sign_in("ada", WRONG, 403)
    await browser.sign_in("ada", status=429)
    site.clock.moment += 901

    await browser.sign_in("ada")


async def test_a_limit_is_audited_once_and_does_not_fill_the_audit(site: ConsoleUnderTest) -> None:
    browser = await site.open_browser()
    for _ in range(MAX_ATTEMPTS_PER_NAME):
        await browser.sign_in("eve", WRONG, 403)
    for _ in range(5):
        await browser.sign_in("eve", WRONG, 429)

    reasons = [each.parsed_payload["reason"] for each in await site.read_audit()]
    assert reasons == ["password"] * MAX_ATTEMPTS_PER_NAME + ["too many attempts"]


async def test_new_roles_count_with_the_next_request(site: ConsoleUnderTest) -> None:
    browser = await site.sign_in("otto")
    await browser.get("/admin/users", 403)
    write_users_keeping_passwords(site.users, {"otto": ["admin"]})

    await browser.get("/admin/users")


async def test_another_password_ends_the_sign_ins_that_the_old_one_began(site: ConsoleUnderTest) -> None:
    browser, other = await site.sign_in("ada"), await site.sign_in("otto")
    users = {"ada": ["viewer"], "otto": ["operator"]}
    write_users_keeping_passwords(site.users, users, changed="ada")

    assert not await browser.is_signed_in()
    assert await other.is_signed_in()


async def test_a_removed_user_is_signed_out(site: ConsoleUnderTest) -> None:
    browser = await site.sign_in("ada")
    write_users_keeping_passwords(site.users, {"otto": ["operator"]})

    assert not await browser.is_signed_in()


def write_users_keeping_passwords(path: Path, users: dict[str, list[str]], changed: str = "") -> None:
    """Change roles, remove users, and set another password of one."""
    with UserFile(path).edit() as found:
        for name in list(found):
            if name not in users:
                del found[name]
            else:
                hash = hash_password(PASSWORD) if name == changed else found[name].password
                found[name] = replace(found[name], roles=frozenset(users[name]), password=hash)


async def test_nobody_is_let_in_while_the_file_is_not_valid(
    site: ConsoleUnderTest, caplog: pytest.LogCaptureFixture
) -> None:
    browser = await site.sign_in("ada")
    site.users.chmod(0o644)

    page = await browser.read("/account", 503)
    await (await site.open_browser()).sign_in("ada", status=503)

    assert "cannot be read at the moment" in page and str(site.users) not in page
    assert "chmod 600" in caplog.text
    os.chmod(site.users, 0o600)
    assert await browser.is_signed_in()


async def test_a_console_with_users_has_no_demo_sign_in(site: ConsoleUnderTest) -> None:
    browser = await site.open_browser()
    await browser.post("/sign-in/demo", 404)

    assert "/sign-in/demo" not in await browser.read("/sign-in")


async def test_a_demo_has_no_password(demo: ConsoleUnderTest) -> None:
    browser = await demo.open_browser()
    await browser.sign_in("ada", status=404)
    await browser.get("/sign-in/oidc", 404)
    await browser.get("/sign-in/oidc/callback?code=x&state=y", 404)

    assert "/sign-in/password" not in await browser.read("/sign-in")


async def test_a_demo_session_ends_when_users_are_configured(tmp_path: Path) -> None:
    """The session stays in a shared cache, and its user does not exist any more."""
    async with open_console(tmp_path) as demo, open_console(tmp_path, users={"ada": ["admin"]}) as site:
        browser = await demo.open_browser()
        await browser.post("/sign-in/demo")
        assert await browser.is_signed_in()
        demo.app.state.console.__dict__["accounts"] = site.console.accounts

        assert not await browser.is_signed_in()


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("/work?system=pagw&after=x%2Fy", "/work?system=pagw&after=x%2Fy"),
        ("/", "/"),
        ("", "/"),
        ("work", "/"),
        ("//evil.example", "/"),
        ("///evil.example", "/"),
        ("/\\evil.example", "/"),
        ("\\\\evil.example", "/"),
        ("/\t/evil.example", "/"),
        ("/\n/evil.example", "/"),
        (" //evil.example", "/"),
        ("https://evil.example", "/"),
        ("HTTPS:evil.example", "/"),
        ("javascript:alert(1)", "/"),
        ("//[", "/"),
        ("/sign-in?next=/work", "/"),
        ("/live?topic=x", "/"),
    ],
)
async def test_continues_at_an_own_page_only(site: ConsoleUnderTest, target: str, expected: str) -> None:
    assert clean_target(target) == expected
    browser = await site.open_browser()
    response = await browser.client.post(
        "/sign-in/password", data={"name": "ada", "password": PASSWORD, "next": target}
    )

    assert response.headers["location"] == expected
    # A user who is signed in is sent on by the page too.
    sent_on = await browser.client.get("/sign-in", params={"next": target})
    assert sent_on.headers["location"] == expected
