"""The demo story: a day with failing calls and repeated webhooks, on which every effect happens once.

It runs its own processes (`demo_processes.py`), prints what happened and what it cost, and raises if a result
is not the expected one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from holdfast import Stores
from holdfast.core.clock import RunClock
from holdfast.guarantees import Period, build_retention_report, scan_files
from holdfast.runtime import Measurement, Meter, meter_usage
from holdfast_demo.richpanel.demo_processes import DemoProcesses, open_demo
from richpanel.api import explain
from richpanel.domain.feature_flags import CACHE_S
from richpanel.domain.idempotency_keys import build_event_key
from richpanel.model import patterns
from richpanel.model.entities import ActionAudit, ConversationState

ADA, BEN, CLEO, DAN, EVE, MALLORY = (
    f"{name}@example.com" for name in ("ada", "ben", "cleo", "dan", "eve", "mallory")
)
ORDER: Final = "W2378156"
# Ticket, customer, text, channel, and the number of webhooks.
MORNING: Final = (
    ("t-ada", ADA, "Where is my order? It should have been here on Monday.", "email", 3),
    ("t-ben", BEN, "Somebody used my card on your site. I never made this order!", "email", 2),
    ("t-cleo", CLEO, "Hello, good morning!", "chat", 3),
    ("t-dan", DAN, "Do you ship to Norway, and how long does it take?", "chat", 2),
    ("t-eve", EVE, "My bank says I can do a chargeback, and I will.", "email", 3),
)
LATE_COPY_S: Final = 3600.0
MIDDLEWARE: Final = "middleware"


async def run_story(stores: Stores, console: Any, clock: RunClock, folder: Path) -> None:
    """Run the story and print it to a Rich console. `folder` holds the stores' files, which are scanned for
    personal data at the end. Raise `AssertionError` if a result is unexpected.
    """
    if stores.system is None:
        raise AssertionError("The story needs stores that belong to a system.")
    figures = Figures()
    stores.measurements.subscribe(figures.count)
    with meter_usage() as meter:
        async with open_demo(stores, stores.system, clock) as stage:
            async with stage.run_counted_workers():
                await _show_morning(stage, console, figures)
                await _show_copies(stage, console, figures)
                await _show_shadow_mode(stage, console)
                await _show_automation(stage, console)
                await _show_kill_switch(stage, console)
            await _show_lost_worker(stage, console)
            await _check_each_once(stage, console)
            await _show_explanation(stage, console)
            await _show_figures(stage, console, figures)
            texts = _list_customer_texts(stage)
    _show_retention(stores, console)
    _scan_for_personal_data(folder, console, texts)
    _show_cost(console, meter, figures)


@dataclass
class Figures:
    """Metrics collected during the story. `to_route_s` are the seconds from each webhook to its routing."""

    counts: Counter[str] = field(default_factory=Counter)
    automated: int = 0
    # Help desk failures with an unknown outcome.
    unknown_outcomes: int = 0
    to_route_s: list[float] = field(default_factory=list)

    def count(self, counted: Measurement) -> None:
        """Add one measurement: a counter, or the seconds that routing took."""
        if counted.kind == "measure":
            self.to_route_s.append(counted.value)
            return
        self.counts[counted.name] += int(counted.value)
        self.automated += counted.labels.get("automated") == "yes"
        self.unknown_outcomes += counted.labels.get("may_be_done") == "true"


# --- the day ------------------------------------------------------------------------------------------------


async def _show_morning(stage: DemoProcesses, console: Any, figures: Figures) -> None:
    """Show routing in safe mode, with failing calls and repeated webhooks."""
    console.rule("[bold]Richpanel middleware: every effect once")
    console.print(
        "A sandbox help desk and shop answer over HTTP. They do not support idempotency: a repeated call has "
        "a repeated effect. The help desk fails one change in five [italic]after[/] making it, and refuses "
        "one call in ten with 429."
    )
    console.print("No switches are set, so safe mode is on: messages are routed, and none is answered.")
    stage.set_faults(failed_after=0.2, too_many=0.1, retry_after_s=2.0, seed=6)
    for ticket, address, text, channel, times in MORNING:
        await stage.send_webhook(await stage.write_message(ticket, address, text, channel), times)
    sent = sum(times for *_, times in MORNING)
    await stage.wait_until_done()
    console.print(f"{len(MORNING)} customers write. The help desk sends their webhooks {sent} times.")
    for ticket, _, text, _, _ in MORNING:
        state = await _load_state(stage, ticket)
        risk = f" [red](at risk: {', '.join(sorted(state.risk_flags))})[/]" if state.risk_flags else ""
        console.print(f"  “{text}” → [bold]{state.last_routed_team}[/], {state.last_intent}{risk}")
    _expect(
        [(await _load_state(stage, ticket)).last_routed_team for ticket, *_ in MORNING],
        ["orders", "risk", "triage", "sales", "risk"],
    )
    _expect([each for each in stage.ledger if each.effect in ("message", "note")], [])
    console.print(
        f"The help desk's ledger has {len(stage.ledger)} effects, and none twice. Calls that failed "
        "after their "
        f"effect: {figures.unknown_outcomes}. The worker looked each up by its key before it repeated "
        "anything."
    )


async def _show_copies(stage: DemoProcesses, console: Any, figures: Figures) -> None:
    """Show copies that arrive after the queue's deduplication window, and a webhook without a message id."""
    before = len(stage.ledger)
    stage.set_faults()
    ticket = MORNING[0][0]
    first = stage.list_messages(ticket)[0]
    payload = {
        "ticket_id": ticket,
        "conversation_id": ticket,
        "message_id": first.id,
        "created_at": first.created_at,
        "channel": "email",
        "trigger": "customer_message",
    }
    stage.clock.advance(LATE_COPY_S)
    await stage.send_webhook(payload, 2)
    await stage.wait_until_done()
    _expect((len(stage.ledger), figures.counts["duplicates_dropped"]), (before, 1))
    console.print(
        "An hour later a copy of the first webhook arrives, after the queue's deduplication window. "
        "The idempotency record drops it."
    )
    await stage.write_message("t-cleo", CLEO, "Thank you!", "chat")
    await stage.send_webhook({"ticket_id": "t-cleo", "trigger": "customer_message", "channel": "chat"}, 2)
    await stage.wait_until_done()
    _expect(figures.counts["fallback_keys_used"], 1)
    _expect(len([each for each in stage.ledger if each.ticket_id == "t-cleo"]), 4)
    console.print(
        "A webhook that names no message covers all new messages: Cleo's “Thank you!” is routed, her first "
        "message was already processed."
    )


