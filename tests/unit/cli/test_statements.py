"""`holdfast cost` with what a document states, and `holdfast check` at other loads, as people and programs see them."""

from __future__ import annotations

import json
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli import main
from holdfast.model import system as systems

DESK = EntryPoint("newsdesk", "tests.unit.reports.news_desk:SYSTEM", systems.ENTRY_POINT_GROUP)
SHOP = EntryPoint("shop", "tests.unit.reports.shop:SYSTEM", systems.ENTRY_POINT_GROUP)


@pytest.fixture(autouse=True)
def _installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(systems, "_entry_points", lambda: {"newsdesk": DESK, "shop": SHOP})


def answered(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as exited:
        main(words)
    told = capsys.readouterr()
    assert exited.value.code == 0, told.err
    return told.out


def parsed(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    return json.loads(answered(capsys, *words, "--json"))


def test_what_is_stated_stands_beside_what_it_comes_to_and_what_is_right(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown = answered(capsys, "cost", "newsdesk")

    assert "newsdesk: costs stated in the plan" in shown
    (line,) = [each.split() for each in shown.splitlines() if each.startswith("Writes")]
    stated = "50,000 write units × 1.25 per million".split()
    assert line == ["Writes", *stated, "0.06", "0.0625", "120,000", "0.1500", "0.0750", *_WHY.split()]
    assert "1 × 40 MB" in shown
    assert "The figures as printed add up to 0.06, unrounded to 0.062; stated is 0.10." in shown
    assert "today's use dynamodb-2024-11" in shown


_WHY = "news are told twice"


def test_programs_get_the_same_and_null_where_nothing_is_stated(capsys: pytest.CaptureFixture[str]) -> None:
    (desk,) = parsed(capsys, "cost", "newsdesk")
    (shop,) = parsed(capsys, "cost", "shop")

    stated = desk["stated_costs"]
    assert stated["costs"][0]["corrected"] == pytest.approx(0.15)
    assert stated["costs"][0]["why"] == _WHY
    assert stated["sizes"][0]["corrected_bytes"] == 90e6
    assert shop["stated_costs"] is None


def test_the_prices_of_today_are_those_that_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    (desk,) = parsed(capsys, "cost", "newsdesk", "--prices", "dynamodb-2018-11")

    assert desk["stated_costs"]["totals"]["today"] == desk["stated_costs"]["totals"]["corrected"]


def test_the_check_tells_of_every_other_load_and_does_not_fail_by_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = parsed(capsys, "check", "newsdesk")

    at_landslide = [row for row in rows if row["message"].startswith("At a landslide")]
    assert {row["severity"] for row in at_landslide} == {"warning", "info"}
    assert all(set(row) == {"system", "severity", "subject", "message", "remedy"} for row in rows)
    assert "the key ALL of News" in answered(capsys, "check", "newsdesk")
