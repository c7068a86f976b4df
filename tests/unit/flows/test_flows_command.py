"""`holdfast flows`: where each flow stands, what is parked and why, and how it goes on; its diagram and its export."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from holdfast import open_stores
from holdfast.cli.app import main
from holdfast.core.clock import SYSTEM_CLOCK
from holdfast.flows import Next
from holdfast.model import system as systems
from tests.unit.flows.errands import ERRANDS, SYSTEM, Bench, Hand, prepared


class Point:
    """An entry point, as if the system were installed."""

    name, value = SYSTEM.name, "tests.unit.flows.errands:SYSTEM"

    def load(self) -> Any:
        return SYSTEM


@pytest.fixture(autouse=True)
def one_waits_and_one_is_parked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(systems, "_entry_points", lambda: {SYSTEM.name: Point()})

    async def filled() -> None:
        async with open_stores(SYSTEM) as stores:
            await prepared(stores)
            at = Bench(stores, Hand(SYSTEM_CLOCK.now()))
            await at.at_offer("e-1")
            at.tools.gives["Plan"] = Next("done")
            await at.begin("e-2")
            await at.work()

    asyncio.run(filled())


def flows(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["flows", *arguments])
    return int(ended.value.code or 0)


def test_programs_are_told_where_each_stands(capsys: pytest.CaptureFixture[str]) -> None:
    assert flows("list", "errands", "--json") == 0
    waiting, parked = sorted(json.loads(capsys.readouterr().out), key=lambda each: each["key"])
    assert (waiting["key"], waiting["state"], waiting["parked"]) == ("o-1#e-1", "offered", None)
    assert waiting["due"] and waiting["age_s"] >= 0
    assert (parked["key"], parked["state"], parked["does"]) == ("o-1#e-2", "asked", "Plan")
    assert (parked["parked_for"], parked["due"]) == ("mistaken step", None)


def test_people_are_told_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert flows("list", "errands") == 0
    told = capsys.readouterr().out
    assert "1 running, 1 parked." in told and "mistaken step" in told
    assert flows("list", "errands", "--key", "o-1#e-1", "--flow", "errand") == 0
    assert "1 running, 0 parked." in capsys.readouterr().out


def test_what_is_parked_runs_after_it_was_resumed(capsys: pytest.CaptureFixture[str]) -> None:
    assert flows("resume", "errands", "--json") == 0
    assert json.loads(capsys.readouterr().out) == [{"system": "errands", "flow": "errand", "resumed": 1}]
    assert flows("list", "errands", "--json") == 0
    assert all(each["parked"] is None for each in json.loads(capsys.readouterr().out))
    assert flows("resume", "errands", "--key", "o-1#e-1") == 0
    assert "1 resumed" in capsys.readouterr().out


def test_draws_and_exports_the_flow(capsys: pytest.CaptureFixture[str]) -> None:
    assert flows("diagram", "errands") == 0
    assert capsys.readouterr().out == ERRANDS.draw_diagram()
    assert flows("asl", "errands") == 0
    assert json.loads(capsys.readouterr().out) == ERRANDS.to_states_language()
    assert flows("asl", "errands", "--json") == 0
    assert json.loads(capsys.readouterr().out)[0]["asl"]["StartAt"] == "asked"


def test_refuses_a_flow_and_a_key_that_are_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert flows("list", "errands", "--flow", "nothing") == 1
    assert "it has errand" in capsys.readouterr().err
    assert flows("resume", "errands", "--key", "o-1#e-9") == 1
    assert "Errand 'o-1#e-9' not found" in capsys.readouterr().err
