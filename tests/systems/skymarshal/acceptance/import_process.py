"""Process that imports bookings and prints a line whenever it has a checkpoint, until it is killed."""

from __future__ import annotations

from pathlib import Path

from holdfast import open_stores
from holdfast.runtime import import_csv
from holdfast.runtime.csv_io.importer import CHECKPOINT_SUFFIX
from skymarshal.api.csv_imports import IMPORTS
from skymarshal.system import SYSTEM


async def main(file: Path, location: str) -> None:
    checkpoint = file.with_name(f"{file.name}.rejects.csv{CHECKPOINT_SUFFIX}")

    def report(done: int, total: int) -> None:
        if checkpoint.exists():
            print(done, flush=True)  # noqa: T201

    async with open_stores(SYSTEM) as stores:
        await import_csv(stores, IMPORTS["Bookings"], file, location=location, progress=report)