async def _show_shadow_mode(stage: DemoProcesses, console: Any) -> None:
    """Show shadow mode: the reply is recorded and not sent."""
    console.rule("Shadow mode")
    await _set_switches(stage, safe_mode=False, shadow=True)
    await _ask(stage, "t-shadow", ADA, "Has my order been shipped yet?")
    entries = (
        await stage.stores.for_component("api").all(patterns.AUDIT.pattern_set.history("t-shadow"))
    ).items
    would = [each for each in entries if each.shadow]
    _expect([each.parsed_payload["target"] for each in would], ["ask_order_number"])
    _expect([each.author for each in stage.list_messages("t-shadow")], ["customer"])
    console.print(
        "“Has my order been shipped yet?” is routed, and the audit records what would have been sent: "
        f"[bold]{would[0].parsed_payload['target']}[/]. The customer got nothing."
    )


async def _show_automation(stage: DemoProcesses, console: Any) -> None:
    """Show automated replies, and that only the customer who ordered gets an order's status."""
    console.rule("Automation, on e-mail only")
    expected = datetime.fromtimestamp(stage.clock.now(), UTC) + timedelta(days=2)
    await stage.add_order(ORDER, ADA, status="on its way", carrier="Posten", expected=f"{expected:%d %B}")
    await _set_switches(stage, safe_mode=False, automation_enabled=True, channels=["email"])
    await _ask(stage, "t-ask", ADA, "What is the status of my order?")
    await _ask(stage, "t-ask", ADA, f"My order number is {ORDER}.")
    _print_messages(stage, console, "t-ask", "Ada")
    _expect(ORDER[-4:] in stage.list_messages("t-ask")[-1].text, True)
    _expect("on its way" in stage.list_messages("t-ask")[-1].text, True)

    await _ask(stage, "t-mallory", MALLORY, f"Can you tell me where my order #{ORDER} is?")
    console.print("Mallory knows the number, but writes from another address:")
    _print_messages(stage, console, "t-mallory", "Mallory")
    _expect(any("on its way" in each.text for each in stage.list_messages("t-mallory")), False)

    await _ask(stage, "t-faq", DAN, "Do you ship to Norway, and how long does it take?")
    (note,) = _find_ticket(stage, "t-faq").notes
    console.print(
        f"For a question about shipping, the agent gets a note that no customer sees:\n  [dim]{note}[/]"
    )
    await _ask(stage, "t-chat", ADA, "What is the status of my order?", "chat")
    _expect([each.author for each in stage.list_messages("t-chat")], ["customer"])
    console.print("On chat, where automation is not rolled out, the same question is only routed.")


