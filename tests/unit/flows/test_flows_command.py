"""`holdfast flows` on stores in files: lists executions, resumes parked ones, draws and exports the flow."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast import open_stores
from holdfast.cli.app import main
from holdfast.core import installed_systems
from holdfast.core.clock import SYSTEM_CLOCK
from holdfast.flows import Next
from tests.unit.flows.errands import ERRANDS, SYSTEM, Bench, HandClock, create_stores


class FakeEntryPoint:
    """Fake entry point of an installed system."""

    name, value = SYSTEM.name, "tests.unit.flows.errands:SYSTEM"

    def load(self) -> Any:
        return SYSTEM


@pytest.fixture(autouse=True)
def waiting_and_parked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the errand system in an empty folder, with `e-1` waiting and `e-2` parked."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(installed_systems, "find_entry_points", lambda: {SYSTEM.name: FakeEntryPoint()})

    async def fill() -> None:
        async with open_stores(SYSTEM) as stores:
            await create_stores(stores)
            at = Bench(stores, HandClock(SYSTEM_CLOCK.now()))
            await at.begin_and_reach_offer("e-1")
            at.tools.gives["Plan"] = Next("done")
            await at.begin("e-2")
            await at.work()

    asyncio.run(fill())


def run_flows_command(*arguments: str) -> int:
    """Run `holdfast flows` in this process and return its exit code."""
    with pytest.raises(SystemExit) as ended:
        main(["flows", *arguments])
    return int(ended.value.code or 0)


def test_prints_states_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_flows_command("list", "errands", "--json") == 0
    waiting, parked = sorted(json.loads(capsys.readouterr().out), key=lambda each: each["key"])
    assert (waiting["key"], waiting["state"], waiting["parked"]) == ("o-1#e-1", "offered", None)
    assert waiting["due"] and waiting["age_s"] >= 0
    assert (parked["key"], parked["state"], parked["does"]) == ("o-1#e-2", "asked", "Plan")
    assert (parked["parked_for"], parked["due"]) == ("mistaken step", None)


def test_prints_states_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_flows_command("list", "errands") == 0
    output = capsys.readouterr().out
    assert "1 running, 1 parked." in output and "mistaken step" in output
    assert run_flows_command("list", "errands", "--key", "o-1#e-1", "--flow", "errand") == 0
    assert "1 running, 0 parked." in capsys.readouterr().out


def test_resumes_a_parked_execution(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_flows_command("resume", "errands", "--json") == 0
    assert json.loads(capsys.readouterr().out) == [{"system": "errands", "flow": "errand", "resumed": 1}]
    assert run_flows_command("list", "errands", "--json") == 0
    assert all(each["parked"] is None for each in json.loads(capsys.readouterr().out))
    assert run_flows_command("resume", "errands", "--key", "o-1#e-1") == 0
    assert "1 resumed" in capsys.readouterr().out


def test_draws_and_exports_the_flow(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_flows_command("diagram", "errands") == 0
    assert capsys.readouterr().out == ERRANDS.draw_diagram()
    assert run_flows_command("asl", "errands") == 0
    assert json.loads(capsys.readouterr().out) == ERRANDS.to_states_language()
    assert run_flows_command("asl", "errands", "--json") == 0
    assert json.loads(capsys.readouterr().out)[0]["asl"]["StartAt"] == "asked"


def test_rejects_an_unknown_flow_and_key(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_flows_command("list", "errands", "--flow", "nothing") == 1
    assert "it has errand" in capsys.readouterr().err
    assert run_flows_command("resume", "errands", "--key", "o-1#e-9") == 1
    assert "Errand 'o-1#e-9' not found" in capsys.readouterr().err


def test_without_arguments_lists_the_executions_of_every_system(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # The second system has flows too, but nothing of it was created here.
    absent = replace(SYSTEM, name="absent", deployment=replace(SYSTEM.deployment, needs_environment=True))
    monkeypatch.setattr("holdfast.cli.system_rows.select_systems", lambda _: [SYSTEM, absent])

    assert run_flows_command("--json") == 0

    output = capsys.readouterr()
    assert [(each["system"], each["key"]) for each in json.loads(output.out)] == [
        ("errands", "o-1#e-1"),
        ("errands", "o-1#e-2"),
    ]
    assert output.err.startswith("absent is skipped: Missing environment")
    assert run_flows_command() == 0
    table = capsys.readouterr().out.splitlines()
    assert table[0].split()[:3] == ["system", "flow", "key"]
    assert table[1].split()[:3] == ["errands", "errand", "o-1#e-1"]


@pytest.mark.parametrize("words", [("resume",), ("diagram",), ("asl",), ("list", "--flow", "errand")])
def test_all_but_a_whole_list_need_the_system(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_flows_command(*words) == 2
    assert "needs SYSTEM" in capsys.readouterr().err
