"""The work pages in a browser: dead letters, decisions and lost races, parked flows, live counts, why."""

from __future__ import annotations

from urllib.parse import quote, unquote

from playwright.sync_api import expect

from agenticpm.model.entities import Action
from agenticpm.model.patterns import ACTION_QUEUE
from holdfast import Stores
from holdfast.flows import ParkedFor
from holdfast.flows.bookkeeping import park
from holdfast.guarantees.idempotency.record import format_key
from holdfast.model.system import load_system
from holdfast.model.ulids import UlidGenerator
from holdfast.operations.queues import ChangeVisibility, OutgoingMessage, ReceiveMessages, SendMessages
from tests.systems.agenticpm.unit import samples
from tripcortex.model.entities import Booking, EmployeeId
from tripcortex.workers.flow import BOOKING_FLOW

from .site import ConsoleSite
from .visitor import Visitor

QUEUE = "/queues/richpanel/rp_mw_events"
FLOW = "/flows/tripcortex/booking"


def send_dead_letter(site: ConsoleSite, group: str) -> str:
    """Send an event of a group and let it die; return its id."""
    queue = load_system("richpanel").get_queue("rp_mw_events")

    async def send(stores: Stores) -> str:
        engine, name = stores.engines.get("queues"), queue.physical_name(stores.environment)
        body = '{"text": "Call me at +1 202 555 0143"}'
        message = OutgoingMessage(body=body, group=group, deduplication=group)
        [sent] = await engine.run(SendMessages(name, (message,)))
        while received := await engine.run(ReceiveMessages(name, 10)):
            receipts = tuple(each.receipt for each in received)
            await engine.run(ChangeVisibility(name, receipts, 0))
        return str(sent.id)

    return site.act("richpanel", send)


def hold_mail(site: ConsoleSite) -> str:
    """Hold a mail and return the address of its page."""
    action = site.act("agenticpm", lambda stores: samples.hold_mail(stores, None))
    return f"/actions/agenticpm/Action/{quote(format_key(action), safe='')}"


def park_booking(site: ConsoleSite) -> str:
    """Start a booking, park it, and return its key."""

    async def park_new(stores: Stores) -> str:
        now = stores.now().replace(microsecond=0)
        booking = BOOKING_FLOW.initial(
            stores,
            Booking(
                employee_id=EmployeeId("emp-browser"),
                booking_id=UlidGenerator(stores.clock).new(),
                user_request="Fly me to Chicago, and call me at +1 202 555 0143",
                created_at=now,
                updated_at=now,
            ),
        )
        await stores.transact(Booking.create(booking), *BOOKING_FLOW.start_writes(stores, booking))
        key = BOOKING_FLOW.key_text(booking)
        execution = await stores.run(BOOKING_FLOW.pattern_set.execution(key))
        assert execution is not None
        reason = "PortalFailed: The portal answered 502."
        assert await park(BOOKING_FLOW, stores, execution, ParkedFor.FAILED, reason)
        return key

    return site.act("tripcortex", park_new)


def test_work_page_follows_the_queues(site: ConsoleSite, visitor: Visitor) -> None:
    visitor.visit("/work")
    visitor.wait_until_live()
    send_dead_letter(site, "live")

    attention = visitor.page.get_by_role("region", name="Needs attention")
    expect(attention.get_by_text("in the queue rp_mw_events")).to_be_visible()
    visitor.check("work")


def test_dead_letters_are_redriven_and_discarded(site: ConsoleSite, visitor: Visitor) -> None:
    again, away = send_dead_letter(site, "again"), send_dead_letter(site, "away")
    visitor.visit(f"{QUEUE}/dead")
    expect(visitor.page.get_by_text("+1 202 555 0143")).to_have_count(0)
    visitor.check("work-dead-letters")

    visitor.page.locator(f"#m-{again}").get_by_role("button", name="Redrive").click()
    dialog = visitor.page.get_by_role("dialog", name="Redrive this dead letter?")
    expect(dialog).to_contain_text(again)
    dialog.get_by_role("button", name="Redrive 1").click()
    expect(visitor.page.get_by_text("1 dead letter was moved back")).to_be_visible()
    expect(visitor.page.locator(f"#m-{again}")).to_have_count(0)

    visitor.page.locator(f"#m-{away}").get_by_role("button", name="Discard").click()
    dialog = visitor.page.get_by_role("dialog", name="Discard this dead letter?")
    dialog.get_by_role("button", name="Discard 1").click()
    expect(visitor.page.get_by_text("The dead letter was discarded")).to_be_visible()

    visitor.visit(QUEUE)
    expect(visitor.page.locator(f"#m-{again}")).to_be_visible()
    visitor.check("work-queue")
    visitor.visit(f"{QUEUE}/groups")
    visitor.check("work-groups")


