"""Signing in, in a browser: a demo, users with passwords, what they are refused, and how a sign-in ends."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.console.conftest import NewVisitor
from tests.console.site import ConsoleSite, serve_site
from tests.console.visitor import Visitor
from tests.unit.console.consoles import PASSWORD, write_users

USERS = {"ada": ["admin", "operator", "pagw:personal"], "otto": ["viewer"]}


@pytest.fixture(scope="module")
def users_site(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleSite]:
    """Serve a console with users and without systems."""
    folder = tmp_path_factory.mktemp("users")
    write_users(folder / "users.toml", USERS)
    with serve_site(folder, (), console_users=str(folder / "users.toml")) as served:
        yield served


def sign_in(visitor: Visitor, name: str, password: str = PASSWORD) -> None:
    visitor.page.get_by_label("User name").fill(name)
    visitor.page.get_by_label("Password").fill(password)
    visitor.page.get_by_role("button", name="Sign in").click()


def test_demo_signs_in_with_one_click_and_out_again(site: ConsoleSite, new_visitor: NewVisitor) -> None:
    visitor = new_visitor(site)
    visitor.visit("/sign-in")
    visitor.check("sign-in-demo")
    visitor.sign_in_to_demo()
    visitor.page.get_by_role("button", name="Sign out").click()
    visitor.page.get_by_text("You are signed out.").wait_for()
    visitor.visit("/")

    assert visitor.page.url == f"{site.url}/sign-in"


def test_a_page_that_is_left_does_not_follow_its_topics_again(
    site: ConsoleSite, new_visitor: NewVisitor
) -> None:
    """The end of its sign-in would reload it, and the message of the next page would be lost."""
    visitor = new_visitor(site)
    visitor.sign_in_to_demo()
    visitor.wait_until_live()
    is_following = visitor.page.evaluate(
        """() => {
            document.querySelector("form[action='/sign-out']").requestSubmit();
            dispatchEvent(new PageTransitionEvent("pageshow"));
            document.dispatchEvent(new Event("visibilitychange"));
            return stream !== null;
        }"""
    )
    visitor.page.get_by_text("You are signed out.").wait_for()

    assert not is_following


def test_a_wrong_password_is_refused_and_the_right_one_leads_to_the_page(
    users_site: ConsoleSite, new_visitor: NewVisitor
) -> None:
    visitor = new_visitor(users_site)
    visitor.visit("/account")
    visitor.expect(403)
    sign_in(visitor, "ada", "not the password")
    visitor.page.get_by_role("alert").get_by_text("The name or the password is wrong").wait_for()
    assert visitor.page.evaluate("document.activeElement.id") == "password"
    visitor.check("sign-in-refused")
    sign_in(visitor, "ada")
    visitor.page.get_by_role("heading", name="Your account").wait_for()
    visitor.check("account")
    for path, name in (("/admin/users", "users"), ("/admin/audit", "audit")):
        visitor.visit(path)
        visitor.check(name)


def test_a_user_without_the_role_is_refused_in_words(
    users_site: ConsoleSite, new_visitor: NewVisitor
) -> None:
    visitor = new_visitor(users_site)
    visitor.visit("/sign-in")
    sign_in(visitor, "otto")
    visitor.page.wait_for_url(f"{users_site.url}/")
    visitor.visit("/admin/users", status=403)

    visitor.page.get_by_text("This needs the role admin, which otto does not have").wait_for()
    visitor.check("refused")


def test_sign_out_everywhere_leads_every_open_page_to_the_sign_in(
    users_site: ConsoleSite, new_visitor: NewVisitor
) -> None:
    here, there = new_visitor(users_site), new_visitor(users_site)
    for visitor in (here, there):
        visitor.visit("/sign-in")
        sign_in(visitor, "ada")
        visitor.page.wait_for_url(f"{users_site.url}/")
    with there.page.expect_response(lambda answer: "/live" in answer.url):
        there.page.reload()
    here.visit("/account")
    here.page.get_by_role("button", name="Sign out everywhere").click()
    here.page.get_by_role("dialog").get_by_role("button", name="Sign out everywhere").click()

    here.page.get_by_text("You are signed out on every device.").wait_for()
    there.page.wait_for_url(f"{users_site.url}/sign-in")


def test_an_administrator_ends_the_sign_ins_of_another_user(
    users_site: ConsoleSite, new_visitor: NewVisitor
) -> None:
    ada, otto = new_visitor(users_site), new_visitor(users_site)
    for visitor, name in ((ada, "ada"), (otto, "otto")):
        visitor.visit("/sign-in")
        sign_in(visitor, name)
        visitor.page.wait_for_url(f"{users_site.url}/")
    ada.visit("/admin/users")
    ada.page.get_by_role("button", name="End sign-ins of otto").click()
    ada.page.get_by_role("dialog").get_by_role("button", name="End sign-ins").click()
    ada.page.get_by_text("Every sign-in of otto is over.").wait_for()
    # The open page leads there by itself, which would interrupt a visit.
    otto.page.wait_for_url(f"{users_site.url}/sign-in")
    otto.visit("/account")

    assert otto.page.url == f"{users_site.url}/sign-in?next=/account"


def test_the_chosen_theme_stays(users_site: ConsoleSite, new_visitor: NewVisitor) -> None:
    visitor = new_visitor(users_site)
    visitor.visit("/sign-in?next=/account")
    sign_in(visitor, "ada")
    visitor.page.get_by_label("Dark").check()
    visitor.page.reload()

    assert visitor.page.locator("html").get_attribute("data-theme") == "dark"
    assert visitor.page.get_by_label("Dark").is_checked()
    visitor.page.get_by_label("As the device").check()
    visitor.page.reload()
    assert visitor.page.locator("html").get_attribute("data-theme") is None


def test_overview_has_no_serious_findings(visitor: Visitor) -> None:
    visitor.visit("/")
    visitor.check("overview")
