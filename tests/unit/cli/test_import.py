"""`holdfast import`: exit codes, and the messages about invalid files, tables and rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.cli import main
from holdfast.runtime.csv_io.records import CsvFile

HEADER = "flight_id,flight_number,origin,destination,scheduled_departure,scheduled_arrival"
FLIGHT = "1,EY11,AUH,LHR,2026-01-30T02:00:00.5Z,2026-01-30T09:40:00Z"


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run_import(capsys: pytest.CaptureFixture[str], table: str, file: str) -> tuple[int, str]:
    """Run `holdfast import skymarshal TABLE FILE` and return its exit code and output."""
    with pytest.raises(SystemExit) as exited:
        main(["import", "skymarshal", table, file])
    output = capsys.readouterr()
    return int(exited.value.code or 0), output.out + output.err


def test_rejects_a_folder_as_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_import(capsys, "Passengers", ".") == (
        1,
        "holdfast: . is a folder: give a CSV file.\n",
    )


def test_header_alone_imports_nothing_and_exits_1(capsys: pytest.CaptureFixture[str]) -> None:
    Path("p.csv").write_text("passenger_id,name\n", encoding="utf-8")

    code, output = run_import(capsys, "Passengers", "p.csv")

    assert code == 1
    assert "0 rows of p.csv" in output


def test_error_for_a_table_without_an_import_says_how_to_declare_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("m.csv").write_text("name\n", encoding="utf-8")

    code, output = run_import(capsys, "Migrations", "m.csv")

    assert code == 1
    assert "Declare Admin(imports={'Migrations': Importer(…)})" in output


def test_rejects_a_second_import_of_a_file_while_the_first_runs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = Path("p.csv")
    file.write_text("passenger_id,name\nP1,Amal\n", encoding="utf-8")

    with CsvFile(file, "utf-8", lambda _: True):
        code, output = run_import(capsys, "Passengers", "p.csv")

    assert code == 1
    assert "Another import of p.csv is running" in output
    assert list(Path().glob("*.resume*")) == []


def test_rejects_a_time_with_a_fraction_of_a_second_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    Path("f.csv").write_text(
        f"{HEADER},aircraft_registration,aircraft_type\n{FLIGHT},A6-APA,A388\n", encoding="utf-8"
    )

    code, _ = run_import(capsys, "Flights", "f.csv")
    refused = Path("f.csv.rejects.csv").read_text(encoding="utf-8")

    assert code == 1
    assert "Invalid scheduled_departure 2026-01-30T02:00:00.5" in refused
    assert "fraction of a second" in refused and "datetime" not in refused
