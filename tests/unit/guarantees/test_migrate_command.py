"""`holdfast migrate`: the plan, the steps, the status, the removal; refusals in one line with exit code 1."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from holdfast import create_tables, open_stores
from holdfast.cli.app import main
from holdfast.guarantees.table_migration import MIGRATIONS
from holdfast.operations.tables import PutItem
from skymarshal.model.entities import CrewAssignment, crew_roster
from skymarshal.model.examples import crew_assignment


@pytest.fixture(autouse=True)
def roster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    async def filled() -> None:
        async with open_stores() as stores:
            await create_tables(stores, [crew_roster, MIGRATIONS])
            await stores.run(CrewAssignment.put(crew_assignment()))

    asyncio.run(filled())


def migrate(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["migrate", "skymarshal", *arguments])
    return int(ended.value.code or 0)


def test_a_migration_is_planned_run_and_ended(capsys: pytest.CaptureFixture[str]) -> None:
    def answered(*arguments: str) -> Any:
        assert migrate(*arguments, "--json") == 0
        return json.loads(capsys.readouterr().out)

    assert answered("--status")["phase"] is None
    assert answered("--plan")["is_possible"] is True
    assert answered("crew-roster-v2", "--until", "backfill")["phase"] == "backfilled"
    assert [each["phase"] for each in answered()] == ["backfilled"]
    switched = answered("crew-roster-v2")
    assert (switched["phase"], switched["rows"], switched["repaired"]) == ("switched", 1, 0)
    assert answered("crew-roster-v2", "--remove")["phase"] == "removed"
    assert answered("--status")["phase"] == "removed"


def test_people_are_told_what_was_done(capsys: pytest.CaptureFixture[str]) -> None:
    assert migrate("--plan") == 0
    assert "CrewRoster → CrewRoster_v2, 1 rows" in capsys.readouterr().out
    assert migrate("crew-roster-v2") == 0
    told = capsys.readouterr().out
    assert "CrewRoster → CrewRoster_v2, switched" in told
    assert "rows at the switch" in told


def test_without_a_name_the_migrations_are_listed_and_none_is_run(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        assert migrate() == 0
        told = capsys.readouterr().out
        assert "crew-roster-v2: CrewRoster → CrewRoster_v2, not started" in told
        assert "`holdfast migrate skymarshal NAME`" in told


def test_a_plan_with_obstacles_names_them_and_ends_with_1(capsys: pytest.CaptureFixture[str]) -> None:
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


def test_removal_before_the_switch_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert migrate("crew-roster-v2", "--remove") == 1
    assert "Switch first, then remove" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--plan", "--remove"), "exclude each other"),
        (("--force",), "--force needs --remove"),
        (("--remove",), "need the NAME of a migration"),
        (("--until", "switch"), "need the NAME of a migration"),
    ],
)
def test_options_that_exclude_each_other_are_refused(
    arguments: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert migrate(*arguments) == 2
    assert told in capsys.readouterr().err


def test_an_unknown_migration_is_told_with_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert migrate("nope") == 1
    assert "Unknown migration 'nope': skymarshal has crew-roster-v2." in capsys.readouterr().err