async def _show_kill_switch(stage: DemoProcesses, console: Any) -> None:
    """Show that safe mode stops automation."""
    console.rule("The kill switch")
    await _set_switches(stage, safe_mode=True)
    await _ask(stage, "t-safe", ADA, "Any news about my order?")
    _expect([each.author for each in stage.list_messages("t-safe")], ["customer"])
    console.print(
        f"The operator switches safe mode on. Workers read the switches every {CACHE_S:.0f} seconds; the "
        "next question is only routed."
    )


async def _show_lost_worker(stage: DemoProcesses, console: Any) -> None:
    """Show a worker that is cancelled while it waits for the help desk. A killed process leaves the same
    state.
    """
    console.rule("A worker is lost")
    before = len(stage.ledger)
    async with stage.run_counted_workers() as work:
        stage.set_faults(silent_after=1.0, silence_s=1.0)
        await stage.send_webhook(await stage.write_message("t-lost", BEN, "What is the status of my order?"))
        await stage.wait_for_effects(before + 1)
        work.stop()
        work.stop()
    stage.set_faults()
    async with stage.run_counted_workers():
        await stage.wait_until_done()
    done = [each for each in stage.ledger if each.ticket_id == "t-lost"]
    _expect([each.effect for each in done], ["assign", "tag"])
    console.print(
        "The help desk assigns a ticket and does not answer; meanwhile the worker is cancelled. (In this "
        "story it is a task. The tests kill real processes.) Another worker takes over, waits until the call "
        "must have ended, [italic]looks up[/] the key at the help desk, finds the effect, and continues: "
        "assigned once, tagged once."
    )


# --- the results --------------------------------------------------------------------------------------------


async def _check_each_once(stage: DemoProcesses, console: Any) -> None:
    """Check that the ledger and the audit have the same effects, each once."""
    console.rule("The ledger against the audit")
    references = [each.reference for each in stage.ledger]
    twice = [each for each, count in Counter(references).items() if count > 1]
    _expect(twice, [])
    audited = [each.idempotency_key for each in await _load_audit(stage) if not each.shadow]
    _expect(sorted(audited), sorted(references))
    console.print(
        f"{len(references)} effects at the help desk, {len(audited)} in the audit: the same ones, each once."
    )


async def _show_explanation(stage: DemoProcesses, console: Any) -> None:
    """Show the explanation of an event."""
    console.rule("Why was this routed here?")
    asked = stage.list_messages("t-ask")[2]
    event = build_event_key("t-ask", asked.id, received_at=datetime.fromtimestamp(stage.clock.now(), UTC)).key
    console.print(f"[dim]In a running system: holdfast why richpanel {event}[/]")
    found = await explain.explain_routing(stage.stores.for_component("api"), event)
    _expect(len(found.lines), 3)
    for line in found.lines:
        console.print(f"  {line}", markup=False)


async def _show_figures(stage: DemoProcesses, console: Any, figures: Figures) -> None:
    """Print the metrics."""
    console.rule("In figures")
    counts, times = figures.counts, sorted(figures.to_route_s)
    console.print(
        f"{counts['events_processed']} events processed; {counts['duplicates_dropped']} duplicate dropped by "
        "the idempotency records, in addition to those that the queue drops within five minutes; "
        f"{counts['fallback_keys_used']} fallback key used; "
        f"{figures.automated / counts['events_processed']:.0%} of the events automated."
    )
    console.print(
        f"By the story's clock, routing took {times[len(times) // 2]:.0f} s in the median and at most "
        f"{times[-1]:.0f} s, retry delays included. The help desk answered 429 {stage.sandbox.too_many} "
        "times. The backlog is 0."
    )
    console.print("[dim]A running system reports the same at /metrics.[/]")


