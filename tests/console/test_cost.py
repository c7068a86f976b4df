"""The cost pages, in a browser: the slider by keyboard, prices, and all systems."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.console.visitor import Visitor

PATIENCE_MS = 120_000


def test_growth_changes_with_the_arrow_keys(visitor: Visitor) -> None:
    page = visitor.page
    visitor.visit("/cost/agenticpm")
    slider = page.get_by_label("Times the load")
    slider.wait_for(timeout=PATIENCE_MS)
    result = page.get_by_role("status").filter(has_text="the load:")
    expect(result).to_contain_text("At 1 × the load")

    slider.focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")

    expect(result).to_contain_text("At 4 × the load")
    expect(slider).to_be_focused()
    expect(page).to_have_url(re.compile(r"growth=4"))
    visitor.check("cost-system")

    # The address leads to the same figures.
    page.reload()
    expect(result).to_contain_text("At 4 × the load")


def test_replaced_prices_are_chosen_and_named(visitor: Visitor) -> None:
    page = visitor.page
    visitor.visit("/cost/agenticpm")
    page.get_by_label("Times the load").wait_for(timeout=PATIENCE_MS)
    page.get_by_label("Price list").select_option("dynamodb-2018-11")

    page.get_by_text("These prices were replaced on 2024-11-01").wait_for()
    assert "prices=dynamodb-2018-11" in page.url


def test_estimates_of_all_systems_appear_as_they_are_measured(visitor: Visitor) -> None:
    page = visitor.page
    visitor.visit("/cost/agenticpm")
    page.get_by_label("Times the load").wait_for(timeout=PATIENCE_MS)
    visitor.visit("/cost")
    expect(page.get_by_role("row").filter(has_text="AgenticPM")).to_contain_text("$")
    page.locator("main").get_by_role("link", name="SkyMarshal").wait_for()
    visitor.check("cost")
