"""The demo story: some days of a project with crashes, printed to the terminal and checked.

It runs on `demo_processes.py`, prints what happens and what it costs, and raises AssertionError if a result
is not as expected.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from agenticpm.model import patterns
from agenticpm.model.entities import ProjectId
from agenticpm.workers.cycle import CycleReport
from agenticpm.workers.loop import Loop
from agenticpm.workers.writers import Writers
from holdfast import Stores
from holdfast.core.clock import RunClock
from holdfast.guarantees import scan_files
from holdfast.runtime import Meter, meter_usage
from holdfast.web.sandbox_faults import Faults
from holdfast_demo.agenticpm.demo_processes import DemoProcesses, onboard_project, open_demo

SPONSOR: Final = "sponsor@example.com"
TOKEN: Final = "a-token-nobody-may-read"
BETA: Final = "Beta launch"


async def run_story(stores: Stores, console: Any, clock: RunClock, folder: Path) -> None:
    """Run the story and print it to a Rich console."""
    if stores.system is None:
        raise AssertionError("The story needs stores with a system.")
    with meter_usage() as meter:
        async with open_demo(stores, stores.system, clock, folder) as stage:
            project = await _show_onboarding(stage, console)
            await _show_first_cycle(stage, console, project)
            await _show_held_actions(stage, console, project)
            await _show_second_day(stage, console, project)
            await _show_decision(stage, console, project)
            await _show_crashes(stage, console, project)
            await _show_mails(stage, console, project)
            await _show_undo(stage, console, project)
            await _show_figures(stage, console, project, meter)
    _scan_for_secrets(folder, console)


# --- the days -----------------------------------------------------------------------------------------------


async def _show_onboarding(stage: DemoProcesses, console: Any) -> ProjectId:
    """Pause the sample's projects, create the story's project, and store the credentials and recipients."""
    console.rule("[bold]AgenticPM: a project manager that forgets nothing")
    console.print(
        "Sandboxes of Jira, a mailbox and a mail service run over HTTP. The API creates a project: the "
        "agent may act by itself, from an allow-list, and outgoing actions are held for 30 minutes first."
    )
    for each in (await stage.call_api("GET", "/projects"))["items"]:
        # The sample's projects have no tracker.
        await stage.call_api("PUT", f"/projects/{each['id']}/status", {"status": "paused"})
    project = await onboard_project(stage, config={"stakeholders": [SPONSOR], "mail": True})
    checked = await stage.call_api("POST", "/integrations/jira/check")
    _expect(checked["health"]["is_ok"], True)
    await stage.call_api("PUT", "/config/digest_recipients", {"value": SPONSOR, "by": "the sponsor"})
    await stage.call_api(
        "PUT", "/integrations/asana/credentials", {"base_url": "https://app.asana.com", "token": TOKEN}
    )
    console.print(f"  project [bold]MCU[/] is {project}; Jira is healthy")
    return project


async def _show_first_cycle(stage: DemoProcesses, console: Any, project: ProjectId) -> None:
    """Run the first cycle, print its results, and check that a second cycle finds nothing new."""
    console.rule("The first cycle")
    await stage.advance_to_morning()
    cycle = await _run_cycle(stage)
    _expect((cycle.tickets, cycle.errors), (47, []))
    _print_signals(console, cycle)
    state = await _load_content(stage, project, "delivery_state")
    console.print(f"The delivery state is [bold]{state['overall_status']}[/]. {state['status_summary']}")
    summary = (await _load_content(stage, project, "backlog_summary"))["summary"]
    counts = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in summary["by_status"].items())
    console.print(f"The backlog: {counts}; total {summary['total_items']}.")
    _expect(sum(summary["by_status"].values()), summary["total_items"])
    quiet = await _run_cycle(stage)
    _expect((quiet.tickets, quiet.signals, quiet.artefacts), (0, [], []))
    console.print("Fifteen minutes later nothing has changed: no signal is repeated, no version is written.")


async def _show_held_actions(stage: DemoProcesses, console: Any, project: ProjectId) -> None:
    """Cancel one held action, edit another, execute the rest after the hold, and check Jira's comments."""
    console.rule("Held actions")
    held = (await stage.call_api("GET", "/actions/held"))["items"]
    for each in held:
        console.print(f"  held: {each['description']}", markup=False)
    first, second = held[0], held[1]
    path = f"/projects/{project}/actions"
    await stage.call_api(
        "POST", f"{path}/{first['id']}/cancel", {"by": "the lead", "reason": "I have asked already"}
    )
    text = "Who can unblock this before Friday?"
    await stage.call_api("PATCH", f"{path}/{second['id']}", {"by": "the lead", "detail": {"text": text}})
    _expect(await stage.execute_due(), _build_empty_report())
    await stage.advance_past_hold()
    await stage.execute_due()
    written = [each["body"]["content"][0]["content"][0]["text"] for each in stage.tracker_effects]
    _expect((len(written), text in written), (len(held) - 1, True))
    status, reason = await stage.call_api_refused("POST", f"{path}/{second['id']}/cancel", {"by": "the lead"})
    _expect(status, 409)
    console.print(
        f"One is cancelled, one is edited. Half an hour later Jira has {len(written)} comments, one with the "
        f"edited text. Cancelling one of them now is refused: [dim]{reason}[/]"
    )


