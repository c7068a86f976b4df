"""PAGW's pages in a browser: the worklist and its actions, a request with its timeline, payers, metrics."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from playwright.sync_api import expect

from holdfast_demo.pagw.sample.bundles import DEFAULT_PAYER, get_person

from .pagw_requests import PagwRequests
from .site import ConsoleSite
from .visitor import Visitor

APP = "/apps/pagw"


@pytest.fixture(scope="module")
def requests(site: ConsoleSite) -> PagwRequests:
    """Return a maker of requests of every state, with some of each."""
    made = PagwRequests(site)
    for _ in range(2):
        made.submit()
    made.submit_denied()
    late = made.submit_pended("expedited")
    made.make_overdue(late, timedelta(hours=5))
    made.make_overdue(made.submit_pended(), timedelta(days=1))
    made.submit_pended()
    made.submit_failed()
    made.give_up_delivery(made.submit())
    return made


def test_worklist_shows_what_is_overdue_and_filters_by_its_clock(
    requests: PagwRequests, visitor: Visitor
) -> None:
    visitor.visit(f"{APP}/worklist")
    views = visitor.page.get_by_role("navigation", name="Views of the worklist")
    expect(views.get_by_role("link", name="Overdue 2")).to_have_attribute("aria-current", "page")
    visitor.check("pagw-worklist")

    visitor.page.get_by_label("Clock").select_option("expedited")
    visitor.page.wait_for_url("**clock=expedited*")
    expect(visitor.page.locator("tbody tr")).to_have_count(1)
    expect(visitor.page.get_by_text("late by 5 h")).to_be_visible()


@pytest.mark.parametrize("view", ["pended", "contradicted", "stuck", "failed", "undelivered", "held", "soon"])
def test_each_view_of_the_worklist_is_accessible(requests: PagwRequests, visitor: Visitor, view: str) -> None:
    visitor.visit(f"{APP}/worklist?view={view}")
    visitor.check(f"pagw-worklist-{view}")


def test_worklist_grows_by_itself_and_a_stuck_request_is_replayed(
    requests: PagwRequests, visitor: Visitor
) -> None:
    visitor.visit(f"{APP}/worklist?view=stuck")
    expect(visitor.page.get_by_text("No request is stuck")).to_be_visible()
    visitor.wait_until_live()
    stuck = requests.submit_stuck()
    expect(visitor.page.get_by_role("link", name=stuck)).to_be_visible()

    visitor.page.get_by_role("button", name=f"Replay {stuck}").click()
    dialog = visitor.page.get_by_role("dialog", name="Replay this request?")
    expect(dialog.get_by_text(stuck)).to_be_visible()
    dialog.get_by_role("button", name="Replay").click()
    expect(visitor.page.get_by_text(f"Replayed: {stuck} goes to pasrequestenricher again.")).to_be_visible()
    expect(visitor.page.get_by_text("No request is stuck")).to_be_visible()


def test_a_request_is_a_timeline_and_reveals_its_contents_on_request(
    requests: PagwRequests, visitor: Visitor
) -> None:
    pagw_id = requests.submit()
    person = get_person(requests.number)
    requests.give_up_delivery(pagw_id)
    visitor.visit(f"{APP}/requests/{pagw_id}")
    expect(visitor.page.get_by_text(person.family)).to_have_count(0)
    timeline = visitor.page.get_by_role("region", name="Timeline over the stores")
    expect(timeline.get_by_text("Stored request/original_bundle.json")).to_be_visible()
    visitor.check("pagw-request")

    timeline.get_by_role("link", name="Objects").click()
    visitor.page.wait_for_url("**store=objects")
    expect(timeline.get_by_text("COMPLETED")).to_have_count(0)
    visitor.page.get_by_role("button", name="Reveal, and record it").click()
    expect(visitor.page.get_by_text(f"{person.given} {person.family}")).to_be_visible()
    timeline.get_by_role("link", name="Rows (SQL)").click()
    expect(visitor.page.get_by_text("Contents read").first).to_be_visible()
    expect(visitor.page.get_by_text(person.family)).to_have_count(0)


def test_a_request_is_held_with_a_reason_and_cancelled_before_its_payer_has_it(
    requests: PagwRequests, visitor: Visitor
) -> None:
    pagw_id = requests.submit(process=False)
    visitor.visit(f"{APP}/requests/{pagw_id}")
    visitor.page.get_by_role("button", name="Hold").click()
    dialog = visitor.page.get_by_role("dialog", name="Place a legal hold?")
    dialog.get_by_label("Reason").fill("Case 12-4711")
    dialog.get_by_role("button", name="Place the hold").click()
    expect(visitor.page.get_by_text("Case 12-4711")).to_be_visible()

    visitor.page.get_by_role("button", name="Cancel the request").first.click()
    dialog = visitor.page.get_by_role("dialog", name="Cancel this request?")
    dialog.get_by_role("button", name="Cancel", exact=True).click()
    expect(dialog).not_to_be_visible()
    visitor.page.get_by_role("button", name="Cancel the request").first.click()
    dialog.get_by_role("button", name="Cancel the request").click()
    expect(visitor.page.get_by_text(re.compile("Cancelled: .* never reaches its payer"))).to_be_visible()
    visitor.visit(f"{APP}/worklist?view=held")
    visitor.page.get_by_role("button", name=f"Lift the hold on {pagw_id}").click()
    visitor.page.get_by_role("dialog").get_by_role("button", name="Lift the hold").click()
    expect(visitor.page.get_by_text("Lifted:")).to_be_visible()


def test_an_undelivered_notification_is_resent_by_keyboard(requests: PagwRequests, visitor: Visitor) -> None:
    pagw_id = requests.submit()
    requests.give_up_delivery(pagw_id)
    visitor.visit(f"{APP}/worklist?view=undelivered")
    # As a person does: a live part stays as it is while the focus is in it by keyboard.
    visitor.page.keyboard.press("Tab")
    visitor.page.get_by_role("button", name=f"Resend the notification about {pagw_id}").focus()
    visitor.page.keyboard.press("Enter")
    dialog = visitor.page.get_by_role("dialog", name="Send this notification again?")
    expect(dialog).to_be_visible()
    visitor.page.keyboard.press("Escape")
    expect(dialog).not_to_be_visible()
    visitor.page.keyboard.press("Enter")
    dialog.get_by_role("button", name="Resend").focus()
    visitor.page.keyboard.press("Enter")
    expect(visitor.page.get_by_text("Sent again: the notification")).to_be_visible()


def test_a_request_is_opened_by_its_id(requests: PagwRequests, visitor: Visitor) -> None:
    pagw_id = requests.submit()
    visitor.visit(f"{APP}/worklist")
    visitor.page.get_by_placeholder("PAGW-…").fill("nothing")
    visitor.page.get_by_role("button", name="Open", exact=True).click()
    expect(visitor.page.get_by_text("Invalid request id")).to_be_visible()
    visitor.page.get_by_placeholder("PAGW-…").fill(pagw_id)
    visitor.page.get_by_role("button", name="Open", exact=True).click()
    expect(visitor.page.get_by_role("heading", name=pagw_id)).to_be_visible()


def test_payers_show_health_backlog_and_last_calls(requests: PagwRequests, visitor: Visitor) -> None:
    visitor.visit(f"{APP}/payers")
    row = visitor.page.get_by_role("row").filter(has_text=DEFAULT_PAYER)
    expect(row.get_by_text("answers")).to_be_visible()
    visitor.check("pagw-payers")
    row.get_by_role("link").first.click()
    expect(visitor.page.get_by_role("region", name="Limits and clocks")).to_be_visible()
    visitor.check("pagw-payer")


def test_metrics_state_what_they_cannot_know(requests: PagwRequests, visitor: Visitor) -> None:
    visitor.visit(f"{APP}/metrics")
    expect(visitor.page.get_by_text("Not known to the gateway")).to_have_count(3)
    visitor.check("pagw-metrics")
    visitor.visit(f"{APP}/metrics?year=2020")
    expect(visitor.page.get_by_text("No decision in 2020")).to_be_visible()
