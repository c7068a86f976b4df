"""The data browser in a browser: items, filters, an edit, a lost race, the past, live changes, rows and
objects.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from decimal import Decimal

import pytest
from playwright.sync_api import expect

from holdfast import Stores
from holdfast.console.browser import build_item_url, build_table_url
from holdfast.operations.tables import PutItem
from holdfast.operations.values import Value
from skymarshal.model.entities import bookings, crew_roster

from .site import ConsoleSite
from .visitor import Visitor

NAME = "skymarshal"
_NUMBERS = itertools.count(1)


@dataclass(frozen=True)
class StoredBooking:
    """A booking that no other test shows."""

    site: ConsoleSite
    id: str

    def put(self, seat: str) -> None:
        """Write the booking with a seat, as another process would."""
        item: dict[str, Value] = {
            "booking_id": self.id,
            "passenger_id": "PX1",
            "flight_id": "F1",
            "booking_status": "Confirmed",
            "seat_number": seat,
            "cabin": "J",
            "bag_count": 1,
            "fare_paid": Decimal("120.5"),
            "special_services": [],
            "source_message": "Call ada@example.org",
        }

        async def write(stores: Stores) -> None:
            await stores.tables.run(PutItem(stores.physical_name(bookings), item))

        self.site.act(NAME, write)

    @property
    def url(self) -> str:
        return build_item_url(NAME, bookings.name, {"booking_id": self.id})


@pytest.fixture
def booking(site: ConsoleSite) -> StoredBooking:
    made = StoredBooking(site, f"browser-test-{next(_NUMBERS)}")
    made.put("1A")
    return made


def test_shows_what_every_system_stores(visitor: Visitor) -> None:
    visitor.visit("/data")
    visitor.check("data")

    visitor.page.get_by_role("link", name="AgenticPM", exact=True).last.click()
    expect(visitor.page.get_by_role("heading", level=1)).to_have_text("AgenticPM")
    visitor.check("data-table")


def test_finds_items_by_key_and_filter_and_goes_back(visitor: Visitor) -> None:
    visitor.visit(build_table_url(NAME, "Bookings", index="flight-status-index"))
    page = visitor.page
    page.get_by_label("flight_id partition key, S").fill("1")
    page.get_by_text("Filters", exact=True).click()
    page.get_by_label("Attribute").fill("cabin")
    page.get_by_label("Value").fill("F")
    page.get_by_role("button", name="Read").click()
    items = page.get_by_role("region", name="Items").get_by_role("row")
    expect(items.nth(1)).to_contain_text("F")
    visitor.check("data-query")

    address = page.url
    page.get_by_role("link", name="DynamoDB JSON").click()
    expect(page.locator("pre").first).to_contain_text('"S": "F"')
    page.go_back()
    assert page.url == address
    expect(items.nth(1)).to_be_visible()


def test_an_item_is_edited_and_a_race_is_lost(visitor: Visitor, booking: StoredBooking) -> None:
    page = visitor.page
    visitor.visit(booking.url)
    expect(page.get_by_text("Call ***")).to_be_visible()
    visitor.check("data-item")

    page.get_by_role("link", name="Edit").click()
    page.get_by_label("bag_count").fill("many")
    visitor.expect(422)
    page.get_by_role("button", name="Review the change").click()
    expect(page.get_by_text("Invalid bag_count 'many'")).to_be_visible()
    visitor.check("data-edit")
    page.get_by_label("bag_count").fill("3")
    page.get_by_role("button", name="Review the change").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Review the change")
    visitor.check("data-review")
    page.get_by_role("button", name="Write it").click()
    expect(page.get_by_text("Saved. Changed: bag_count.")).to_be_visible()

    page.get_by_role("link", name="Edit").click()
    page.get_by_label("seat_number", exact=True).fill("9F")
    page.get_by_role("button", name="Review the change").click()
    booking.put("2B")
    visitor.expect(409)
    page.get_by_role("button", name="Write it").click()
    expect(page.get_by_role("alert")).to_contain_text("Another writer changed the item")
    expect(page.get_by_role("row").filter(has_text="seat_number")).to_contain_text("2B")
    visitor.check("data-conflict")


def test_an_item_is_deleted_after_a_question(visitor: Visitor, booking: StoredBooking) -> None:
    visitor.visit(booking.url)
    visitor.page.get_by_role("button", name="Delete…").click()
    dialog = visitor.page.get_by_role("dialog", name="Delete this item?")
    dialog.get_by_role("button", name="Delete").click()

    expect(visitor.page.get_by_text("Deleted.")).to_be_visible()
    visitor.visit(booking.url, status=404)


def test_personal_data_is_revealed_by_a_click(visitor: Visitor, booking: StoredBooking) -> None:
    visitor.visit(booking.url)
    visitor.page.get_by_role("button", name="Reveal, and record it").click()

    expect(visitor.page.get_by_text("Call ada@example.org")).to_be_visible()
    expect(visitor.page.get_by_text("that was recorded")).to_be_visible()


def test_the_history_shows_each_change_and_the_past(visitor: Visitor, booking: StoredBooking) -> None:
    booking.put("7C")
    visitor.visit(booking.url)
    visitor.page.get_by_role("link", name="History").click()
    expect(visitor.page.get_by_role("listitem").filter(has_text="Changed")).to_contain_text("7C")
    visitor.check("data-history")

    visitor.page.get_by_role("link", name="as it was before").first.click()
    expect(visitor.page.get_by_role("region", name="At")).to_contain_text("1A")


def test_changes_appear_as_they_come(visitor: Visitor, site: ConsoleSite) -> None:
    visitor.visit(f"/data/{NAME}/{crew_roster.name}/stream")
    visitor.wait_until_live()
    visitor.check("data-stream")

    async def write(stores: Stores) -> None:
        item: dict[str, Value] = {"roster_id": "browser-test", "note": "a new change"}
        await stores.tables.run(PutItem(stores.physical_name(crew_roster), item))

    site.act(NAME, write)
    expect(visitor.page.get_by_role("region", name="Changes").get_by_text("a new change")).to_be_visible()


def test_rows_and_objects_are_read_only(visitor: Visitor) -> None:
    page = visitor.page
    visitor.visit("/data/pagw/sql:pagw/request_tracker")
    visitor.check("data-rows")
    page.get_by_role("rowheader").get_by_role("link").first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Row of request_tracker")

    visitor.visit("/data/pagw/bucket:pagw-requests")
    page.get_by_role("link", name="original_bundle.json").first.click()
    page.get_by_role("button", name="Reveal, and record it").click()
    expect(page.get_by_label("Content as json")).to_contain_text("resourceType")
    visitor.check("data-object")