async def _show_second_day(stage: DemoProcesses, console: Any, project: ProjectId) -> None:
    """Change tickets, a milestone, the sprint and the mailbox, and check that each signal is reported."""
    console.rule("The second day")
    await stage.advance_to_morning()
    await stage.edit_ticket("MCU-142", flagged=False)
    await stage.edit_ticket("MCU-122", flagged=True)
    today = datetime.fromtimestamp(stage.clock.now(), UTC)
    stage.jira.data.put_version("MCU", BETA, releaseDate=(today + timedelta(days=60)).date().isoformat())
    for number in range(3):
        stage.clock.advance(60)
        stage.jira.data.create("MCU", f"Wish {number + 1} of the sponsor", sprint="Sprint 12", points=5)
    _receive_mail(stage, "MCU-142 will be delayed", "The vendor is late, this is at risk.")
    cycle = await _run_cycle(stage)
    _print_signals(console, cycle)
    kinds = Counter(str(each.kind) for each in cycle.signals)
    for kind in ("blocked", "unblocked", "new", "scope_creep", "slipping_milestone", "mail_mention"):
        if not kinds[kind]:
            raise AssertionError(f"No signal of kind {kind}: {dict(kinds)}")
    evidence = next(each for each in cycle.signals if each.kind == "blocked").evidence[0]
    console.print(
        f"Each has its evidence: {evidence.ticket}, {evidence.field}, before {evidence.before!r}, after "
        f"{evidence.after!r}."
    )


async def _show_decision(stage: DemoProcesses, console: Any, project: ProjectId) -> None:
    """Decide a question, check its entry in the decision log, and check that a second decision is refused."""
    console.rule("A question to a person")
    pending = (await stage.call_api("GET", "/escalations"))["items"]
    escalation = next(each for each in pending if each["projectId"] == project and "sprint" in each["title"])
    console.print(f"[bold]{escalation['title']}[/]: {escalation['context']['summary']}")
    for option in escalation["options"]:
        console.print(f"  {option['option']}: + {'; '.join(option['pros'])}  − {'; '.join(option['cons'])}")
    path = f"/projects/{project}/escalations/{escalation['id']}/decision"
    body = {"decision": "Move it to the backlog", "notes": "The goal matters more.", "by": "the sponsor"}
    await stage.call_api("POST", path, body)
    (decision,) = (await _load_content(stage, project, "decision_log"))["decisions"]
    _expect(
        (decision["id"], decision["decision"], decision["made_by"]),
        ("D001", "Move it to the backlog", "the sponsor"),
    )
    status, reason = await stage.call_api_refused("POST", path, body)
    _expect(status, 409)
    console.print(
        f"Decided, and in the same transaction added to the decision log as {decision['id']}. A second "
        f"decision: [dim]{reason}[/]"
    )


async def _show_crashes(stage: DemoProcesses, console: Any, project: ProjectId) -> None:
    """Interrupt the loop at each of its steps and check that a signal is reported once.

    A killed process leaves the same state behind.
    """
    console.rule("The loop crashes at every step")
    await stage.edit_ticket("MCU-123", flagged=True)
    reported_before = await _count_signals(stage, project)
    died = []
    stores = stage.stores.for_component("loop")
    stage.clock.advance(15 * 60)
    for number in range(1, 100):
        step = _KillAtStep(number)
        loop = Loop(stores, stage.clients, Writers(stores), on_step=step)
        try:
            await loop.tick()
            break
        except _Killed as death:
            died.append(str(death))
            # A killed process does not release its lease: the lease expires.
            stage.clock.advance(patterns.LEASE_S + 1)
    reported = await _count_signals(stage, project) - reported_before
    _expect(sorted(reported.elements()), ["MCU-123"])
    console.print(
        f"MCU-123 is flagged, and the loop is interrupted {len(died)} times, each time one step later. (Here "
        "that is an exception in this process. The tests kill real processes.) Its signal was reported "
        "[bold]once[/]."
    )


async def _show_mails(stage: DemoProcesses, console: Any, project: ProjectId) -> None:
    """Cancel one digest mail; send the next one despite a lost answer, and check that one mail was sent."""
    console.rule("Two mails")
    digest = await stage.make_daily_digest()
    if digest is None:
        raise AssertionError("The digest of this day is missing.")
    console.print("The digest of the day is held as a mail to the sponsor, who cancels it:")
    console.print("\n".join(f"  [dim]{line}[/]" for line in digest.text.splitlines()[:6]))
    (mail,) = [
        each
        for each in (await stage.call_api("GET", "/actions/held"))["items"]
        if "digest" in each["description"]
    ]
    await stage.call_api(
        "POST", f"/projects/global/actions/{mail['id']}/cancel", {"by": SPONSOR, "reason": "Not today"}
    )
    await stage.advance_to_morning()
    _expect(await stage.make_daily_digest() is not None, True)
    await stage.advance_past_hold()
    stage.resend.faults = Faults(failed_after=1.0)
    first = await stage.execute_due()
    stage.resend.faults = Faults()
    stage.clock.advance(120)
    second = await stage.execute_due()
    _expect((len(first.later) > 0, len(second.later)), (True, 0))
    keys = [each["key"] for each in stage.sent_mails]
    _expect((len(keys), len(set(keys))), (1, 1))
    console.print(
        "The next one is sent. The mail service sends it but returns an error; two minutes later the "
        f"executor retries with the same key, which the service knows: [bold]{len(keys)} mail[/] was sent, "
        f"“{stage.sent_mails[0]['subject']}”."
    )


