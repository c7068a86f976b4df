"""Imports interrupted by a full store or SIGKILL: they resume, and lose or repeat no row."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from holdfast import Stores, open_memory_stores
from holdfast.core.errors import InvalidRequest, SettingsError, StoreFull
from holdfast.runtime import Importer, import_csv
from holdfast.runtime.csv_io import importer
from holdfast.stores.tables.dynamodb import open_dynamodb
from holdfast.stores.tables.embedded import open_tables
from holdfast.wire.http.server import start_server
from skymarshal.api.csv_imports import IMPORTS
from skymarshal.model.entities import Booking
from skymarshal.system import SYSTEM
from tests.cases import all_cases
from tests.processes import Process, preload
from tests.systems.skymarshal.acceptance.csv_files import (
    HEADER,
    import_file,
    list_reasons,
    read_all,
    read_file_bookings,
    run,
    write_file,
)

IMPORT = "tests.systems.skymarshal.acceptance.import_process"

preload(IMPORT)


class _FullDiskImporter:
    """The writer of an importer that raises `StoreFull` after `batches` batches."""

    def __init__(self, importer: Importer, batches: int) -> None:
        self.left, self._importer = batches, importer

    def put(self, rows: Sequence[Any]) -> Any:
        self.left -= 1
        if self.left < 0:
            raise StoreFull("There is no room left: free some and repeat it.")
        assert self._importer.put is not None
        return self._importer.put(rows)


def _interrupt_import(stores: Stores, file: Path, batches: int) -> None:
    """Start an import of bookings that fails after `batches` batches."""
    importer = IMPORTS["Bookings"]
    full = Importer(importer.entity, _FullDiskImporter(importer, batches).put, importer.aliases)
    with pytest.raises(StoreFull):
        run(import_csv(stores, full, file))


def _write_many_rows(tmp_path: Path, rows: int = 1_500) -> Path:
    """Write a file of bookings: every hundredth is invalid, and every fiftieth repeats the previous key."""
    lines = [
        f"{n - (n % 50 == 49)},OZ{n},{n % 9},{'Perhaps' if n % 100 == 7 else 'OK'}\n" for n in range(rows)
    ]
    return write_file(tmp_path, HEADER + "".join(lines))


def test_interrupted_import_resumes_with_the_same_report(tmp_path: Path) -> None:
    file = _write_many_rows(tmp_path)
    whole, parts = open_memory_stores(SYSTEM), open_memory_stores(SYSTEM)
    expected = import_file(whole, "Bookings", file)
    rejects = (tmp_path / "rows.csv.rejects.csv").read_bytes()

    _interrupt_import(parts, file, batches=45)
    assert (tmp_path / "rows.csv.rejects.csv.resume").exists()
    report = import_file(parts, "Bookings", file)

    assert report.resumed == 1_000
    assert (report.rows, report.written) == (expected.rows, expected.written)
    assert (report.rejected, report.duplicates) == (expected.rejected, expected.duplicates)
    assert (tmp_path / "rows.csv.rejects.csv").read_bytes() == rejects
    assert read_all(parts, Booking) == read_all(whole, Booking)
    assert not (tmp_path / "rows.csv.rejects.csv.resume").exists()


def test_resumed_import_does_not_rewrite_rows(tmp_path: Path) -> None:
    file, stores = _write_many_rows(tmp_path), open_memory_stores(SYSTEM)
    _interrupt_import(stores, file, batches=45)

    with stores.meter_usage() as meter:
        report = import_file(stores, "Bookings", file)

    batches = meter.filter_by_pattern("IN1").usages
    assert report.written - report.resumed <= 25 * len(batches) < report.written


@all_cases("change", [b"OZX,", b"OZX longer,", b"X,"])
def test_refuses_to_resume_a_changed_file(tmp_path: Path, change: bytes) -> None:
    file, stores = _write_many_rows(tmp_path), open_memory_stores(SYSTEM)
    _interrupt_import(stores, file, batches=45)
    before = read_all(stores, Booking)
    file.write_bytes(file.read_bytes().replace(b"OZ5,", change, 1))

    with pytest.raises(InvalidRequest, match="has changed since its import was interrupted"):
        import_file(stores, "Bookings", file)

    assert read_all(stores, Booking) == before
    assert import_file(stores, "Bookings", file, restart=True).resumed == 0
    assert change.decode().rstrip(",") in {each.passenger_id for each in read_all(stores, Booking)}


def test_refuses_to_resume_a_truncated_file(tmp_path: Path) -> None:
    file, stores = _write_many_rows(tmp_path), open_memory_stores(SYSTEM)
    _interrupt_import(stores, file, batches=45)
    file.write_bytes(file.read_bytes()[:5_000])

    with pytest.raises(InvalidRequest, match="--restart"):
        import_file(stores, "Bookings", file)


def test_checkpoint_of_another_table_is_ignored_and_every_row_is_written(tmp_path: Path) -> None:
    file, other = _write_many_rows(tmp_path), open_memory_stores(SYSTEM)
    _interrupt_import(open_memory_stores(SYSTEM), file, batches=45)

    report = import_file(other, "Bookings", file)

    assert report.resumed == 0
    assert len(read_all(other, Booking)) == report.written


def test_ignores_a_checkpoint_of_another_location(tmp_path: Path) -> None:
    file, stores = _write_many_rows(tmp_path), open_memory_stores(SYSTEM)
    _interrupt_import(stores, file, batches=45)

    assert import_file(stores, "Bookings", file, location="elsewhere").resumed == 0


def test_row_refused_by_the_store_is_reported_again_after_resuming(tmp_path: Path) -> None:
    long = "k" * 3000
    file, stores = _write_many_rows(tmp_path), open_memory_stores(SYSTEM)
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace(HEADER, f"{HEADER}{long},OZ,1,OK\n") + f"{long},OZ,1,OK\n", encoding="utf-8")
    _interrupt_import(stores, file, batches=45 + 26)

    found = list_reasons(import_file(stores, "Bookings", file))

    assert "The store refused the row" in found[2]
    assert "The row repeats the key" in found[1502]


def test_refuses_an_unwritable_rejects_path_with_or_without_rejects(tmp_path: Path) -> None:
    stores = open_memory_stores(SYSTEM)
    file = write_file(tmp_path, HEADER + "1,OZ1,1,OK\n")

    with pytest.raises(SettingsError, match="choose a writable path for the rejects"):
        import_file(stores, "Bookings", file, rejects=tmp_path / "missing" / "rejects.csv")
    file = write_file(tmp_path, HEADER + "1,OZ1,1,Perhaps\n")
    with pytest.raises(SettingsError, match="Writing the rejects file"):
        import_file(stores, "Bookings", file, rejects=tmp_path / "missing" / "rejects.csv")


def test_unreadable_checkpoint_starts_from_the_beginning(tmp_path: Path) -> None:
    file, stores = _write_many_rows(tmp_path, 100), open_memory_stores(SYSTEM)
    (tmp_path / ("rows.csv.rejects.csv" + importer.CHECKPOINT_SUFFIX)).write_text("[1, 2")

    assert import_file(stores, "Bookings", file).resumed == 0


@pytest.mark.proves("SM-34")
@pytest.mark.parametrize("stretches", [1, 4])
def test_killed_import_loses_and_repeats_nothing(tmp_path: Path, stretches: int) -> None:
    file = _write_many_rows(tmp_path, 6_000)
    tables = tmp_path / "data" / "tables.db"
    variables = {"HOLDFAST_TABLES": f"sqlite:{tables}"}
    with Process(IMPORT, file, str(tables.resolve()), variables=variables) as process:
        for _ in range(stretches):
            assert process.stdout.readline(), process.read_log()
        process.kill()
        assert process.is_killed

    again = Process(
        "tests.processes", "import", "skymarshal", "Bookings", str(file), "--json", variables=variables
    )
    said, log = again.communicate()
    assert again.returncode == 0, log

    report = json.loads(said)
    assert report["resumed"] >= 1_000
    clean = open_memory_stores(SYSTEM)
    expected = import_file(clean, "Bookings", file, rejects=tmp_path / "clean.csv")
    assert (report["rows"], report["written"]) == (expected.rows, expected.written)
    assert (report["rejected"], report["duplicates"]) == (expected.rejected, expected.duplicates)
    assert (tmp_path / "rows.csv.rejects.csv").read_bytes() == (tmp_path / "clean.csv").read_bytes()
    assert read_file_bookings(tables) == read_all(clean, Booking)


def test_interrupted_import_over_http_resumes(tmp_path: Path) -> None:
    file = _write_many_rows(tmp_path, 1_500)
    with open_tables() as behind, start_server(tables=behind) as url:
        tables = open_dynamodb(endpoint=url, region="us-east-1")
        stores = Stores(tables, system=SYSTEM)
        _interrupt_import(stores, file, batches=45)
        report = import_file(stores, "Bookings", file)
        tables.close()
        arrived = read_all(Stores(behind, system=SYSTEM), Booking)

    assert report.resumed == 1_000
    assert len(arrived) == report.written
