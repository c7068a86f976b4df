"""Generator of the AgenticPM archive: a data folder with work in flight, and notes for the tests.

    python -m tests.corpus.write_agenticpm OUT

Two days of a project. At the end the loop is killed between two projects, and the executor is killed twice:
after it sent a mail and after it wrote a comment, before it recorded the outcome.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from unittest.mock import patch

from agenticpm.model import artefacts
from holdfast.web.sandbox_faults import Faults
from tests.corpus.agenticpm_stage import JIRA, NAME, OUTLOOK, Stage, open_stage
from tests.corpus.archive import SUFFIX, pack, save_notes
from tests.corpus.machine_name import remove_machine_name
from tests.processes import Process
from tests.systems.agenticpm.faults.agenticpm_environment import TURN, Worker
from tests.systems.agenticpm.faults.agenticpm_process import KillPoint, Role

# A Wednesday, five past eight in Sydney: the agent works from eight to six.
BEGINS: Final = datetime(2026, 2, 3, 21, 5, tzinfo=UTC)
DAYS: Final = ("2026-02-03", "2026-02-04")
SPONSOR: Final = "sponsor@example.com"
ASANA: Final = {"base_url": "https://app.asana.com", "token": "the-asana-token-of-the-corpus"}
# The mailer forgets an idempotency key after a day.
KEY_FORGOTTEN_S: Final = 25 * 3600
# Longer than the polling interval of the loop. An action is held for less than two of them.
INTERVAL_S: Final = 16 * 60
EDITED_TEXT: Final = "Which criteria must this meet before Friday?"

Ids = dict[str, str]


def main(folder: Path) -> None:
    """Write the archive and its notes into `folder`."""
    with TemporaryDirectory() as scratch:
        data = Path(scratch) / "data"
        data.mkdir()
        notes = asyncio.run(_write(data, Path(scratch)))
        remove_machine_name(data / "tables.db")
        pack(data, folder / f"{NAME}{SUFFIX}")
    save_notes(folder, NAME, notes)


async def _write(data: Path, scratch: Path) -> dict[str, Any]:
    """Run the two days on a new data folder and return the notes."""
    async with open_stage(data, scratch / "clock", BEGINS.timestamp()) as stage:
        projects = await _set_up(stage)
        first = await _first_day(stage, projects)
        second = await _second_day(stage, projects)
        killed = await _kill_processes(stage, projects, second)
        stage.clock.advance(1)
        return {
            "begins": BEGINS.timestamp(),
            "at": stage.clock.now(),
            "projects": projects,
            "actions": first | second,
            "steps": [
                asdict(each)
                for each in sorted([*stage.steps, *stage.build_effect_steps()], key=lambda each: each.at)
            ],
            # The Outlook sandbox recognizes its own links by this.
            "outlook_age": stage.outlook._generation,
            "lists": await _note_lists(stage, projects),
            "failures": await _list_failures(stage, projects, first | second),
            **killed,
        }


async def _set_up(stage: Stage) -> Ids:
    """Put credentials, settings and projects; one check of an integration fails."""
    wrong = {**JIRA, "base_url": f"{JIRA['base_url']}/nowhere"}
    await stage.ask("PUT", "/integrations/jira/credentials", wrong)
    await stage.ask("POST", "/integrations/jira/check")
    await stage.ask("PUT", "/integrations/jira/credentials", JIRA)
    await stage.ask("POST", "/integrations/jira/check")
    await stage.ask("PUT", "/integrations/outlook/credentials", OUTLOOK)
    await stage.ask("PUT", "/integrations/asana/credentials", ASANA)
    await stage.ask("POST", "/integrations/asana/deactivate")
    await stage.ask("PUT", "/config/digest_recipients", {"value": SPONSOR, "by": "the sponsor"})
    stakeholders = {"stakeholders": [SPONSOR]}
    return {
        "mcu": await _create_project(stage, "MCU", "tactical", stakeholders | {"mail": True}),
        # The agent must ask before it comments here.
        "web": await _create_project(stage, "WEB", "tactical", stakeholders | {"allowed_actions": ["mail"]}),
        "quiet": await _create_project(stage, "QUIET", "artefact", {}),
        "asana": await _create_project(stage, "1200", "artefact", {}, source="asana"),
        "paused": await _create_project(stage, "OLD", "artefact", {}, status="paused"),
        "archived": await _create_project(stage, "OLDER", "artefact", {}, status="archived"),
    }


async def _create_project(
    stage: Stage,
    key: str,
    level: str,
    config: dict[str, Any],
    *,
    source: str = "jira",
    status: str = "active",
) -> str:
    """Create a project and return its id."""
    body = {"name": f"Project {key}", "source": source, "sourceProjectKey": key}
    made = await stage.ask("POST", "/projects", {**body, "autonomyLevel": level, "config": config})
    if status != "active":
        await stage.ask("PUT", f"/projects/{made['id']}/status", {"status": status})
    return str(made["id"])


# --- the days -----------------------------------------------------------------------------------------------


async def _first_day(stage: Stage, projects: Ids) -> Ids:
    """Run the first day: comments are written, edited and refused, and a cycle fails.

    The outcome of the digest's mail stays unknown. Return the ids of the actions by their state.
    """
    page = {"project": "WEB", "summary": "A page", "status": "In Progress", "criteria": "It loads."}
    for is_flagged in (True, True, True, False):
        await stage.change("jira", "/sandbox/issues", page | {"flagged": is_flagged})
    await stage.change("jira", "/sandbox/issues", page | {"project": "QUIET"})
    stage.clock.advance(1)
    await stage.run("loop", "loop")
    await stage.run("loop", "daily")
    held = await _list_held_actions(stage)
    path = f"/projects/{projects['mcu']}/actions"
    await stage.ask("PATCH", f"{path}/{held['MCU-143']}", {"by": "the lead", "detail": {"text": EDITED_TEXT}})
    stage.clock.advance(INTERVAL_S)
    stage.jira.faults = Faults(failed_before=1.0)
    await stage.run("loop", "loop")
    stage.jira.faults = Faults()
    await stage.change("jira", "/sandbox/issues/MCU-146", method="DELETE")
    stage.clock.advance(INTERVAL_S)
    # The mailer fails before it sends, which the agent cannot know.
    stage.resend.faults = Faults(failed_before=1.0)
    await stage.run("executor", "held-actions")
    stage.resend.faults = Faults()
    stage.clock.advance(KEY_FORGOTTEN_S)
    await stage.run("executor", "held-actions")
    return {
        "done": held["MCU-143"],
        "refused": held["MCU-146"],
        "outcome_unknown": held["digest"],
    }


async def _second_day(stage: Stage, projects: Ids) -> Ids:
    """Run the second day: people work at the tracker, the agent proposes and asks, people decide some of it.

    Return the ids of the actions by the state in which they will be left.
    """
    now = datetime.fromtimestamp(stage.clock.now(), UTC)
    await _raise_risk(stage, projects["mcu"], now)
    await _put_large_artefact(stage, projects["web"], now)
    await _work_at_the_tracker(stage, now)
    stage.clock.advance(60)
    await stage.run("loop", "loop")
    await stage.run("loop", "daily")
    held = await _list_held_actions(stage)
    path = f"/projects/{projects['mcu']}/actions"
    await stage.ask("PATCH", f"{path}/{held['MCU-158']}", {"by": "the lead", "detail": {"text": EDITED_TEXT}})
    await stage.ask(
        "POST", f"{path}/{held['MCU-159']}/cancel", {"by": "the lead", "reason": "I asked already"}
    )
    question = (await _list_questions(stage))["WEB-1"]
    decision = {"decision": "Leave it", "by": "the sponsor"}
    await stage.ask("POST", f"/projects/{projects['web']}/escalations/{question}/decision", decision)
    await _undo(stage, projects["quiet"])
    return {
        "mail_in_work": held["risk"],
        "comment_in_work": held["MCU-122"],
        "failed_for_now": held["MCU-157"],
        "held": held["MCU-158"],
        "cancelled": held["MCU-159"],
        "digest": held["digest"],
    }


async def _raise_risk(stage: Stage, project: str, now: datetime) -> None:
    """Add an overdue risk, about which the agent wants to mail the stakeholders."""
    path = f"/projects/{project}/artefacts/raid_log"
    log = await stage.ask("GET", path)
    log["content"]["items"].append(_build_risk("R900", now, due=now - timedelta(days=1)))
    await stage.ask("PUT", path, log["content"], **{"if-match": f'"{log["version"]}"'})


async def _put_large_artefact(stage: Stage, project: str, now: datetime) -> None:
    """Put an artefact that is stored as an object. A lower limit keeps the archive small."""
    path = f"/projects/{project}/artefacts/raid_log"
    log = await stage.ask("GET", path)
    log["content"]["items"].append(_build_risk("R901", now, due=now + timedelta(days=90)))
    with patch.object(artefacts, "MAX_CONTENTS_BYTES", 1):
        await stage.ask("PUT", path, log["content"], **{"if-match": f'"{log["version"]}"'})


async def _undo(stage: Stage, project: str) -> None:
    """Undo what the agent wrote, as a person. The agent keeps it so until it knows something new."""
    path = f"/projects/{project}/artefacts/raid_log"
    log = await stage.ask("GET", path)
    await stage.ask("POST", f"{path}/undo", **{"if-match": f'"{log["version"]}"'})


def _build_risk(id: str, now: datetime, *, due: datetime) -> dict[str, Any]:
    return {
        "id": id,
        "type": "risk",
        "title": f"Risk {id} of the corpus",
        "description": "The vendor promised a date.",
        "severity": "high",
        "status": "open",
        "owner": "Ada",
        "raised_date": _format_time(now - timedelta(days=9)),
        "due_date": _format_time(due),
        "mitigation": "Ask weekly",
        "resolution": None,
        "resolved_date": None,
        "source": "user_added",
        "source_reference": None,
        "last_reviewed": _format_time(now),
    }


def _format_time(moment: datetime) -> str:
    """Format a time as the artefacts store it."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


