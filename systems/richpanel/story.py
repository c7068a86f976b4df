"""The middleware's story, told at the terminal: a day on which nothing goes right, and everything happens once.

It plays on a stage of its own (`stage.py`), prints what happened and what it cost, and raises where something is not as
it should be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from holdfast import Counted, Meter, Stores, metered
from holdfast.clock import RunClock
from holdfast.guarantees import Period, retention_report, scan_files
from richpanel import explaining, patterns
from richpanel.keys import event_key
from richpanel.model import ActionAudit, ConversationState
from richpanel.stage import Stage, staged
from richpanel.switches import CACHE_S

ADA, BEN, CLEO, DAN, EVE, MALLORY = (
    f"{name}@example.com" for name in ("ada", "ben", "cleo", "dan", "eve", "mallory")
)
ORDER: Final = "W2378156"
# Who writes what on which channel, and how often the webhook comes.
MORNING: Final = (
    ("t-ada", ADA, "Where is my order? It should have been here on Monday.", "email", 3),
    ("t-ben", BEN, "Somebody used my card on your site. I never made this order!", "email", 2),
    ("t-cleo", CLEO, "Hello, good morning!", "chat", 3),
    ("t-dan", DAN, "Do you ship to Norway, and how long does it take?", "chat", 2),
    ("t-eve", EVE, "My bank says I can do a chargeback, and I will.", "email", 3),
)
LATE_S: Final = 3600.0
OURS: Final = "middleware"


async def story(stores: Stores, console: Any, clock: RunClock, folder: Path) -> None:
    """Tells it to a Rich console."""
    if stores.system is None:
        raise AssertionError("The story is of a system, and these stores have none.")
    figures = Figures()
    stores.counting.listen(figures.take)
    with metered() as meter:
        async with staged(stores, stores.system, clock) as stage:
            async with stage.at_work():
                await _morning(stage, console, figures)
                await _copies(stage, console, figures)
                await _shadow(stage, console)
                await _automation(stage, console)
                await _kill_switch(stage, console)
            await _lost_worker(stage, console)
            await _each_once(stage, console)
            await _why(stage, console)
            await _figures(stage, console, figures)
            texts = _said(stage)
    _kept(stores, console)
    _scan(folder, console, texts)
    _cost(console, meter, figures)


@dataclass
class Figures:
    """What the system counts of itself."""

    counts: Counter[str] = field(default_factory=Counter)
    automated: int = 0
    # Failures of the help desk of which nobody knew whether it had acted.
    left_open: int = 0
    to_route_s: list[float] = field(default_factory=list)

    def take(self, counted: Counted) -> None:
        if counted.kind == "measure":
            self.to_route_s.append(counted.value)
            return
        self.counts[counted.name] += int(counted.value)
        self.automated += counted.labels.get("automated") == "yes"
        self.left_open += counted.labels.get("may_be_done") == "true"


# --- the day -----------------------------------------------------------------------------------------------------


async def _morning(stage: Stage, console: Any, figures: Figures) -> None:
    console.rule("[bold]Richpanel middleware: every effect once")
    console.print(
        "A help desk and a shop of our own making answer over HTTP. They know no idempotency: asked twice, they do it "
        "twice. Of the changes that are asked of it, the help desk fails one in five [italic]after[/] making it; of all "
        "calls, it turns one in ten away with 429."
    )
    console.print(
        "Nobody has turned a switch, so safe mode is on: messages are routed, and nothing is answered."
    )
    stage.fail(failed_after=0.2, too_many=0.1, retry_after_s=2.0, seed=6)
    for ticket, address, text, channel, times in MORNING:
        await stage.webhook(await stage.says(ticket, address, text, channel), times)
    sent = sum(times for *_, times in MORNING)
    await stage.until_done()
    console.print(f"{len(MORNING)} customers write. Their webhooks come {sent} times.")
    for ticket, _, text, _, _ in MORNING:
        state = await _state(stage, ticket)
        risk = f" [red](at risk: {', '.join(sorted(state.risk_flags))})[/]" if state.risk_flags else ""
        console.print(f"  “{text}” → [bold]{state.last_routed_team}[/], {state.last_intent}{risk}")
    _expect(
        [(await _state(stage, ticket)).last_routed_team for ticket, *_ in MORNING],
        ["orders", "risk", "triage", "sales", "risk"],
    )
    _expect([each for each in stage.ledger if each.effect in ("message", "note")], [])
    console.print(
        f"The help desk's ledger has {len(stage.ledger)} effects, and none twice. {figures.left_open} calls failed after their "
        "effect: each was looked up by its key before anything was repeated."
    )


async def _copies(stage: Stage, console: Any, figures: Figures) -> None:
    """Copies that come when the queue has forgotten the first, and a message that has no id."""
    before = len(stage.ledger)
    stage.fail()
    ticket = MORNING[0][0]
    first = stage.messages(ticket)[0]
    payload = {
        "ticket_id": ticket,
        "conversation_id": ticket,
        "message_id": first.id,
        "created_at": first.created_at,
        "channel": "email",
        "trigger": "customer_message",
    }
    stage.clock.advance(LATE_S)
    await stage.webhook(payload, 2)
    await stage.until_done()
    _expect((len(stage.ledger), figures.counts["duplicates_dropped"]), (before, 1))
    console.print(
        "An hour later a copy of the first webhook comes. The queue has forgotten it, the records have not: it is dropped."
    )
    await stage.says("t-cleo", CLEO, "Thank you!", "chat")
    await stage.webhook({"ticket_id": "t-cleo", "trigger": "customer_message", "channel": "chat"}, 2)
    await stage.until_done()
    _expect(figures.counts["fallback_keys_used"], 1)
    _expect(len([each for each in stage.ledger if each.ticket_id == "t-cleo"]), 4)
    console.print(
        "A webhook that names no message is one for all that was written since: Cleo's “Thank you!” is routed, her first "
        "message is known."
    )


async def _shadow(stage: Stage, console: Any) -> None:
    console.rule("Shadow mode")
    await _turn(stage, safe_mode=False, shadow=True)
    await _asks(stage, "t-shadow", ADA, "Has my order been shipped yet?")
    entries = (await stage.stores.for_component("api").all(patterns.AUDIT.history("t-shadow"))).items
    would = [each for each in entries if each.shadow]
    _expect([each.told["target"] for each in would], ["ask_order_number"])
    _expect([each.author for each in stage.messages("t-shadow")], ["customer"])
    console.print(
        "“Has my order been shipped yet?” is routed, and the audit notes what would have been sent: "
        f"[bold]{would[0].told['target']}[/]. The customer got nothing."
    )


async def _automation(stage: Stage, console: Any) -> None:
    console.rule("Automation, on e-mail alone")
    expected = datetime.fromtimestamp(stage.clock.now(), UTC) + timedelta(days=2)
    await stage.order(ORDER, ADA, status="on its way", carrier="Posten", expected=f"{expected:%d %B}")
    await _turn(stage, safe_mode=False, automation_enabled=True, channels=["email"])
    await _asks(stage, "t-ask", ADA, "What is the status of my order?")
    await _asks(stage, "t-ask", ADA, f"My order number is {ORDER}.")
    _tell(stage, console, "t-ask", "Ada")
    _expect(ORDER[-4:] in stage.messages("t-ask")[-1].text, True)
    _expect("on its way" in stage.messages("t-ask")[-1].text, True)

    await _asks(stage, "t-mallory", MALLORY, f"Can you tell me where my order #{ORDER} is?")
    console.print("Mallory knows the number, and writes from another address:")
    _tell(stage, console, "t-mallory", "Mallory")
    _expect(any("on its way" in each.text for each in stage.messages("t-mallory")), False)

    await _asks(stage, "t-faq", DAN, "Do you ship to Norway, and how long does it take?")
    (note,) = _ticket(stage, "t-faq").notes
    console.print(
        f"On a question about shipping, the agent is helped, by a note that no customer sees:\n  [dim]{note}[/]"
    )
    await _asks(stage, "t-chat", ADA, "What is the status of my order?", "chat")
    _expect([each.author for each in stage.messages("t-chat")], ["customer"])
    console.print("On chat, where nothing is rolled out, the same question is only routed.")


async def _kill_switch(stage: Stage, console: Any) -> None:
    console.rule("The kill switch")
    await _turn(stage, safe_mode=True)
    await _asks(stage, "t-safe", ADA, "Any news about my order?")
    _expect([each.author for each in stage.messages("t-safe")], ["customer"])
    console.print(
        f"Safe mode is put on. Workers look at the switches every {CACHE_S:.0f} seconds; the next question is routed, and no "
        "more."
    )


async def _lost_worker(stage: Stage, console: Any) -> None:
    """A worker that is broken off while the help desk keeps it waiting. A process that is killed leaves the same behind."""
    console.rule("A worker is lost")
    before = len(stage.ledger)
    async with stage.at_work() as work:
        stage.fail(silent_after=1.0, silence_s=1.0)
        await stage.webhook(await stage.says("t-lost", BEN, "What is the status of my order?"))
        await stage.until_effects(before + 1)
        work.stop()
        work.stop()
    stage.fail()
    async with stage.at_work():
        await stage.until_done()
    done = [each for each in stage.ledger if each.ticket_id == "t-lost"]
    _expect([each.effect for each in done], ["assign", "tag"])
    console.print(
        "The help desk assigns a ticket and does not answer; meanwhile its worker is broken off. (In this story that is a "
        "task in this process. The tests kill real ones.) Another takes over, waits until the help desk can no longer be "
        "at it, [italic]looks up[/] what was done under its key, finds it, and goes on: assigned once, tagged once."
    )


# --- what remains of it ------------------------------------------------------------------------------------------


async def _each_once(stage: Stage, console: Any) -> None:
    console.rule("The ledger against the audit")
    references = [each.reference for each in stage.ledger]
    twice = [each for each, count in Counter(references).items() if count > 1]
    _expect(twice, [])
    told = [each.idempotency_key for each in await _audit(stage) if not each.shadow]
    _expect(sorted(told), sorted(references))
    console.print(
        f"{len(references)} effects at the help desk, {len(told)} in the audit: the same ones, each once."
    )


async def _why(stage: Stage, console: Any) -> None:
    console.rule("Why was this routed here?")
    asked = stage.messages("t-ask")[2]
    event = event_key("t-ask", asked.id, received_at=datetime.fromtimestamp(stage.clock.now(), UTC)).key
    console.print(f"[dim]holdfast why richpanel {event}[/]")
    found = await explaining.why(stage.stores.for_component("api"), event)
    _expect(len(found.lines), 3)
    for line in found.lines:
        console.print(f"  {line}", markup=False)


async def _figures(stage: Stage, console: Any, figures: Figures) -> None:
    console.rule("In figures")
    counts, times = figures.counts, sorted(figures.to_route_s)
    console.print(
        f"{counts['events_processed']} events processed; {counts['duplicates_dropped']} duplicate dropped by the records, beside "
        f"those that the queue drops within five minutes; {counts['fallback_keys_used']} fallback key used; "
        f"{figures.automated / counts['events_processed']:.0%} of the events answered, or helped with."
    )
    console.print(
        f"By the story's clock they were routed after {times[len(times) // 2]:.0f} s in the median and {times[-1]:.0f} s at the "
        f"most, the rests after failures included. 429 came {stage.sandbox.too_many} times. The backlog is 0."
    )
    console.print("[dim]A running system tells the same at /metrics.[/]")


def _kept(stores: Stores, console: Any) -> None:
    console.rule("What is kept, and what is not")
    if stores.system is None:
        return
    for kept in retention_report(stores.system):
        if kept.store == "tables" and kept.seconds is not None:
            console.print(f"  {kept.name}: {Period(kept.seconds)}, {kept.why}")


def _scan(folder: Path, console: Any, texts: Sequence[str]) -> None:
    """No word and no address of a customer, in no file: also not in what was deleted. A planted one must be found."""
    needles = [*texts, ORDER, ADA, MALLORY]
    _expect([(each.file, each.kind) for each in scan_files([folder], needles=needles)], [])
    size = sum(each.stat().st_size for each in folder.rglob("*") if each.is_file())
    planted = folder / "planted"
    planted.write_text(f"{texts[0]} {ADA}")
    found = {each.kind for each in scan_files([planted], needles=needles)}
    planted.unlink()
    _expect(found, {"needle", "email"})
    console.print(
        f"The {size / 1e6:.1f} MB of the stores' files, free pages included, were searched for the {len(needles)} messages, addresses "
        "and order numbers of this story, and for whatever looks like an address, a phone or a tracking number: "
        "[bold]nothing found[/]. A line that was planted is found."
    )


def _cost(console: Any, meter: Meter, figures: Figures) -> None:
    events = figures.counts["events_processed"]
    console.print(
        f"An event took {meter.units.write / events:.1f} write units and {meter.units.read / events:.1f} read units, what "
        "failed included."
    )


# --- pieces ------------------------------------------------------------------------------------------------------


async def _asks(stage: Stage, ticket: str, address: str, text: str, channel: str = "email") -> None:
    await stage.webhook(await stage.says(ticket, address, text, channel), 2)
    await stage.until_done()


async def _turn(stage: Stage, **position: Any) -> None:
    await stage.switch(**position)
    stage.clock.advance(CACHE_S + 1)


async def _state(stage: Stage, ticket: str) -> ConversationState:
    found = await stage.stores.for_component("api").run(patterns.state(ticket))
    if found is None:
        raise AssertionError(f"Nothing is known of {ticket}.")
    return found


async def _audit(stage: Stage) -> list[ActionAudit]:
    api = stage.stores.for_component("api")
    tickets = dict.fromkeys(each.ticket_id for each in stage.ledger)
    return [each for ticket in tickets for each in (await api.all(patterns.AUDIT.history(ticket))).items]


def _tell(stage: Stage, console: Any, ticket: str, name: str) -> None:
    for message in stage.messages(ticket):
        console.print(f"  [dim]{'we' if message.author == OURS else name}:[/] {message.text}")


def _ticket(stage: Stage, ticket: str) -> Any:
    return stage.sandbox.desk.ticket(ticket)


def _said(stage: Stage) -> list[str]:
    """Everything that a customer wrote."""
    tickets = dict.fromkeys(each.ticket_id for each in stage.ledger)
    return [m.text for each in tickets for m in stage.messages(each) if m.author != OURS]


def _expect(found: Any, wanted: Any) -> None:
    if found != wanted:
        raise AssertionError(f"Not as it should be: {found!r}, and it should be {wanted!r}.")
