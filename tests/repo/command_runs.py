"""Run every command that answers in JSON on a small data folder, and describe the shapes of the answers.

The folder holds sample data of every system at a fixed time. Examples of access patterns add what the sample
data lacks, so that no list is empty.
"""

from __future__ import annotations

import asyncio
import io
import json
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from unittest import mock

from typer.main import get_command

from agenticpm.model.entities import Action
from agenticpm.model.patterns import ACTION_QUEUE
from benchmarks import report
from benchmarks.harness.measurement import Figure
from holdfast.cli.app import app
from holdfast.config.settings import FILE_VARIABLE, Settings
from holdfast.core.clock import RunClock
from holdfast.model.patterns import Pattern
from holdfast.model.system import System
from holdfast.runtime import open_stores
from holdfast.web.demo_env import patch_environ
from holdfast_demo.pagw.sample.bundles import build_request_bundle
from tests.postgres import connect, create_database
from tests.repo.code import load_systems
from tests.repo.shapes import describe_values

# 2026-12-01: later than every time in an example of an access pattern.
NOW_S: Final = 1_796_083_200.0
# A ULID of that time.
ACTION_ID: Final = "01M8QEDC008QSNA2WPRDYN2TVZ"
# Variables of the developer that would change an answer.
FOREIGN: Final = ("HOLDFAST_", "AGENTICPM_", "PAGW_", "RICHPANEL_", "RP_MW_", "SKYMARSHAL_", "TRIPCORTEX_")
# How much sample data each system gets; PAGW gets one request of each kind.
SCALE: Final = 0.01
SCALES: Final = {"pagw": 0.5}
# Commands that are not run, and the reason.
NOT_RUN: Final = {
    "agenticpm actions reopen": (
        "needs an action that an external service refused; answers as `actions approve` does"
    ),
    "pagw payers sample": "needs a payer that acts; run in the tests of PAGW",
    "pagw payers subscribe": "needs a payer that accepts subscriptions; run in the tests of PAGW",
}


class Shell:
    """Runs commands on one data folder and keeps their answers."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.folder, self.settings = folder, settings
        self._answers: dict[str, list[Any]] = {}
        # Building the command line takes longer than most commands.
        self._command = get_command(app)

    @property
    def ran(self) -> list[str]:
        """The words of each command that was run."""
        return list(self._answers)

    @property
    def lines(self) -> list[str]:
        """The key paths of all answers, after the words of their command."""
        return [
            f"{words}: {line}"
            for words, several in self._answers.items()
            for line in describe_values(several)
        ]

    def run(self, words: str, *arguments: str) -> Any:
        """Run `holdfast WORDS ARGUMENTS --json` and return its answer. Only the words identify the answer."""
        answer = json.loads(self.run_as_text(words, *arguments, "--json"))
        self._answers.setdefault(words, []).append(answer)
        return answer

    def run_as_text(self, words: str, *arguments: str) -> str:
        """Run a command and return its output. The exit code is ignored: it may report a finding."""
        with redirect_stdout(io.StringIO()) as output, redirect_stderr(io.StringIO()):
            self._command.main([*words.split(), *arguments], prog_name="holdfast", standalone_mode=False)
        return output.getvalue()

    def run_example(self, system: System, id: str) -> None:
        """Run an access pattern with its own example."""
        asyncio.run(self._run_example(system, find_pattern(system, id)))

    async def _run_example(self, system: System, pattern: Pattern[..., Any]) -> None:
        async with open_stores(system, self.settings) as stores:
            await stores.run(pattern.build_example())

    async def hold(self, system: System, action: Action) -> None:
        """Hold an action of AgenticPM for an hour."""
        async with open_stores(system, self.settings) as stores:
            await stores.run(ACTION_QUEUE.delay(stores, action, for_s=3600))


@contextmanager
def open_shell() -> Iterator[Shell]:
    """Make a temporary data folder with the sample data of every system, and yield a shell on it.

    The settings are in environment variables while the block runs.
    """
    systems = load_systems()
    schemas = [schema for system in systems.values() for schema in system.schemas]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-golden-")))
        file = folder / "holdfast.toml"
        RunClock(folder / "clock", start=NOW_S)
        settings = {"environment": "dev", "run_clock": "clock", "sql": create_database(*schemas)}
        file.write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items()))
        stack.enter_context(patch_environ({FILE_VARIABLE: str(file)}, without=FOREIGN))
        shell = Shell(folder, Settings.load())
        for name in systems:
            shell.run_as_text(f"sample {name} --scale {SCALES.get(name, SCALE)}")
        yield shell


def find_pattern(system: System, id: str) -> Pattern[..., Any]:
    """Return the access pattern with this id."""
    (found,) = (each for each in system.patterns if each.id == id)
    return found


def find_example(system: System, id: str) -> str:
    """Return the first argument of an access pattern's example: an id that the sample data contains."""
    return str(next(iter(find_pattern(system, id).example_arguments)))