async def _show_undo(stage: DemoProcesses, console: Any, project: ProjectId) -> None:
    """Undo the last delivery state, and check that a second undo of that version is refused."""
    console.rule("Undo")
    path = f"/projects/{project}/artefacts/delivery_state"
    now = await stage.call_api("GET", path)
    found = await stage.call_api("GET", f"{path}/diff")
    for line in found["lines"][:3]:
        console.print(f"  {line}", markup=False)
    undone = await stage.call_api("POST", f"{path}/undo", **{"if-match": f'"{now["version"]}"'})
    _expect(undone["version"], now["version"] + 1)
    status, reason = await stage.call_api_refused(
        "POST", f"{path}/undo", **{"if-match": f'"{now["version"]}"'}
    )
    _expect(status in (409, 412), True)
    console.print(
        f"Undone, as version {undone['version']}. An undo of version {now['version']} is refused: "
        f"[dim]{reason}[/]"
    )


# --- results ------------------------------------------------------------------------------------------


async def _show_figures(stage: DemoProcesses, console: Any, project: ProjectId, meter: Meter) -> None:
    """Print the totals and the used capacity, and check that each external effect happened once."""
    console.rule("In figures")
    references = [each["reference"] for each in (*stage.tracker_effects, *stage.sent_mails)]
    _expect(len(references), len(set(references)))
    events = Counter(each.event_type for each in await stage.stores.all(patterns.project_events(project)))
    cycles = events["heartbeat"]
    console.print(
        f"{cycles} cycles, {events['signal_detected']} signals, {events['artefact_updated']} versions of "
        f"artefacts, {len(references)} external effects, each once."
    )
    console.print(
        f"Everything together used {meter.units.write:.0f} write units and {meter.units.read:.0f} read units."
    )


def _scan_for_secrets(folder: Path, console: Any) -> None:
    """Check that no file contains the credential, and that a planted one is found."""
    _expect([each.file for each in scan_files([folder], needles=[TOKEN]) if each.kind == "needle"], [])
    planted = folder / "planted"
    planted.write_text(TOKEN)
    found = {each.kind for each in scan_files([planted], needles=[TOKEN])}
    planted.unlink()
    _expect("needle" in found, True)
    console.print(
        "All files were searched for the Asana token that was stored at the beginning: [bold]nothing "
        "found[/]. A planted token is found."
    )


# --- helpers ------------------------------------------------------------------------------------------------


class _Killed(BaseException):
    """A simulated kill: no handler catches it."""


class _KillAtStep:
    """A step hook that raises `_Killed` at the step with the given number."""

    def __init__(self, number: int) -> None:
        self.left = number

    def __call__(self, step: str) -> None:
        self.left -= 1
        if self.left == 0:
            raise _Killed(step)


async def _run_cycle(stage: DemoProcesses) -> CycleReport:
    """Run one turn and return its only cycle. Raise AssertionError if the loop did not run."""
    turn = await stage.run_turn()
    if turn.skip_reason is not None:
        raise AssertionError(f"The loop did not run: {turn.skip_reason}")
    (cycle,) = turn.cycles
    return cycle


async def _count_signals(stage: DemoProcesses, project: ProjectId) -> Counter[str]:
    """Count the reported signals of the project by subject."""
    found = await stage.stores.all(patterns.project_events(project))
    return Counter(
        each.detail["subject"] for each in found if each.event_type == "signal_detected" and each.detail
    )


async def _load_content(stage: DemoProcesses, project: ProjectId, type: str) -> Any:
    """Return the content of an artefact from the API."""
    return (await stage.call_api("GET", f"/projects/{project}/artefacts/{type}"))["content"]


def _receive_mail(stage: DemoProcesses, subject: str, text: str) -> None:
    stage.outlook.receive(subject=subject, bodyPreview=text, **{"from": SPONSOR})


def _print_signals(console: Any, cycle: CycleReport) -> None:
    for each in cycle.signals:
        console.print(f"  [dim]{each.severity}[/] {each.kind}: ", end="")
        console.print(each.summary, markup=False)


def _build_empty_report() -> Any:
    from agenticpm.workers.actions import ExecutionReport

    return ExecutionReport()


def _expect(found: Any, wanted: Any) -> None:
    """Raise AssertionError if the values differ."""
    if found != wanted:
        raise AssertionError(f"Unexpected result {found!r}: expected {wanted!r}.")
