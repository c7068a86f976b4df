"""The code blocks of docs/guides/flows.md, executed: they pass the design check and run with a worker."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from holdfast import open_stores, provision
from holdfast.cli.app import main
from holdfast.core import installed_systems
from holdfast.reports.design.design_check import check_design
from holdfast.runtime import WorkerGroup
from tests.docs import pages

BLOCKS = [
    block for block in pages.parse_blocks(pages.DOCS / "guides" / "flows.md") if block.language == "python"
]
[SCRIPT] = [block.text for block in BLOCKS if "try_it.py" in block.note]
MODULE = "\n".join(block.text for block in BLOCKS[:2])


@pytest.fixture
def trips(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import the first two blocks as the page's module, found through its entry point."""

    class Point:
        name, value = "trips", "trips:TRIPS"

        def load(self) -> Any:
            return module.__dict__["TRIPS"]

    module = ModuleType("trips")
    monkeypatch.setitem(sys.modules, "trips", module)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOLDFAST_SECRET_TRIP_TOKEN", "long, and known to nobody")
    monkeypatch.setattr(
        installed_systems, "find_entry_points", lambda group="": {} if group else {"trips": Point()}
    )
    exec(compile(MODULE, "trips.py", "exec"), module.__dict__)
    return module


def test_design_check_of_the_page_reports_only_information(trips: Any) -> None:
    found = asyncio.run(check_design(trips.TRIPS))
    assert [each for each in found if each.severity != "info"] == []


def test_trip_is_started_worked_listed_and_answered(trips: Any, capsys: pytest.CaptureFixture[str]) -> None:
    script: dict[str, Any] = {"__name__": "try_it"}
    exec(compile(SCRIPT, "try_it.py", "exec"), script)

    async def work_until(state: str) -> None:
        async with open_stores(trips.TRIPS) as stores:
            await provision(stores, trips.TRIPS)
            async with WorkerGroup(stores, [trips.TRIPS.get_component("worker")], wait_s=0.1):
                while (await stores.run(trips.TRIP.pattern_set.item("t-1"))).flow_state != state:
                    await asyncio.sleep(0.02)

    asyncio.run(script["main"]("t-1"))
    asyncio.run(work_until("offered"))
    assert list_flows(capsys)[1].split()[:5] == ["trips", "trip", "t-1", "offered", "WaitIn_offered"]
    asyncio.run(script["main"]("t-1", "green"))
    asyncio.run(work_until("booked"))
    assert list_flows(capsys) == ["0 running, 0 parked."]


def list_flows(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Run `holdfast flows list trips` and return the lines that it prints."""
    with pytest.raises(SystemExit) as ended:
        main(["flows", "list", "trips"])
    assert not ended.value.code
    return capsys.readouterr().out.splitlines()
