"""`holdfast migrate` on SkyMarshal's crew roster in files: plan, steps, status, removal, refusals."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from holdfast import open_stores
from holdfast.cli.app import main
from holdfast.guarantees.table_migration import MIGRATIONS
from holdfast.operations.tables import PutItem
from holdfast.runtime import create_tables
from skymarshal.model.entities import CrewAssignment, crew_roster
from skymarshal.model.examples import crew_assignment


@pytest.fixture(autouse=True)
def roster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Create the roster's tables, with one assignment, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    async def fill() -> None:
        async with open_stores() as stores:
            await create_tables(stores, [crew_roster, MIGRATIONS])
            await stores.run(CrewAssignment.put(crew_assignment()))

    asyncio.run(fill())


def migrate(*arguments: str) -> int:
    """Run `holdfast migrate skymarshal` in this process and return its exit code."""
    with pytest.raises(SystemExit) as ended:
        main(["migrate", "skymarshal", *arguments])
    return int(ended.value.code or 0)


def test_plans_runs_and_finishes_a_migration(capsys: pytest.CaptureFixture[str]) -> None:
    def answer(*arguments: str) -> Any:
        assert migrate(*arguments, "--json") == 0
        return json.loads(capsys.readouterr().out)

    assert answer("--status")["phase"] is None
    assert answer("--plan")["is_possible"] is True
    assert answer("crew-roster-v2", "--until", "backfill")["phase"] == "backfilled"
    assert [each["phase"] for each in answer()] == ["backfilled"]
    switched = answer("crew-roster-v2")
    assert (switched["phase"], switched["rows"], switched["repaired"]) == ("switched", 1, 0)
    assert answer("crew-roster-v2", "--remove")["phase"] == "removed"
    assert answer("--status")["phase"] == "removed"


def test_prints_each_step_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert migrate("--plan") == 0
    assert "CrewRoster → CrewRoster_v2, 1 rows" in capsys.readouterr().out
    assert migrate("crew-roster-v2") == 0
    output = capsys.readouterr().out
    assert "CrewRoster → CrewRoster_v2, switched" in output
    assert "rows at the switch" in output


def test_lists_migrations_without_running_one_when_no_name_is_given(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for _ in range(2):
        assert migrate() == 0
        output = capsys.readouterr().out
        assert "crew-roster-v2: CrewRoster → CrewRoster_v2, not started" in output
        assert "`holdfast migrate skymarshal NAME`" in output


def test_exits_1_and_names_the_obstacles_of_a_plan(capsys: pytest.CaptureFixture[str]) -> None:
    async def spoilt() -> None:
        async with open_stores() as stores:
            await stores.tables.run(PutItem("CrewRoster", {"roster_id": "R-bad"}))

    asyncio.run(spoilt())
    assert migrate("--plan") == 1
    assert "roster_id = R-bad" in capsys.readouterr().out
    assert migrate("crew-roster-v2") == 1
    refusal = capsys.readouterr().err
    assert refusal.startswith("holdfast: The migration crew-roster-v2 cannot start, and nothing was written")
    assert refusal.count("\n") == 1


def test_refuses_removal_before_the_switch(capsys: pytest.CaptureFixture[str]) -> None:
    assert migrate("crew-roster-v2", "--remove") == 1
    assert "Switch first, then remove" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--plan", "--remove"), "exclude each other"),
        (("--force",), "--force needs --remove"),
        (("--remove",), "need the NAME of a migration"),
        (("--until", "switch"), "need the NAME of a migration"),
    ],
)
def test_rejects_options_that_exclude_each_other_or_need_another(
    arguments: tuple[str, ...], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert migrate(*arguments) == 2
    assert expected in capsys.readouterr().err


def test_rejects_an_unknown_migration_and_lists_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert migrate("nope") == 1
    assert "Unknown migration 'nope': skymarshal has crew-roster-v2." in capsys.readouterr().err