async def _work_at_the_tracker(stage: Stage, now: datetime) -> None:
    """Change tickets, add wishes and a release, and receive a mail, as people do."""
    issues = "/sandbox/issues"
    stage.clock.advance(60)
    await stage.change("jira", issues, {"key": "MCU-142", "flagged": False})
    await stage.change("jira", issues, {"key": "QUIET-1", "flagged": True})
    await stage.change("jira", issues, {"key": "MCU-122", "flagged": True})
    for number in range(1, 4):
        stage.clock.advance(60)
        wish = {"project": "MCU", "summary": f"Wish {number}", "sprint": "Sprint 12", "points": 5}
        await stage.change("jira", issues, wish)
    release = {"project": "MCU", "name": "Beta launch", "releaseDate": _format_day(now + timedelta(days=60))}
    await stage.change("jira", "/sandbox/versions", release)
    mail = {
        "subject": "MCU-142 will be delayed",
        "bodyPreview": "The vendor is late: this is at risk.",
        "from": SPONSOR,
    }
    await stage.change("outlook", "/sandbox/messages", mail)


def _format_day(moment: datetime) -> str:
    return moment.date().isoformat()


# --- the kills ----------------------------------------------------------------------------------------------


async def _kill_processes(stage: Stage, projects: Ids, actions: Ids) -> dict[str, Any]:
    """Kill the executor twice and the loop once; return the lease and the signals for the notes."""
    path = f"/projects/{projects['mcu']}/actions"
    stage.clock.advance(INTERVAL_S)
    # Found by the killed loop or by its successor.
    await stage.change("jira", "/sandbox/issues", {"key": "MCU-123", "flagged": True})
    await stage.change("jira", "/sandbox/issues", {"key": "WEB-4", "flagged": True})
    for id in (actions["mail_in_work"], actions["comment_in_work"]):
        stage.clock.advance(1)
        await stage.ask("POST", f"{path}/{id}/approve", {"by": "the lead"})
        await _run_until_killed(stage, "executor", KillPoint("act", 2))
    stage.clock.advance(1)
    await stage.ask("POST", f"{path}/{actions['failed_for_now']}/approve", {"by": "the lead"})
    stage.jira.faults = Faults(failed_before=1.0)
    await stage.run("executor", "held-actions")
    stage.jira.faults = Faults()
    stage.clock.advance(1)
    await _run_until_killed(stage, "loop", KillPoint("step", 1, "committed"))
    loop = (await stage.ask("GET", "/agent"))["loop"]
    wanted = {("blocked", "MCU-123"), ("blocked", "WEB-4")}
    return {
        "lease": {"holder": loop["holder"], "token": loop["token"]},
        "signals": sorted(await _list_signals(stage) | wanted),
    }


