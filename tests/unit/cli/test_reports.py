"""`holdfast systems`, `tables`, `patterns`, `check` and `cost` on two test systems, as text and JSON."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli import main
from holdfast.operations import tables as requests
from holdfast.reports.cost.price_lists import load_price_list
from holdfast.stores.retries import Backoff
from holdfast.stores.tables.embedded import open_tables
from holdfast.wire.http.server import start_server
from tests.unit.reports import shop

SHOP = "tests.unit.reports.shop:SYSTEM"
BROKEN = "tests.unit.cli.broken_shop:SYSTEM"


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the shop and a badly designed system next to ours, and work in an empty folder."""
    installed = tmp_path / "installed"
    for name, value in (("shop", SHOP), ("brokenshop", BROKEN)):
        record = installed / f"{name}-1.dist-info"
        record.mkdir(parents=True)
        (record / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
        (record / "entry_points.txt").write_text(f"[holdfast.systems]\n{name} = {value}\n")
    monkeypatch.syspath_prepend(installed)
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("COLUMNS", "120")


def run_command(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    """Run the command line, check its exit code, and return standard output, with standard error if there is
    any.
    """
    with pytest.raises(SystemExit) as exited:
        main(words)
    output = capsys.readouterr()
    assert exited.value.code == code, output.err
    return output.out if code != 2 and not output.err else output.out + output.err


def run_json(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> Any:
    return json.loads(run_command(capsys, *words, "--json", code=code))


def test_systems_lists_installed_systems(capsys: pytest.CaptureFixture[str]) -> None:
    found = {row["system"]: row for row in run_json(capsys, "systems")}

    assert found["shop"] == {
        "system": "shop",
        "title": "",
        "purpose": "Sells things",
        "tables": ["Orders", "Customers"],
        "indexes": ["Orders.customer-index", "Orders.status-index"],
        "queues": [],
        "buckets": [],
        "schemas": [],
        "patterns": ["S1", "S2", "S3", "S4", "S5", "S6", "S7", "S8"],
        "components": ["till", "cleaner"],
    }


def test_prints_systems_as_a_table_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert "till, cleaner" in run_command(capsys, "systems")


def test_tables_shows_keys_indexes_stream_and_physical_name(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_ENVIRONMENT", "test")

    orders, customers = run_json(capsys, "tables", "shop")

    assert (orders["table"], orders["physical_name"], orders["partition"]) == (
        "Orders",
        "Orders-test",
        "orderId",
    )
    assert (orders["stream"], orders["recovery"], customers["stream"]) == ("NEW_IMAGE", True, None)
    assert [(index["name"], index["default"]) for index in orders["indexes"]] == [
        ("customer-index", True),
        ("status-index", False),
    ]
    assert "created" not in orders
    assert not os.path.exists("data")


def test_tables_creates_only_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    shown = run_command(capsys, "tables", "shop", "--create")
    again = run_json(capsys, "tables", "shop", "--create")

    assert "Orders created" in shown
    assert "2 created, 0 already exist" in shown
    assert [row["created"] for row in again] == [False, False]
    assert Path("data/tables.db").exists()


def test_tables_create_rejects_in_memory_tables(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_TABLES", "sqlite::memory:")

    assert "lost when this command ends" in run_command(capsys, "tables", "shop", "--create", code=1)


def test_patterns_json_rows_have_exactly_the_declared_keys(capsys: pytest.CaptureFixture[str]) -> None:
    """The keys of each row and their order; the measures are not included."""
    rows = run_json(capsys, "patterns", "shop")

    shape = ["system", "id", "name", "purpose", "rate", "store", "operation", "table", "index", "components"]
    assert [list(row) for row in rows] == [shape] * len(shop.SYSTEM.patterns)


@pytest.mark.proves("SM-33")
def test_patterns_measures_on_a_fresh_machine_without_leaving_data(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = {row["id"]: row for row in run_json(capsys, "patterns", "shop", "--measure")}

    assert [rows["S2"][name] for name in ("items_read", "items_returned", "units")] == [3, 3, 0.5]
    assert all(row["ms"] > 0 and row["reason"] is None for row in rows.values())
    assert not os.path.exists("data")


def test_patterns_measures_a_copy_of_the_configured_file(capsys: pytest.CaptureFixture[str]) -> None:
    run_command(capsys, "tables", "shop", "--create")
    with open_tables("data/tables.db") as tables:
        tables.run_blocking(requests.PutItem("Orders", shop.make_order(7).to_item()))
        rows = {row["id"]: row for row in run_json(capsys, "patterns", "shop", "--measure")}
        left = tables.run_blocking(requests.Scan("Orders"))

    assert rows["S1"]["items_read"] == 1
    assert "does not fit the data (ConditionFailed" in rows["S5"]["reason"]  # the order does not exist
    assert (rows["S5"]["units"], rows["S5"]["ms"]) == (None, None)
    assert left.count == 1


def test_patterns_measures_reads_at_an_endpoint_and_writes_only_if_allowed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_tables() as behind, start_server(tables=behind) as url:
        monkeypatch.setenv("HOLDFAST_TABLES", f"dynamodb+{url}")
        run_command(capsys, "tables", "shop", "--create")
        for number in (7, 9):
            behind.run_blocking(requests.PutItem("Orders", shop.make_order(number).to_item()))
        reads = {row["id"]: row for row in run_json(capsys, "patterns", "shop", "--measure")}
        untouched = behind.run_blocking(requests.Scan("Orders")).count
        written = {
            row["id"]: row for row in run_json(capsys, "patterns", "shop", "--measure", "--allow-writes")
        }
        touched = behind.run_blocking(requests.Scan("Orders")).count

    assert (reads["S1"]["items_read"], reads["S1"]["units"]) == (1, 0.5)
    assert (reads["S4"]["units"], "--allow-writes" in reads["S4"]["reason"]) == (None, True)
    assert "optional index" in reads["S8"]["reason"]
    assert (written["S4"]["units"], written["S5"]["units"]) == (2, 3)
    assert (untouched, touched) == (2, 4)


def test_patterns_sample_option_measures_on_the_sample_and_not_the_file(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run_command(capsys, "tables", "shop", "--create")
    with open_tables("data/tables.db") as tables:
        tables.run_blocking(requests.PutItem("Orders", shop.make_order(7).to_item()))
        rows = run_json(capsys, "patterns", "shop", "--measure", "--sample")
        left = tables.run_blocking(requests.Scan("Orders"))

    assert [row["reason"] for row in rows] == [None] * len(shop.SYSTEM.patterns)
    assert left.count == 1


def test_groups_equal_reasons_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_tables() as behind, start_server(tables=behind) as url:
        monkeypatch.setenv("HOLDFAST_TABLES", f"dynamodb+{url}")
        run_command(capsys, "tables", "shop", "--create")
        shown = run_command(capsys, "patterns", "shop", "--measure")

    assert "S4, S5, S6, S7 it writes, and this is not a scratch copy" in shown
    assert shown.count("not a scratch copy") == 1


def test_second_run_with_writes_reports_examples_that_no_longer_fit(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_tables() as behind, start_server(tables=behind) as url:
        monkeypatch.setenv("HOLDFAST_TABLES", f"dynamodb+{url}")
        run_command(capsys, "tables", "shop", "--create")
        words = ("patterns", "shop", "--measure", "--allow-writes")
        rows = {row["id"]: row for row in run_json(capsys, *words)}
        again = {row["id"]: row for row in run_json(capsys, *words)}

    assert (rows["S4"]["units"], rows["S7"]["units"]) == (2, 6)
    assert "does not fit the data (TransactionCancelled" in again["S7"]["reason"]


def test_reports_an_unreachable_endpoint_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_tables() as behind, start_server(tables=behind) as url:
        pass
    monkeypatch.setenv("HOLDFAST_TABLES", f"dynamodb+{url}")
    monkeypatch.setattr(Backoff, "get_max_pause_s", lambda *_: 0.0)

    shown = run_command(capsys, "patterns", "shop", "--measure", code=1)

    assert shown.count("No connection") == 1


def test_prints_patterns_as_tables_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    declared = run_command(capsys, "patterns", "shop")
    measured = run_command(capsys, "patterns", "shop", "--measure")

    assert "The orders of a customer, oldest first" in declared
    assert "Measured on sample data" in measured
    assert "0.5 r" in measured and "3 w" in measured


def test_reports_a_failing_pattern_and_exits_1(capsys: pytest.CaptureFixture[str]) -> None:
    shown = run_command(capsys, "patterns", "brokenshop", "--measure", code=1)

    assert "failed" in shown
    assert "order_id" in shown


def test_allow_writes_or_sample_without_measure_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--measure" in run_command(capsys, "patterns", "shop", "--allow-writes", code=2)
    assert "--measure" in run_command(capsys, "patterns", "shop", "--sample", code=2)


@pytest.mark.parametrize("command", ["patterns", "tables", "check", "cost"])
def test_rejects_an_unknown_system_and_lists_the_installed_ones(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = run_command(capsys, command, "nowhere", code=1)

    assert "System 'nowhere' is not installed" in shown
    assert "shop" in shown


def test_check_json_rows_have_exactly_the_declared_keys(capsys: pytest.CaptureFixture[str]) -> None:
    found = run_json(capsys, "check", "shop")

    assert found
    assert all(list(each) == ["system", "severity", "subject", "message", "remedy"] for each in found)
    assert {each["severity"] for each in found} == {"info"}
    assert not os.path.exists("data")


def test_design_error_exits_1(capsys: pytest.CaptureFixture[str]) -> None:
    found = run_json(capsys, "check", "brokenshop", code=1)

    assert ("error", "B1 without_example") in [(each["severity"], each["subject"]) for each in found]


@pytest.mark.parametrize(
    ("words", "code"),
    [(["check"], 1), (["check", "--json"], 1), (["tables", "--create"], 0), (["systems"], 0)],
)
def test_without_a_system_says_how_to_get_one_and_only_check_fails(
    words: list[str], code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("holdfast.model.system.list_system_names", tuple)

    with pytest.raises(SystemExit) as exited:
        main(words)

    printed = capsys.readouterr()
    assert exited.value.code == code
    said = " ".join((printed.err if code else printed.out).split())
    assert said == (
        f"{'holdfast: ' if code else ''}No system is installed. A package provides one through the entry "
        "point `holdfast.systems`. `holdfast new NAME` creates one."
    )


def test_check_prints_remedies_and_counts(capsys: pytest.CaptureFixture[str]) -> None:
    shown = run_command(capsys, "check", "brokenshop", code=1)

    assert "Give it example=" in shown
    assert "brokenshop: 2 errors" in shown


def test_cost_prints_the_total_and_its_parts(capsys: pytest.CaptureFixture[str]) -> None:
    (found,) = run_json(capsys, "cost", "shop")

    assert (found["is_complete"], found["not_counted"]) == (True, [])
    assert (found["system"], found["prices"], found["currency"]) == ("shop", "dynamodb-2024-11", "USD")
    assert found["total"] == pytest.approx(sum(table["total"] for table in found["tables"]))
    assert [each["id"] for each in found["patterns"]] == [each.id for each in shop.SYSTEM.patterns]
    assert [each["index"] for each in found["indexes"]] == ["customer-index"]


def test_cost_accepts_another_price_list(capsys: pytest.CaptureFixture[str]) -> None:
    free = load_price_list().model_dump(mode="json") | {
        "name": "free",
        "write_units_million": 0,
        "read_units_million": 0,
        "storage_gb_month": 0,
        "recovery_gb_month": 0,
        "stream_reads_hundred_thousand": 0,
    }
    Path("free.json").write_text(json.dumps(free))

    (found,) = run_json(capsys, "cost", "shop", "--prices", "free.json")

    assert (found["prices"], found["total"]) == ("free", 0)


def test_prints_cost_as_tables_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    shown = run_command(capsys, "cost", "shop")

    assert "what each index costs and saves" in shown
    assert "USD" in shown and "per month" in shown and "measured on sample data" in shown
    assert "at least" not in shown


def test_cost_names_uncounted_patterns_and_calls_the_total_a_minimum(
    capsys: pytest.CaptureFixture[str],
) -> None:
    (found,) = run_json(capsys, "cost", "brokenshop")
    shown = run_command(capsys, "cost", "brokenshop")

    assert found["is_complete"] is False
    assert "B1" in [each["id"] for each in found["not_counted"]]
    assert "brokenshop: at least USD" in shown
    assert "B1 is not counted: " in shown


def test_rejects_a_missing_price_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert "Failed to read the price list none.json" in run_command(
        capsys, "cost", "shop", "--prices", "none.json", code=1
    )
