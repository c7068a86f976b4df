"""`holdfast cost` with stated costs, and `holdfast check` at other loads, as text and JSON."""

from __future__ import annotations

import json
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli import main
from holdfast.core import installed_systems

DESK = EntryPoint("newsdesk", "tests.unit.reports.news_desk:SYSTEM", installed_systems.ENTRY_POINT_GROUP)
SHOP = EntryPoint("shop", "tests.unit.reports.shop:SYSTEM", installed_systems.ENTRY_POINT_GROUP)


@pytest.fixture(autouse=True)
def _installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install only the news desk and the shop, and work in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def find(group: str = installed_systems.ENTRY_POINT_GROUP) -> dict[str, EntryPoint]:
        return {"newsdesk": DESK, "shop": SHOP} if group == installed_systems.ENTRY_POINT_GROUP else {}

    monkeypatch.setattr(installed_systems, "find_entry_points", find)


def run_command(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Run the command line, which must exit with 0, and return standard output."""
    with pytest.raises(SystemExit) as exited:
        main(words)
    output = capsys.readouterr()
    assert exited.value.code == 0, output.err
    return output.out


def run_json(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    return json.loads(run_command(capsys, *words, "--json"))


def test_prints_stated_costs_next_to_computed_and_correct_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown = run_command(capsys, "cost", "newsdesk")

    assert "newsdesk: costs stated in the plan" in shown
    (line,) = [each.split() for each in shown.splitlines() if each.startswith("Writes")]
    stated = "50,000 write units × 1.25 per million".split()
    assert line == ["Writes", *stated, "0.06", "0.0625", "120,000", "0.1500", "0.0750", *_WHY.split()]
    assert "1 × 40 MB" in shown
    assert "The figures as printed add up to 0.06, unrounded to 0.062; stated is 0.10." in shown
    assert "today's use dynamodb-2024-11" in shown


_WHY = "news are told twice"


def test_json_has_the_stated_costs_and_null_for_a_system_without(capsys: pytest.CaptureFixture[str]) -> None:
    (desk,) = run_json(capsys, "cost", "newsdesk")
    (shop,) = run_json(capsys, "cost", "shop")

    stated = desk["stated_costs"]
    assert stated["costs"][0]["corrected"] == pytest.approx(0.15)
    assert stated["costs"][0]["why"] == _WHY
    assert stated["sizes"][0]["corrected_bytes"] == 90e6
    assert shop["stated_costs"] is None


def test_current_prices_come_from_the_given_list(capsys: pytest.CaptureFixture[str]) -> None:
    (desk,) = run_json(capsys, "cost", "newsdesk", "--prices", "dynamodb-2018-11")

    assert desk["stated_costs"]["totals"]["today"] == desk["stated_costs"]["totals"]["corrected"]


def test_check_reports_every_other_load_without_failing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = run_json(capsys, "check", "newsdesk")

    at_landslide = [row for row in rows if row["message"].startswith("At a landslide")]
    assert {row["severity"] for row in at_landslide} == {"warning", "info"}
    assert all(set(row) == {"system", "severity", "subject", "message", "remedy"} for row in rows)
    assert "the key ALL of News" in run_command(capsys, "check", "newsdesk")
