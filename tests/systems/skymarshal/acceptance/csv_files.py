"""Helpers for tests of imports: write and import CSV files, read stored rows and reasons of refusal."""

from __future__ import annotations

import asyncio
import csv
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from holdfast import Entity, Stores, open_stores
from holdfast.config.settings import Settings
from holdfast.runtime import ImportReport, import_csv
from skymarshal.api.csv_imports import IMPORTS
from skymarshal.model.entities import Booking
from skymarshal.system import SYSTEM

T = TypeVar("T")
E = TypeVar("E", bound=Entity)

HEADER = "booking_id,passenger_id,flight_id,booking_status\n"


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def import_file(stores: Stores, table: str, file: Path, **options: Any) -> ImportReport:
    """Import a CSV file with the importer of a table. `options` are those of `import_csv`."""
    return run(import_csv(stores, IMPORTS[table], file, **options))


def write_file(tmp_path: Path, text: str | bytes, name: str = "rows.csv") -> Path:
    """Write a file into the folder and return its path."""
    file = tmp_path / name
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return file


def read_all(stores: Stores, entity: type[E]) -> tuple[E, ...]:
    """Return every stored row of an entity by a scan."""
    return run(stores.all(entity.scan(reason="a test looks at all of it"))).items


def list_reasons(report: ImportReport) -> dict[int, str]:
    """Return the reasons of refused rows by line number, read from the report's rejects file."""
    assert report.rejects is not None
    with report.rejects.open(encoding="utf-8", newline="") as file:
        return {int(row["line"]): row["reason"] for row in csv.DictReader(file)}


def read_file_bookings(tables: Path) -> tuple[Booking, ...]:
    """Return every booking in an SQLite tables file."""

    async def read() -> tuple[Booking, ...]:
        async with open_stores(SYSTEM, Settings(tables=f"sqlite:{tables}")) as stores:
            return (await stores.all(Booking.scan(reason="all of it"))).items

    return run(read())