async def _run_until_killed(stage: Stage, role: Role, death: KillPoint) -> None:
    """Run a worker process until it kills itself at `death`; fail if it ends in another way."""
    worker = Worker(Process(TURN, role, death, variables=stage.variables))
    result = await worker.wait_until_ended()
    assert result is None, f"the {role} was not killed: {result}"


# --- notes --------------------------------------------------------------------------------------------------


async def _list_held_actions(stage: Stage) -> Ids:
    """Return the ids of the held actions, by ticket; of mails, by their subject."""
    found = {}
    for each in await stage.list_items("/actions/held"):
        kind = "digest" if each["projectId"] is None else "risk"
        found[each["detail"].get("ticket", kind)] = str(each["id"])
    return found


async def _list_questions(stage: Stage) -> Ids:
    """Return the ids of the open questions, by their subject."""
    return {each["context"]["subject"]: str(each["id"]) for each in await stage.list_items("/escalations")}


async def _list_signals(stage: Stage) -> set[tuple[str, str]]:
    """Return the kind and subject of every detected signal."""
    events = [each for day in DAYS for each in await stage.list_items(f"/events/{day}")]
    details = [each["detail"] for each in events if each["eventType"] == "signal_detected"]
    return {(each["signal"], each["subject"]) for each in details}


