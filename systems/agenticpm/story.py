"""AgenticPM's story, told at the terminal: a few days of a project, with an agent that forgets nothing and repeats nothing.

It plays on a stage of its own (`stage.py`), prints what happened and what it cost, and raises where something is not as
it should be.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from agenticpm import patterns
from agenticpm.loop import Loop
from agenticpm.model import ProjectId
from agenticpm.rounds import Cycle
from agenticpm.stage import Stage, onboarded, staged
from agenticpm.writers import Writers
from holdfast import Meter, Stores, metered
from holdfast.clock import RunClock
from holdfast.guarantees import scan_files
from holdfast.web.sandboxes import Faults

SPONSOR: Final = "sponsor@example.com"
TOKEN: Final = "a-token-nobody-may-read"
BETA: Final = "Beta launch"


async def story(stores: Stores, console: Any, clock: RunClock, folder: Path) -> None:
    """Tells it to a Rich console."""
    if stores.system is None:
        raise AssertionError("The story is of a system, and these stores have none.")
    with metered() as meter:
        async with staged(stores, stores.system, clock, folder) as stage:
            project = await _onboarding(stage, console)
            await _first_look(stage, console, project)
            await _held(stage, console, project)
            await _day_two(stage, console, project)
            await _decision(stage, console, project)
            await _crash(stage, console, project)
            await _mails(stage, console, project)
            await _undo(stage, console, project)
            await _figures(stage, console, project, meter)
    _scan(folder, console)


# --- the days ----------------------------------------------------------------------------------------------------


async def _onboarding(stage: Stage, console: Any) -> ProjectId:
    console.rule("[bold]AgenticPM: a project manager that forgets nothing")
    console.print(
        "Jira, a mailbox and a mailer of our own making answer over HTTP. A project is onboarded by the API: the agent may "
        "act by itself, from a list of what is allowed, and what goes outward is held for 30 minutes first."
    )
    for each in (await stage.ask("GET", "/projects"))["items"]:
        # Those of the sample have no tracker to be read.
        await stage.ask("PUT", f"/projects/{each['id']}/status", {"status": "paused"})
    project = await onboarded(stage, config={"stakeholders": [SPONSOR], "mail": True})
    checked = await stage.ask("POST", "/integrations/jira/check")
    _expect(checked["health"]["is_ok"], True)
    await stage.ask("PUT", "/config/digest_recipients", {"value": SPONSOR, "by": "the sponsor"})
    await stage.ask(
        "PUT", "/integrations/asana/credentials", {"base_url": "https://app.asana.com", "token": TOKEN}
    )
    console.print(f"  project [bold]MCU[/] is {project}; Jira says that it is well")
    return project


async def _first_look(stage: Stage, console: Any, project: ProjectId) -> None:
    console.rule("The first look")
    await stage.morning()
    cycle = await _cycle(stage)
    _expect((cycle.tickets, cycle.errors), (47, []))
    _tell(console, cycle)
    state = await _content(stage, project, "delivery_state")
    console.print(f"The delivery state is [bold]{state['overall_status']}[/]. {state['status_summary']}")
    summary = (await _content(stage, project, "backlog_summary"))["summary"]
    counts = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in summary["by_status"].items())
    console.print(f"The backlog: {counts}; together {summary['total_items']}.")
    _expect(sum(summary["by_status"].values()), summary["total_items"])
    quiet = await _cycle(stage)
    _expect((quiet.tickets, quiet.signals, quiet.artefacts), (0, [], []))
    console.print(
        "A quarter of an hour later nothing has changed: no signal is told again, no version is written."
    )


async def _held(stage: Stage, console: Any, project: ProjectId) -> None:
    console.rule("What the agent would do")
    held = (await stage.ask("GET", "/actions/held"))["items"]
    for each in held:
        console.print(f"  held: {each['description']}", markup=False)
    first, second = held[0], held[1]
    path = f"/projects/{project}/actions"
    await stage.ask(
        "POST", f"{path}/{first['id']}/cancel", {"by": "the lead", "reason": "I have asked already"}
    )
    text = "Who can unblock this before Friday?"
    await stage.ask("PATCH", f"{path}/{second['id']}", {"by": "the lead", "detail": {"text": text}})
    _expect(await stage.execute(), _nothing())
    await stage.hold_over()
    await stage.execute()
    written = [each["body"]["content"][0]["content"][0]["text"] for each in stage.at_tracker]
    _expect((len(written), text in written), (len(held) - 1, True))
    status, reason = await stage.refused("POST", f"{path}/{second['id']}/cancel", {"by": "the lead"})
    _expect(status, 409)
    console.print(
        f"One is cancelled, one is edited. Half an hour later {len(written)} comments stand in Jira, the edited one as it "
        f"was edited. To cancel one of them now is refused: [dim]{reason}[/]"
    )


async def _day_two(stage: Stage, console: Any, project: ProjectId) -> None:
    console.rule("The second day")
    await stage.morning()
    await stage.edit("MCU-142", flagged=False)
    await stage.edit("MCU-122", flagged=True)
    today = datetime.fromtimestamp(stage.clock.now(), UTC)
    stage.jira.desk.put_version("MCU", BETA, releaseDate=(today + timedelta(days=60)).date().isoformat())
    for number in range(3):
        stage.clock.advance(60)
        stage.jira.desk.create("MCU", f"Wish {number + 1} of the sponsor", sprint="Sprint 12", points=5)
    _hears(stage, "MCU-142 will be delayed", "The vendor is late, this is at risk.")
    cycle = await _cycle(stage)
    _tell(console, cycle)
    kinds = Counter(str(each.kind) for each in cycle.signals)
    for kind in ("blocked", "unblocked", "new", "scope_creep", "slipping_milestone", "mail_mention"):
        if not kinds[kind]:
            raise AssertionError(f"No signal of the kind {kind} was told: {dict(kinds)}")
    evidence = next(each for each in cycle.signals if each.kind == "blocked").evidence[0]
    console.print(
        f"Each has its evidence: {evidence.ticket}, {evidence.field}, before {evidence.before!r}, after {evidence.after!r}."
    )


async def _decision(stage: Stage, console: Any, project: ProjectId) -> None:
    console.rule("A person is asked")
    pending = (await stage.ask("GET", "/escalations"))["items"]
    asked = next(each for each in pending if each["projectId"] == project and "sprint" in each["title"])
    console.print(f"[bold]{asked['title']}[/]: {asked['context']['summary']}")
    for option in asked["options"]:
        console.print(f"  {option['option']}: + {'; '.join(option['pros'])}  − {'; '.join(option['cons'])}")
    path = f"/projects/{project}/escalations/{asked['id']}/decision"
    body = {"decision": "Move it to the backlog", "notes": "The goal matters more.", "by": "the sponsor"}
    await stage.ask("POST", path, body)
    (made,) = (await _content(stage, project, "decision_log"))["decisions"]
    _expect(
        (made["id"], made["decision"], made["made_by"]), ("D001", "Move it to the backlog", "the sponsor")
    )
    status, reason = await stage.refused("POST", path, body)
    _expect(status, 409)
    console.print(
        f"Decided, and in the same moment in the decision log as {made['id']}. Again: [dim]{reason}[/]"
    )


async def _crash(stage: Stage, console: Any, project: ProjectId) -> None:
    """The loop is broken off at each of its steps. A process that is killed leaves the same behind."""
    console.rule("The loop dies, at every step")
    await stage.edit("MCU-123", flagged=True)
    told_before = await _signals(stage, project)
    died = []
    stores = stage.stores.for_component("loop")
    stage.clock.advance(15 * 60)
    for number in range(1, 100):
        step = _Deadly(number)
        loop = Loop(stores, stage.parties, Writers(stores), step=step)
        try:
            await loop.tick()
            break
        except _Died as death:
            died.append(str(death))
            # Who is killed gives no lease back: it ends by its time.
            stage.clock.advance(patterns.LEASE_S + 1)
    told = await _signals(stage, project) - told_before
    _expect(sorted(told.elements()), ["MCU-123"])
    console.print(
        f"MCU-123 is flagged, and the loop is broken off {len(died)} times on its way, each time one step further. (In this "
        "story that is an error in this process. The tests kill real ones.) Its signal was told [bold]once[/]."
    )


async def _mails(stage: Stage, console: Any, project: ProjectId) -> None:
    console.rule("Two mails")
    digest = await stage.daily()
    if digest is None:
        raise AssertionError("There is no digest of this day.")
    console.print("The digest of the day is held as a mail to the sponsor, who cancels it:")
    console.print("\n".join(f"  [dim]{line}[/]" for line in digest.text.splitlines()[:6]))
    (mail,) = [
        each for each in (await stage.ask("GET", "/actions/held"))["items"] if "digest" in each["description"]
    ]
    await stage.ask(
        "POST", f"/projects/global/actions/{mail['id']}/cancel", {"by": SPONSOR, "reason": "Not today"}
    )
    await stage.morning()
    _expect(await stage.daily() is not None, True)
    await stage.hold_over()
    stage.resend.faults = Faults(failed_after=1.0)
    first = await stage.execute()
    stage.resend.faults = Faults()
    stage.clock.advance(120)
    second = await stage.execute()
    _expect((len(first.later) > 0, len(second.later)), (True, 0))
    keys = [each["key"] for each in stage.mails]
    _expect((len(keys), len(set(keys))), (1, 1))
    console.print(
        "The next one goes out. The mailer sends it and answers with an error; two minutes later it is asked again, under the "
        f"same key, and knows it: [bold]{len(keys)} mail[/] was sent, “{stage.mails[0]['subject']}”."
    )


async def _undo(stage: Stage, console: Any, project: ProjectId) -> None:
    console.rule("One step back")
    path = f"/projects/{project}/artefacts/delivery_state"
    now = await stage.ask("GET", path)
    found = await stage.ask("GET", f"{path}/diff")
    for line in found["lines"][:3]:
        console.print(f"  {line}", markup=False)
    undone = await stage.ask("POST", f"{path}/undo", **{"if-match": f'"{now["version"]}"'})
    _expect(undone["version"], now["version"] + 1)
    status, reason = await stage.refused("POST", f"{path}/undo", **{"if-match": f'"{now["version"]}"'})
    _expect(status in (409, 412), True)
    console.print(
        f"Undone, as version {undone['version']}. Who still looks at version {now['version']} is told: [dim]{reason}[/]"
    )


# --- what remains of it ------------------------------------------------------------------------------------------


async def _figures(stage: Stage, console: Any, project: ProjectId, meter: Meter) -> None:
    console.rule("In figures")
    references = [each["reference"] for each in (*stage.at_tracker, *stage.mails)]
    _expect(len(references), len(set(references)))
    events = Counter(each.event_type for each in await stage.stores.all(patterns.project_events(project)))
    cycles = events["heartbeat"]
    console.print(
        f"{cycles} cycles, {events['signal_detected']} signals, {events['artefact_updated']} versions of artefacts, "
        f"{len(references)} effects outside, each once."
    )
    console.print(
        f"All of it took {meter.units.write:.0f} write units and {meter.units.read:.0f} read units."
    )


def _scan(folder: Path, console: Any) -> None:
    """No credential in no file. A planted one must be found."""
    _expect([each.file for each in scan_files([folder], needles=[TOKEN]) if each.kind == "needle"], [])
    planted = folder / "planted"
    planted.write_text(TOKEN)
    found = {each.kind for each in scan_files([planted], needles=[TOKEN])}
    planted.unlink()
    _expect("needle" in found, True)
    console.print(
        "The token of Asana that was put in at the beginning was searched for in all files: [bold]nothing found[/]. A planted one is."
    )


# --- pieces ------------------------------------------------------------------------------------------------------


class _Died(BaseException):
    """What a kill does, as far as one process can play it: nothing catches it."""


class _Deadly:
    """Dies at the so-manieth step."""

    def __init__(self, number: int) -> None:
        self.left = number

    def __call__(self, step: str) -> None:
        self.left -= 1
        if self.left == 0:
            raise _Died(step)


async def _cycle(stage: Stage) -> Cycle:
    turn = await stage.turn()
    if turn.why_not is not None:
        raise AssertionError(f"The loop did not go round: {turn.why_not}")
    (cycle,) = turn.cycles
    return cycle


async def _signals(stage: Stage, project: ProjectId) -> Counter[str]:
    found = await stage.stores.all(patterns.project_events(project))
    return Counter(
        each.detail["subject"] for each in found if each.event_type == "signal_detected" and each.detail
    )


async def _content(stage: Stage, project: ProjectId, type: str) -> Any:
    return (await stage.ask("GET", f"/projects/{project}/artefacts/{type}"))["content"]


def _hears(stage: Stage, subject: str, text: str) -> None:
    stage.outlook.receive(subject=subject, bodyPreview=text, **{"from": SPONSOR})


def _tell(console: Any, cycle: Cycle) -> None:
    for each in cycle.signals:
        console.print(f"  [dim]{each.severity}[/] {each.kind}: ", end="")
        console.print(each.summary, markup=False)


def _nothing() -> Any:
    from agenticpm.actions import Executed

    return Executed()


def _expect(found: Any, wanted: Any) -> None:
    if found != wanted:
        raise AssertionError(f"Not as it should be: {found!r}, and it should be {wanted!r}.")
