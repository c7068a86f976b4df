"""An import that is interrupted, by a full disk or with kill -9, and goes on: it loses and repeats nothing visible."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from holdfast import Importer, Stores, import_csv, open_memory_stores
from holdfast.core.errors import InvalidRequest, SettingsError, StoreFull
from holdfast.runtime.csv_io import importer
from holdfast.stores.tables.dynamodb import open_dynamodb
from holdfast.stores.tables.embedded import open_tables
from holdfast.wire.server import running_server
from skymarshal.api.csv_imports import IMPORTS
from skymarshal.model.entities import Booking
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


class _FullAfter:
    """Stores whose disk is full after some batches."""

    def __init__(self, importer: Importer, batches: int) -> None:
        self.left, self._importer = batches, importer

    def put(self, rows: Sequence[Any]) -> Any:
        self.left -= 1
        if self.left < 0:
            raise StoreFull("There is no room left: free some and repeat it.")
        assert self._importer.put is not None
        return self._importer.put(rows)


def _interrupted(stores: Stores, file: Path, batches: int) -> None:
    importer = IMPORTS["Bookings"]
    full = Importer(importer.entity, _FullAfter(importer, batches).put, importer.aliases)
    with pytest.raises(StoreFull):
        done(import_csv(stores, full, file))


def _many(tmp_path: Path, rows: int = 3_500) -> Path:
    """Rows of which every hundredth is wrong and every fiftieth has the key of the one before."""
    lines = [
        f"{n - (n % 50 == 49)},OZ{n},{n % 9},{'Perhaps' if n % 100 == 7 else 'OK'}\n" for n in range(rows)
    ]
    return written(tmp_path, HEADER + "".join(lines))


def test_an_interrupted_import_goes_on_and_tells_as_if_nothing_had_happened(tmp_path: Path) -> None:
    file = _many(tmp_path)
    whole, parts = open_memory_stores(SYSTEM), open_memory_stores(SYSTEM)
    expected = imported(whole, "Bookings", file)
    told = (tmp_path / "rows.csv.rejects.csv").read_bytes()

    _interrupted(parts, file, batches=90)
    assert (tmp_path / "rows.csv.rejects.csv.resume").exists()
    report = imported(parts, "Bookings", file)

    assert report.resumed == 2_000
    assert (report.rows, report.written) == (expected.rows, expected.written)
    assert (report.rejected, report.duplicates) == (expected.rejected, expected.duplicates)
    assert (tmp_path / "rows.csv.rejects.csv").read_bytes() == told
    assert everything(parts, Booking) == everything(whole, Booking)
    assert not (tmp_path / "rows.csv.rejects.csv.resume").exists()


def test_what_was_written_before_the_interruption_is_not_written_again(tmp_path: Path) -> None:
    file, stores = _many(tmp_path), open_memory_stores(SYSTEM)
    _interrupted(stores, file, batches=90)

    with stores.meter_usage() as meter:
        report = imported(stores, "Bookings", file)

    batches = meter.filter_by_pattern("IN1").usages
    assert report.written - report.resumed <= 25 * len(batches) < report.written


@pytest.mark.parametrize("change", [b"OZX,", b"OZX longer,", b"X,"])
def test_a_file_that_changed_since_is_refused_until_it_is_begun_anew(tmp_path: Path, change: bytes) -> None:
    file, stores = _many(tmp_path), open_memory_stores(SYSTEM)
    _interrupted(stores, file, batches=90)
    before = everything(stores, Booking)
    file.write_bytes(file.read_bytes().replace(b"OZ5,", change, 1))

    with pytest.raises(InvalidRequest, match="has changed since its import was interrupted"):
        imported(stores, "Bookings", file)

    assert everything(stores, Booking) == before
    assert imported(stores, "Bookings", file, restart=True).resumed == 0
    assert change.decode().rstrip(",") in {each.passenger_id for each in everything(stores, Booking)}


def test_a_file_that_was_cut_since_is_refused_too(tmp_path: Path) -> None:
    file, stores = _many(tmp_path), open_memory_stores(SYSTEM)
    _interrupted(stores, file, batches=90)
    file.write_bytes(file.read_bytes()[:5_000])

    with pytest.raises(InvalidRequest, match="--restart"):
        imported(stores, "Bookings", file)


def test_a_table_that_was_made_anew_gets_everything(tmp_path: Path) -> None:
    file, other = _many(tmp_path), open_memory_stores(SYSTEM)
    _interrupted(open_memory_stores(SYSTEM), file, batches=90)

    report = imported(other, "Bookings", file)

    assert report.resumed == 0
    assert len(everything(other, Booking)) == report.written


def test_a_checkpoint_of_another_place_is_not_gone_on_from(tmp_path: Path) -> None:
    file, stores = _many(tmp_path), open_memory_stores(SYSTEM)
    _interrupted(stores, file, batches=90)

    assert imported(stores, "Bookings", file, location="elsewhere").resumed == 0


def test_a_row_that_the_store_refused_is_told_again_after_an_interruption(tmp_path: Path) -> None:
    long = "k" * 3000
    file, stores = _many(tmp_path), open_memory_stores(SYSTEM)
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace(HEADER, f"{HEADER}{long},OZ,1,OK\n") + f"{long},OZ,1,OK\n", encoding="utf-8")
    _interrupted(stores, file, batches=90 + 26)

    told = reasons(imported(stores, "Bookings", file))

    assert "The store refused the row" in told[2]
    assert "The row repeats the key" in told[3502]


def test_a_place_that_cannot_be_written_to_is_told(tmp_path: Path) -> None:
    stores = open_memory_stores(SYSTEM)
    file = written(tmp_path, HEADER + "1,OZ1,1,OK\n")

    with pytest.raises(SettingsError, match="choose a writable path for the rejects"):
        imported(stores, "Bookings", file, rejects=tmp_path / "missing" / "rejects.csv")
    file = written(tmp_path, HEADER + "1,OZ1,1,Perhaps\n")
    with pytest.raises(SettingsError, match="Writing the rejects file"):
        imported(stores, "Bookings", file, rejects=tmp_path / "missing" / "rejects.csv")


def test_a_checkpoint_that_cannot_be_read_is_a_beginning(tmp_path: Path) -> None:
    file, stores = _many(tmp_path, 100), open_memory_stores(SYSTEM)
    (tmp_path / ("rows.csv.rejects.csv" + importer.CHECKPOINT_SUFFIX)).write_text("[1, 2")

    assert imported(stores, "Bookings", file).resumed == 0


KILLED = """
import asyncio, sys
from pathlib import Path
from holdfast import import_csv, load_system, open_stores