async def _list_failures(stage: Stage, projects: Ids, actions: Ids) -> dict[str, str]:
    """Return the recorded names of failures: of the tracker in two projects, and of actions."""
    names = {}
    for name in ("mcu", "asana"):
        events = await stage.list_items(f"/projects/{projects[name]}/events?limit=200")
        failed = [each["detail"] for each in events if each["eventType"] == "error"]
        [names[name]] = {each["error"] for each in failed if "error" in each}
    refused = await stage.ask("GET", f"/projects/{projects['mcu']}/actions/{actions['refused']}")
    unknown = await stage.ask("GET", f"/projects/global/actions/{actions['outcome_unknown']}")
    return {**names, "refused": refused["error"], "outcome_unknown": unknown["refused"]}


async def _note_lists(stage: Stage, projects: Ids) -> list[dict[str, Any]]:
    """Note lists of which a client has read the first page: the path, the cursor and the ids that follow."""
    paths = [
        "/projects?limit=2",
        "/events?limit=7",
        *(f"/events/{day}?limit=5" for day in DAYS),
        "/escalations?limit=1",
        "/actions/held?limit=2",
        *(f"/projects/{projects[name]}/events?limit=5" for name in ("mcu", "web")),
        *(f"/projects/{scope}/actions?limit=1" for scope in (projects["mcu"], "global")),
    ]
    found = []
    for path in paths:
        first = await stage.get_page(path)
        assert first["cursor"] is not None, f"{path} has one page only"
        rest = await stage.list_items(path, first["cursor"])
        ids = {"first": _list_ids(first["items"]), "rest": _list_ids(rest)}
        found.append({"path": path, "cursor": first["cursor"], **ids})
    return found


def _list_ids(items: list[Any]) -> list[str]:
    return [each["id"] for each in items]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