def run_commands(shell: Shell) -> None:
    """Run every command that answers in JSON, except those in `NOT_RUN` and those of `derive_files`."""
    _run_declarations(shell)
    _run_reports(shell)
    _run_queues(shell)
    _run_outboxes(shell)
    _run_flows(shell)
    _run_agenticpm(shell)
    _run_pagw(shell)
    _run_tripcortex(shell)
    _run_tables(shell)
    _run_richpanel(shell)
    _run_statement_check(shell)


def derive_files(shell: Shell) -> dict[str, list[Path]]:
    """Write the documentation, infrastructure and policies of every system; return the files by system."""
    commands = ("docs", "iac cloudformation", "iac terraform", "iam")
    return {
        name: [
            Path(file)
            for words in commands
            for file in shell.run(words, name, "--out", str(shell.folder / name))
        ]
        for name in load_systems()
    }


def _run_declarations(shell: Shell) -> None:
    for words in ("systems", "tables", "patterns", "retention", "doctor"):
        shell.run(words)
    shell.run("tables --create")
    shell.run("new", "help_desk", "--path", str(shell.folder))


def _run_reports(shell: Shell) -> None:
    """Report on one or two systems: the others take seconds each and answer with the same keys."""
    shell.run("check agenticpm")
    shell.run("cost agenticpm")
    shell.run("cost richpanel")
    shell.run("patterns richpanel --measure")
    # Real figures take minutes.
    figure = Figure("keyed-read", 2.0, 1.0, 2.0, 2.0, 2.0, must_reach=None)
    with mock.patch.dict(report.BENCHMARKS, {"keyed-read": lambda _: figure}):
        shell.run("bench", "keyed-read")


def _run_queues(shell: Shell) -> None:
    shell.run_example(load_systems()["richpanel"], "RQ1")
    shell.run("queues list")
    shell.run("queues show richpanel rp_mw_events")
    shell.run("queues redrive richpanel rp_mw_events")


def _run_outboxes(shell: Shell) -> None:
    shell.run("outbox list pagw")
    shell.run("outbox redrive pagw")
    shell.run("outbox discard pagw --id 0")


def _run_flows(shell: Shell) -> None:
    shell.run_example(load_systems()["tripcortex"], "FL4")
    for words in ("list", "diagram", "asl", "resume"):
        shell.run(f"flows {words} tripcortex")


def _run_agenticpm(shell: Shell) -> None:
    project = shell.run("agenticpm projects list")["items"][0]["id"]
    created = shell.run("agenticpm projects create", "Payments", "PAY")["id"]
    for words in ("projects show", "artefacts list"):
        shell.run(f"agenticpm {words}", project)
    shell.run("agenticpm projects change", project, "--name", "Profiles")
    shell.run("agenticpm projects status", project, "paused")
    _run_artefacts(shell, project, created)
    event = shell.run("agenticpm events list")["items"][0]["id"]
    shell.run("why agenticpm", event)
    _run_escalations(shell)
    _run_actions(shell)
    _run_integrations(shell)
    shell.run("agenticpm config set", "hold_queue_minutes", "45")
    shell.run("agenticpm config list")
    shell.run("agenticpm agent status")


def _run_artefacts(shell: Shell, project: str, other: str) -> None:
    kept: dict[str, Any] = {}
    for type_name in ("backlog_summary", "decision_log", "delivery_state", "raid_log"):
        kept = shell.run("agenticpm artefacts show", project, type_name)
    file = shell.folder / "artefact.json"
    file.write_text(json.dumps({"type": kept["type"], "version": 1, "content": kept["content"]}))
    shell.run("agenticpm artefacts import", other, str(file))
    changed = kept["content"] | {"items": kept["content"]["items"][1:]}
    file.write_text(json.dumps(changed))
    shell.run("agenticpm artefacts put", project, "raid_log", str(file), str(kept["version"]))
    shell.run("agenticpm artefacts diff", project, "raid_log")
    shell.run("agenticpm artefacts undo", project, "raid_log")
    shell.run("agenticpm artefacts export", project, "raid_log")


