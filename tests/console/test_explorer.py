"""The model explorer, in a browser."""

from __future__ import annotations

import re
from typing import Final

from playwright.sync_api import expect

from tests.console.visitor import NARROW, WIDE, Visitor

# A small system: its pages are short, and its patterns are measured quickly.
SYSTEM: Final = "/systems/richpanel"
MEASURING_MS: Final = 120_000


def test_systems_and_a_model(visitor: Visitor) -> None:
    visitor.visit("/systems")
    visitor.check("systems")
    visitor.page.locator("main").get_by_role("link", name="Richpanel middleware", exact=True).click()
    expect(visitor.page.get_by_role("heading", level=1)).to_have_text("Richpanel middleware")
    visitor.check("system-richpanel")


def test_a_flow_is_drawn_for_wide_and_narrow_places(visitor: Visitor) -> None:
    visitor.visit("/systems/tripcortex")
    figure = visitor.page.get_by_role("figure", name="The flow booking")
    for size, kind in ((NARROW, "narrow"), (WIDE, "wide")):
        visitor.page.set_viewport_size(size)
        shown = [each for each in ("wide", "middle", "narrow") if figure.locator(f"svg.{each}").is_visible()]
        assert shown == [kind]


def test_diagrams_are_followed_by_keyboard(visitor: Visitor) -> None:
    visitor.visit(SYSTEM)
    visitor.page.get_by_role("link", name="entity CustomerLink").first.focus()
    visitor.page.keyboard.press("Enter")
    visitor.page.wait_for_url(re.compile(r"/tables/rp_mw_customers#entity-CustomerLink$"))
    visitor.check("table-richpanel")


def test_a_hint_explains_a_term(visitor: Visitor) -> None:
    visitor.visit(SYSTEM)
    text = visitor.page.get_by_text("An index that holds only the items which have its key").first
    expect(text).to_be_hidden()
    visitor.page.get_by_role("button", name="What is this: sparse index").first.focus()
    visitor.page.keyboard.press("Enter")
    expect(text).to_be_visible()
    visitor.page.keyboard.press("Escape")
    expect(text).to_be_hidden()


def test_patterns_are_searched_and_show_what_they_cost(visitor: Visitor) -> None:
    visitor.visit(f"{SYSTEM}/patterns")
    # Measuring takes seconds; the page shows the result by itself.
    expect(visitor.page.get_by_text("measured on sample data")).to_be_visible(timeout=MEASURING_MS)
    visitor.page.get_by_label("Kind").select_option("reads")
    visitor.page.wait_for_url(re.compile("kind=reads"))
    search = visitor.page.get_by_label("Search", exact=True)
    search.fill("conversation")
    search.press("Enter")
    visitor.page.wait_for_url(re.compile("q=conversation"))
    visitor.check("patterns-richpanel")
    visitor.page.go_back()
    expect(search).to_have_value("")
    visitor.visit(f"{SYSTEM}/findings")
    visitor.check("findings-richpanel")


def test_a_read_is_run_and_revealed(visitor: Visitor) -> None:
    visitor.visit(f"{SYSTEM}/patterns/AU2")
    visitor.page.get_by_role("button", name="Run", exact=True).click()
    result = visitor.page.get_by_role("region", name="Result")
    expect(result.get_by_text("Items returned")).to_be_visible()
    visitor.check("pattern-result")
    result.get_by_role("button", name="Show personal data").click()
    expect(visitor.page.get_by_text("personal data shown")).to_be_visible()


def test_an_invalid_argument_is_explained_next_to_its_field(visitor: Visitor) -> None:
    visitor.visit(f"{SYSTEM}/patterns/AU3")
    visitor.page.get_by_label("since").fill("yesterday")
    visitor.page.get_by_role("button", name="Run", exact=True).click()
    expect(visitor.page.get_by_role("alert")).to_contain_text("Nothing was run")
    expect(visitor.page.get_by_label("since")).to_have_value("yesterday")
    visitor.check("pattern-problems")


def test_a_write_asks_first(visitor: Visitor) -> None:
    visitor.visit(f"{SYSTEM}/patterns/RP12")
    visitor.page.get_by_label("conversation_id").fill("of-no-customer")
    # The Enter key must not run it: then this would be another page.
    visitor.page.get_by_label("conversation_id").press("Enter")
    visitor.page.get_by_role("button", name="Run…").click()
    dialog = visitor.page.get_by_role("dialog")
    expect(dialog).to_contain_text("which writes?")
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_be_hidden()
    assert visitor.page.url.endswith("/patterns/RP12")
    visitor.page.get_by_role("button", name="Run…").click()
    dialog.get_by_role("button", name="Run it").click()
    expect(visitor.page.get_by_role("region", name="Result")).to_contain_text("It is done")
    assert "result=" in visitor.page.url


def test_a_component_shows_its_rights(visitor: Visitor) -> None:
    visitor.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    visitor.visit(f"{SYSTEM}/components/ingress")
    visitor.page.get_by_role("button", name="Copy").first.click()
    expect(visitor.page.get_by_role("button", name="Copied")).to_be_visible()
    assert "sqs:SendMessage" in visitor.page.evaluate("navigator.clipboard.readText()")
    visitor.check("component-richpanel")