async def run():
    system = load_system("skymarshal")
    tables = Path(sys.argv[2])
    def progress(done, total):
        if Path(sys.argv[1] + ".rejects.csv.resume").exists():
            print(done, flush=True)
    async with open_stores(system) as stores:
        await import_csv(
            stores, system.imports["Bookings"], Path(sys.argv[1]), location=str(tables), progress=progress
        )

asyncio.run(run())
"""


@pytest.mark.proves("SM-34")
@pytest.mark.parametrize("stretches", [1, 4])
def test_an_import_killed_with_9_loses_and_repeats_nothing(tmp_path: Path, stretches: int) -> None:
    file = _many(tmp_path, 12_000)
    tables = tmp_path / "data" / "tables.db"
    environ = os.environ | {"HOLDFAST_TABLES": f"sqlite:{tables}"}
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(file), str(tables.resolve())],
        env=environ,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    for _ in range(stretches):
        assert process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    process.stdout.close()
    assert process.wait() == -signal.SIGKILL

    again = subprocess.run(
        [sys.executable, "-m", "holdfast", "import", "skymarshal", "Bookings", str(file), "--json"],
        env=environ,
        capture_output=True,
        text=True,
        check=True,
    )

    report = json.loads(again.stdout)
    assert report["resumed"] >= 1_000
    clean = open_memory_stores(SYSTEM)
    expected = imported(clean, "Bookings", file, rejects=tmp_path / "clean.csv")
    assert (report["rows"], report["written"]) == (expected.rows, expected.written)
    assert (report["rejected"], report["duplicates"]) == (expected.rejected, expected.duplicates)
    assert (tmp_path / "rows.csv.rejects.csv").read_bytes() == (tmp_path / "clean.csv").read_bytes()
    assert in_file(tables) == everything(clean, Booking)


def test_an_import_over_the_wire_is_interrupted_and_goes_on(
    tmp_path: Path,
) -> None:
    file = _many(tmp_path, 1_500)
    with open_tables() as behind, running_server(tables=behind) as url:
        tables = open_dynamodb(endpoint=url, region="us-east-1")
        stores = Stores(tables, system=SYSTEM)
        _interrupted(stores, file, batches=45)
        report = imported(stores, "Bookings", file)
        tables.close()
        arrived = everything(Stores(behind, system=SYSTEM), Booking)

    assert report.resumed == 1_000
    assert len(arrived) == report.written