def _run_escalations(shell: Shell) -> None:
    one = shell.run("agenticpm escalations list")["items"][0]
    shell.run("agenticpm escalations show", one["projectId"], one["id"])
    shell.run("why agenticpm", f"{one['projectId']}/{one['id']}")
    shell.run("agenticpm escalations decide", one["projectId"], one["id"], one["options"][0]["option"])


def _run_actions(shell: Shell) -> None:
    _hold_example_action(shell)
    one = shell.run("agenticpm actions list")["items"][0]
    shell.run("agenticpm actions show", one["projectId"], one["id"])
    shell.run("why agenticpm", f"{one['projectId']}/{one['id']}")
    shell.run("agenticpm actions edit", one["projectId"], one["id"], '{"subject": "Later"}')
    shell.run("agenticpm actions approve", one["projectId"], one["id"])
    shell.run("agenticpm actions cancel", one["projectId"], one["id"])


def _hold_example_action(shell: Shell) -> None:
    """Hold the example of an action under a valid id."""
    agenticpm = load_systems()["agenticpm"]
    (example,) = find_pattern(agenticpm, "AH1").example_arguments
    assert isinstance(example, Action)
    now = datetime.fromtimestamp(NOW_S, UTC)
    mail = {"kind": "mail", "to": ["lead@example.com"], "subject": "Late", "text": "Why?"}
    changes = {
        Action.id.name: ACTION_ID,
        Action.created_at.name: now,
        Action.expires_at.name: now + timedelta(days=90),
        Action.detail.name: mail,
    }
    asyncio.run(shell.hold(agenticpm, example.model_copy(update=changes)))


def _run_integrations(shell: Shell) -> None:
    file = shell.folder / "credentials.json"
    # No server listens on this port, so the health check fails.
    credentials = {"base_url": "http://127.0.0.1:9", "email": "pm@example.com", "api_token": "secret"}
    file.write_text(json.dumps(credentials))
    for words in ("put", "rotate"):
        shell.run(f"agenticpm integrations {words}", "jira", "--file", str(file))
    shell.run("agenticpm integrations list")
    shell.run("agenticpm integrations check", "jira")
    shell.run("agenticpm integrations deactivate", "jira")


def _run_pagw(shell: Shell) -> None:
    newest, *others = shell.run("pagw requests list")["items"]
    # The newest request of the sample data waits for its first stage.
    request = newest["pagw_id"]
    shell.run("pagw requests show", request)
    for each in (newest, *others[:3]):
        shell.run("why pagw", each["pagw_id"])
    shell.run("pagw stuck", "--minutes", "0")
    shell.run("pagw overdue", "--hours", "1000")
    shell.run("pagw replay", request)
    shell.run("pagw holds place", request, "case 7")
    shell.run("pagw holds list")
    shell.run("pagw holds lift", request)
    shell.run("pagw providers put", "1993000003", "Lakeside Clinic")
    payer = ("ACME-HEALTH", "Acme Health", "https://payer.example.com", "--credentials", "pagw/payers/acme")
    shell.run("pagw payers put", *payer, "--options", '{"token_url": "https://payer.example.com/token"}')
    added = ("UNITED-PAS", "United", "https://pas.example.com", "--credentials", "pagw/none")
    shell.run("pagw payers add", *added)
    shell.run("pagw payers test", "UNITED-PAS")
    shell.run("pagw payers show", "UNITED-PAS")
    shell.run("pagw metrics", "--year", "2026")
    for words in ("status", "sweep", "retain", "providers list", "payers list"):
        shell.run(f"pagw {words}")
    bundle = shell.folder / "bundle.json"
    bundle.write_text(json.dumps(build_request_bundle()), encoding="utf-8")
    shell.run("pagw check", str(bundle))
    shell.run("pagw environments")
    shell.run("pagw secrets")
    for words in ("migrate pagw", "migrate pagw --status", "migrate pagw --plan"):
        shell.run(words)