def _show_retention(stores: Stores, console: Any) -> None:
    """Print the retention of each table."""
    console.rule("Retention, and no personal data")
    if stores.system is None:
        return
    for kept in build_retention_report(stores.system):
        if kept.store == "tables" and kept.seconds is not None:
            console.print(f"  {kept.name}: {Period(kept.seconds)}, {kept.why}")


def _scan_for_personal_data(folder: Path, console: Any, texts: Sequence[str]) -> None:
    """Check that no file contains a customer's text or address, not even in deleted pages, and that the scan
    finds a planted one.
    """
    needles = [*texts, ORDER, ADA, MALLORY]
    _expect([(each.file, each.kind) for each in scan_files([folder], needles=needles)], [])
    size = sum(each.stat().st_size for each in folder.rglob("*") if each.is_file())
    planted = folder / "planted"
    planted.write_text(f"{texts[0]} {ADA}")
    found = {each.kind for each in scan_files([planted], needles=needles)}
    planted.unlink()
    _expect(found, {"needle", "email"})
    console.print(
        f"A scan of the stores' files ({size / 1e6:.1f} MB, free pages included) for the {len(needles)} "
        "messages, addresses and order numbers of this story, and for anything that looks like an address, "
        "a phone number or a tracking number: [bold]nothing found[/]. The scan finds a planted line."
    )


def _show_cost(console: Any, meter: Meter, figures: Figures) -> None:
    """Print the capacity units per event."""
    events = figures.counts["events_processed"]
    console.print(
        f"An event took {meter.units.write / events:.1f} write units and {meter.units.read / events:.1f} "
        "read units, failed attempts included."
    )


# --- pieces -------------------------------------------------------------------------------------------------


async def _ask(stage: DemoProcesses, ticket: str, address: str, text: str, channel: str = "email") -> None:
    """Write a message as a customer, send its webhook twice and wait until it is processed."""
    await stage.send_webhook(await stage.write_message(ticket, address, text, channel), 2)
    await stage.wait_until_done()


async def _set_switches(stage: DemoProcesses, **position: Any) -> None:
    """Set the switches, then advance the clock until the workers' cache has expired."""
    await stage.set_switches(**position)
    stage.clock.advance(CACHE_S + 1)


async def _load_state(stage: DemoProcesses, ticket: str) -> ConversationState:
    """Return the state of a ticket's conversation. Raise `AssertionError` if there is none."""
    found = await stage.stores.for_component("api").run(patterns.state(ticket))
    if found is None:
        raise AssertionError(f"No state for ticket {ticket}.")
    return found


async def _load_audit(stage: DemoProcesses) -> list[ActionAudit]:
    """Return the audit entries of every ticket in the ledger."""
    api = stage.stores.for_component("api")
    tickets = dict.fromkeys(each.ticket_id for each in stage.ledger)
    return [
        each
        for ticket in tickets
        for each in (await api.all(patterns.AUDIT.pattern_set.history(ticket))).items
    ]


def _print_messages(stage: DemoProcesses, console: Any, ticket: str, name: str) -> None:
    """Print all messages of a ticket; `name` is the customer's."""
    for message in stage.list_messages(ticket):
        console.print(f"  [dim]{'we' if message.author == MIDDLEWARE else name}:[/] {message.text}")


def _find_ticket(stage: DemoProcesses, ticket: str) -> Any:
    return stage.sandbox.desk.find_ticket(ticket)


def _list_customer_texts(stage: DemoProcesses) -> list[str]:
    """Return the customers' texts in every ticket of the ledger."""
    tickets = dict.fromkeys(each.ticket_id for each in stage.ledger)
    return [m.text for each in tickets for m in stage.list_messages(each) if m.author != MIDDLEWARE]


def _expect(found: Any, wanted: Any) -> None:
    """Raise `AssertionError` if a result is not the expected one."""
    if found != wanted:
        raise AssertionError(f"Unexpected result: got {found!r}, expected {wanted!r}.")
