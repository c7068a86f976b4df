"""Tests of the CLI commands as functions on stores in memory, in the component `api`; one through `main`."""

from __future__ import annotations

import inspect
import io
import json
from datetime import date
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from agenticpm.api.artefact_views import Format
from agenticpm.api.commands import COMMANDS
from agenticpm.domain.contents import ArtefactType
from agenticpm.model import agent_settings
from agenticpm.model.entities import Autonomy, Integration, ProjectStatus
from holdfast import Page, Stores
from holdfast.cli import main
from holdfast.core.errors import Conflict, InvalidRequest, NotFound, NotPending
from holdfast.model.system import Command, Explanation, Listing
from tests.systems.agenticpm.unit.samples import (
    create_escalation,
    create_project,
    hold_mail,
    make_raid_log,
    make_risk,
    refuse_action,
)

KEY = "re_8fJk2LmQ_4nTzXcVbNm1AsDfGh"
RESEND = {"api_key": KEY, "sender": "agent@acme.example"}


class CommandLine:
    """Calls commands by name with the rights of `api`: `await line("projects list", status=…)`."""

    def __init__(self, stores: Stores) -> None:
        self.all, self.stores = stores, stores.for_component("api")

    async def __call__(self, name: str, *given: Any, **options: Any) -> Any:
        answer = await COMMANDS[name](self.stores, *given, **options)
        page = answer.page if isinstance(answer, Listing) else answer
        items = list(page) if isinstance(page, Page) else page
        data = items.data if isinstance(items, Explanation) else items
        json.dumps(data)  # the output is plain JSON
        return items


@pytest.fixture
def line(stores: Stores) -> CommandLine:
    return CommandLine(stores)


def test_every_command_documents_its_purpose_and_parameters() -> None:
    """The docstring's first line ends with a full stop, and every parameter has a description."""
    for name, function in COMMANDS.items():
        assert (inspect.getdoc(function) or "").splitlines()[0].endswith("."), name
        called = function.function if isinstance(function, Command) else function
        hints = get_type_hints(called, include_extras=True)
        for parameter in list(inspect.signature(called).parameters)[0 if called is not function else 1 :]:
            assert isinstance(hints[parameter].__metadata__[0], str), (name, parameter)


def test_no_command_takes_a_secret_as_an_argument() -> None:
    named = {each for function in COMMANDS.values() for each in inspect.signature(function).parameters}
    assert not [each for each in named if any(word in each for word in ("secret", "token", "credential"))]
    hints = get_type_hints(COMMANDS["integrations put"])
    assert set(hints) - {"stores", "return"} == {"integration", "file"}
    assert hints["file"] is Path


@pytest.mark.proves("AP-11")
async def test_creates_lists_changes_and_archives_projects(line: CommandLine) -> None:
    made = await line("projects create", "Member profile", "MCU", config={"mail": True})
    changed = await line("projects change", made["id"], autonomy=Autonomy.artefact)
    await line("projects status", made["id"], ProjectStatus.archived)
    archived = await line("projects list", status=ProjectStatus.archived)
    active = await line("projects list")
    assert made["sourceProjectKey"] == "MCU"
    assert changed["autonomyLevel"] == "artefact"
    assert [each["id"] for each in archived] == [made["id"]]
    assert active == []