def test_action_is_revealed_edited_and_approved(site: ConsoleSite, visitor: Visitor) -> None:
    visitor.visit(hold_mail(site))
    visitor.check("work-action")
    visitor.page.get_by_role("button", name="Reveal").click()
    expect(visitor.page.get_by_text("Personal data is shown.")).to_be_visible()

    visitor.page.get_by_role("button", name="Edit").click()
    dialog = visitor.page.get_by_role("dialog", name="Edit this action")
    detail = dialog.get_by_label("detail (JSON)")
    detail.fill(detail.input_value().replace("When will they come?", "When do they come?"))
    dialog.get_by_role("button", name="Save").click()
    expect(visitor.page.get_by_text("Saved. The action still waits")).to_be_visible()
    expect(visitor.page.get_by_text("When do they come?").first).to_be_visible()

    visitor.page.get_by_role("button", name="Approve").click()
    dialog = visitor.page.get_by_role("dialog", name="Approve this action?")
    dialog.get_by_role("button", name="Approve").click()
    expect(visitor.page.get_by_text("Approved: the action is due now")).to_be_visible()


def test_lost_race_is_explained_and_nothing_is_done(site: ConsoleSite, visitor: Visitor) -> None:
    url = hold_mail(site)
    visitor.visit(url)

    async def edit(stores: Stores) -> Action:
        seen = await ACTION_QUEUE.get(stores, unquote(url.rpartition("/")[2]))
        return await ACTION_QUEUE.edit(stores, seen, by="bob", description="Mail somebody else")

    visitor.page.get_by_role("button", name="Cancel the action").first.click()
    dialog = visitor.page.get_by_role("dialog", name="Cancel this action?")
    dialog.get_by_label("Reason").fill("Known")
    site.act("agenticpm", edit)
    dialog.get_by_role("button", name="Cancel the action").click()

    expect(
        visitor.page.get_by_text("the action was changed by bob since this page showed it")
    ).to_be_visible()
    expect(visitor.page.get_by_text("Mail somebody else").first).to_be_visible()
    visitor.check("work-lost-race")

    visitor.page.get_by_role("button", name="Cancel the action").first.click()
    dialog.get_by_label("Reason").fill("Known")
    dialog.get_by_role("button", name="Cancel the action").click()
    expect(visitor.page.get_by_text("Cancelled: the action will never run.")).to_be_visible()


def test_parked_flow_is_resumed_from_its_timeline(site: ConsoleSite, visitor: Visitor) -> None:
    key = park_booking(site)
    visitor.visit(f"{FLOW}?state=parked")
    visitor.check("work-flow")
    visitor.page.get_by_role("link", name=key).click()
    expect(visitor.page.get_by_text("Parked, failed step")).to_be_visible()
    visitor.check("work-timeline")

    visitor.page.get_by_role("button", name="Resume", exact=True).click()
    visitor.page.get_by_role("dialog").get_by_role("button", name="Resume 1").click()

    expect(visitor.page.get_by_text("1 execution was resumed")).to_be_visible()
    expect(visitor.page.get_by_role("button", name="Resume", exact=True)).to_have_count(0)


def test_why_is_found_from_any_page(site: ConsoleSite, visitor: Visitor) -> None:
    action = site.act("agenticpm", lambda stores: samples.hold_mail(stores, None))
    visitor.visit("/")
    visitor.page.get_by_placeholder("Why? Enter an id").fill(action.id)
    visitor.page.keyboard.press("Enter")

    expect(visitor.page.get_by_role("heading", name=f"Why {action.id}")).to_be_visible()
    visitor.check("work-why")
    visitor.page.get_by_role("link", name=action.id).first.click()
    expect(visitor.page.get_by_role("heading", name="What it does")).to_be_visible()


def test_other_work_pages_have_no_serious_findings(visitor: Visitor) -> None:
    for name, path in (
        ("actions", "/actions/agenticpm/Action"),
        ("ended-actions", "/actions/agenticpm/Action?state=ended"),
        ("outbox", "/outbox/pagw/pagw.outbox"),
        ("diagram", f"{FLOW}/diagram"),
        ("breakers", "/breakers/tripcortex"),
        ("leases", "/leases/agenticpm"),
        ("why-search", "/why?id=nothing"),
    ):
        visitor.visit(path)
        visitor.check(f"work-{name}")