def _run_tripcortex(shell: Shell) -> None:
    shell.run("why tripcortex", find_example(load_systems()["tripcortex"], "D11"))
    shell.run("tripcortex circuit")
    shell.run("tripcortex plan", "Oslo on 4 May, back on 6 May", "--home", "BOS", "--now", "2026-03-10T10:00")
    shell.run("tripcortex policies list")
    file = shell.folder / "policy.md"
    file.write_text(
        "# Travel\n\nEconomy class is required on all flights.\n\nBusiness class is never booked.\n\n"
        "Flights must be booked at least 14 days in advance.\n"
    )
    shell.run("tripcortex policies upload", str(file))
    shell.run("tripcortex policies ask", str(file), "How much may a hotel cost?")
    employees = shell.folder / "employees.csv"
    employees.write_text("id,display_name,manager_id\nemp-1,Cleo Chief,\nemp-7,Max Manager,emp-1\n")
    shell.run("tripcortex directory import", str(employees))
    shell.run("tripcortex directory list")
    shell.run("tripcortex directory approvers", "emp-7", "L1 manager", "Finance")
    _run_tripcortex_rules(shell)
    _judge_trip(shell)


def _run_tripcortex_rules(shell: Shell) -> None:
    """Decide about the rules of a policy, and try them on a trip."""
    trip, changes = shell.folder / "trip.json", shell.folder / "changes.json"
    trip.write_text('{"origin": "BOS", "destination": "ORD", "depart": "2027-01-12", "cabin": "business"}')
    changes.write_text('{"days": 7}')
    rules = "tripcortex policies rules"
    listed = shell.run(f"{rules} list", "policy.md")["items"]
    ids = {each["effect"]: each["rule_id"] for each in listed}
    assert len(ids) >= 3, listed
    shell.run(f"{rules} confirm-complete", "policy.md")
    shell.run(f"{rules} confirm", "policy.md", ids["max_cabin"])
    shell.run(f"{rules} reject", "policy.md", ids["cabin_outcome"])
    shell.run(f"{rules} edit", "policy.md", ids["notice"], str(changes))
    shell.run(f"{rules} propose", "policy.md")
    shell.run(f"{rules} show", "policy.md", ids["notice"])
    shell.run(f"{rules} try", "--trip", str(trip))


def _judge_trip(shell: Shell) -> None:
    """Judge a trip by a policy file with one rule; what it does not cover needs an approval."""
    policy, trip = shell.folder / "cabins.md", shell.folder / "trip.json"
    policy.write_text("# Cabins\n\nEconomy class is required on domestic flights under 6 hours.\n")
    trip.write_text(
        '{"origin": "SFO", "destination": "ORD", "depart": "2027-03-01", "return": null, '
        '"cabin": "business", '
        '"carrier": "UA", "price_usd": 400, "booked_on": "2027-02-01", "employee_level": null}'
    )
    shell.run("tripcortex policies judge", str(policy), "--trip", str(trip))


def _run_tables(shell: Shell) -> None:
    """Export, import, index, back up, restore and migrate tables."""
    file = str(shell.folder / "flights.csv")
    shell.run("export skymarshal Flights", file)
    shell.run("import skymarshal Flights", file)
    shell.run("indexes status skymarshal")
    shell.run("indexes add skymarshal")
    for words in ("migrate skymarshal", "migrate skymarshal crew-roster-v2 --status"):
        shell.run(words)
    shell.run("backup Flights")
    kept = shell.run("backup --list")[0]["backup"]
    shell.run("restore Flights --dry-run --from-backup", kept)
    shell.run("restore Flights --in-place --dry-run --from-backup", kept)
    folder = str(shell.folder / "backup")
    shell.run("backup --to", folder)
    shell.run("restore --dry-run --from", folder, "--data", str(shell.folder / "restored"))


def _run_richpanel(shell: Shell) -> None:
    conversation = find_example(load_systems()["richpanel"], "AU2")
    shell.run("why richpanel", conversation)
    shell.run("richpanel quality resume", "order_status", "ada")
    shell.run("richpanel quality list")
    message = shell.folder / "message.json"
    message.write_text('{"subject": "Order", "text": "Where is order #48213?"}', encoding="utf-8")
    shell.run("richpanel read", str(message))
    shell.run("erase richpanel --kind conversation --yes", conversation)
    file = shell.folder / "leak.txt"
    file.write_text("Write to jane.doe@example.com.")
    shell.run("scan", str(file))


def _run_statement_check(shell: Shell) -> None:
    """Make a column nullable, so that a statement no longer fits its row; this must run last."""
    with connect(shell.settings.sql) as connection:
        connection.execute("ALTER TABLE pagw.request_tracker ALTER COLUMN tenant DROP NOT NULL")
    shell.run("migrate pagw --check")