async def test_puts_compares_undoes_and_exports_artefacts(line: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "raid.json"

    project = (await create_project(line.all)).id
    type = ArtefactType.raid_log
    file.write_text(json.dumps(make_raid_log(make_risk("R001"))))
    await line("artefacts put", project, type, file, 0)
    file.write_text(json.dumps(make_raid_log(make_risk("R001"), make_risk("R002", "The key person leaves"))))
    await line("artefacts put", project, type, file, 1)
    with pytest.raises(Conflict, match="is at version 2, but the request expects version 1"):
        await line("artefacts put", project, type, file, 1)
    diff = await line("artefacts diff", project, type)
    undone = await line("artefacts undo", project, type)
    exported = await line("artefacts export", project, type, format=Format.csv)
    listed = await line("artefacts list", project)
    assert diff.lines == ["+ items[R002]: The key person leaves"]
    assert (undone["version"], len(undone["content"]["items"])) == (3, 1)
    assert "R001" in exported and "R002" not in exported
    assert [(each["type"], each["version"]) for each in listed] == [("raid_log", 3)]


async def test_rejects_undo_without_a_previous_version_or_of_a_stale_one(
    line: CommandLine, tmp_path: Path
) -> None:
    file = tmp_path / "raid.json"
    file.write_text(json.dumps(make_raid_log(make_risk("R001"))))

    project = (await create_project(line.all)).id
    with pytest.raises(NotFound, match="has no raid_log yet"):
        await line("artefacts undo", project, ArtefactType.raid_log)
    await line("artefacts put", project, ArtefactType.raid_log, file, 0)
    with pytest.raises(Conflict, match="nothing to undo"):
        await line("artefacts undo", project, ArtefactType.raid_log)
    with pytest.raises(Conflict, match="read it again"):
        await line("artefacts undo", project, ArtefactType.raid_log, version=7)


@pytest.mark.proves("AP-33", "AP-37", "AP-38")
async def test_lists_events_of_a_project_of_all_projects_and_of_a_day(line: CommandLine) -> None:
    first = await create_project(line.all)
    second = await create_project(line.all, name="Other", source_project_key="O")
    with pytest.raises(InvalidRequest, match="a project or a day"):
        await line("events list", project=first.id, day=date(2026, 2, 4))
    lists = [
        await line("events list", project=first.id),
        await line("events list", project=second.id),
        await line("events list"),
        await line("events list", day=date(2026, 2, 4)),
    ]
    one, other, feed, day = [sorted(each["id"] for each in events) for events in lists]
    assert len(one) == len(other) == 1
    assert feed == day == sorted(one + other)


async def test_decides_an_escalation(line: CommandLine) -> None:
    project = await create_project(line.all)
    question = await create_escalation(line.all, project)
    waiting = await line("escalations list")
    decided = await line("escalations decide", project.id, question.id, "Rush", notes="The fair", by="ada")
    with pytest.raises(Conflict, match="cannot be decided"):
        await line("escalations decide", project.id, question.id, "Delay")
    of_project = await line("escalations list", project=project.id)
    assert len(waiting) == len(of_project) == 1
    assert (decided["userDecision"], decided["userNotes"]) == ("Rush", "The fair")


@pytest.mark.proves("AP-40")
async def test_lists_edits_approves_and_cancels_actions(line: CommandLine) -> None:
    project = await create_project(line.all)
    one, other = await hold_mail(line.all, project), await hold_mail(line.all, None)
    waiting = await line("actions list")
    edited = await line("actions edit", project.id, one.id, {"text": "Please hurry."}, by="ada")
    approved = await line("actions approve", project.id, one.id, by="ada")
    cancelled = await line("actions cancel", "global", other.id, reason="Not now", by="bo")
    of_none = await line("actions list", project="global")
    assert len(waiting) == 2
    assert edited["detail"]["text"] == "Please hurry."
    assert approved["heldUntil"] == "2026-02-04T01:00:00.000Z"
    assert (cancelled["status"], cancelled["reviewedBy"]) == ("cancelled", "bo")
    assert of_none == [cancelled]


@pytest.mark.proves("AP-40")
async def test_reopens_a_refused_action(line: CommandLine) -> None:
    action = await hold_mail(line.all, None)
    with pytest.raises(NotPending):
        await line("actions reopen", "global", action.id)
    await line("actions approve", "global", action.id)
    await refuse_action(line.all, action)
    assert await line("actions list") == []
    reopened, waiting = (
        await line("actions reopen", "global", action.id, by="ada"),
        await line("actions list"),
    )
    assert (reopened["status"], reopened["review"], reopened["reviewedBy"]) == ("held", "reopened", "ada")
    assert waiting == [reopened]


@pytest.mark.proves("AP-44", "AP-X20")
async def test_parses_the_value_of_a_setting_from_the_command_line(line: CommandLine) -> None:
    await agent_settings.seed(line.all)
    await line("config set", "budget_ceiling_daily_usd", "1.5")
    hours = '{"start": "22:00", "end": "06:00", "timezone": "UTC"}'
    await line("config set", "working_hours", hours)
    with pytest.raises(InvalidRequest, match="Invalid working_hours: expected a JSON object"):
        await line("config set", "working_hours", "{22:00}")
    listed, status = await line("config list"), await line("agent status")
    values = {each["key"]: each["value"] for each in listed}
    assert values["budget_ceiling_daily_usd"] == 1.5
    assert values["working_hours"]["start"] == "22:00"
    assert status["ceiling_usd"] == 1.5


@pytest.mark.proves("AP-25")
async def test_reads_credentials_from_a_file_or_standard_input_and_never_shows_them(
    line: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_KEYS", f"file:{tmp_path / 'keys.json'}")
    file = tmp_path / "resend.json"
    file.write_text(json.dumps(RESEND))
    broken = tmp_path / "broken.json"
    broken.write_text(f'{{"api_key": "{KEY}"')

    put = await line("integrations put", Integration.resend, file)
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(RESEND)))
    again = await line("integrations put", Integration.resend)
    for wrong in (broken, tmp_path / "missing.json"):
        with pytest.raises(InvalidRequest) as refused:
            await line("integrations put", Integration.resend, wrong)
        assert KEY not in str(refused.value)
    shown = [
        put,
        again,
        await line("integrations rotate", Integration.resend),
        await line("integrations list"),
    ]
    assert shown[0]["status"] == "active"
    assert KEY not in json.dumps(shown)


def test_command_line_lists_projects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Run `main` itself: create a project, list it as JSON and as a table, and refuse an unknown status."""
    for setting, value in (
        ("TABLES", f"sqlite:{tmp_path}/tables.db"),
        ("QUEUES", f"sqlite:{tmp_path}/queues.db"),
        ("OBJECTS", f"file:{tmp_path}/objects"),
        ("KEYS", f"file:{tmp_path}/keys.json"),
    ):
        monkeypatch.setenv(f"HOLDFAST_{setting}", value)
    monkeypatch.chdir(tmp_path)

    def typed(*words: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 0, capsys.readouterr().err
        return capsys.readouterr().out

    typed("tables", "agenticpm", "--create")
    made = json.loads(typed("agenticpm", "projects", "create", "Member profile", "MCU", "--json"))
    listed = json.loads(typed("agenticpm", "projects", "list", "--json"))
    assert [each["id"] for each in listed["items"]] == [made["id"]]
    assert "Member profile" in typed("agenticpm", "projects", "list")
    with pytest.raises(SystemExit) as refused:
        main(("agenticpm", "projects", "status", made["id"], "gone"))
    assert refused.value.code != 0
    assert "archived" in capsys.readouterr().err
