"""The system of the corpus: all parts together, opened on a data folder, and written with work in flight."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from holdfast import Stores, System, open_stores, provision
from holdfast.config.settings import Settings
from holdfast.core.correlation import bind_correlation_id
from holdfast.model.system import Admin, Privacy
from holdfast.stores.tables.embedded.jobs.worker import LEASE

from . import books, effects, files, guards, histories, moves, news, raw, trips
from .clock import WRITTEN_AT, ManualClock
from .process import hide_machine

PARTS: Final = (books, effects, guards, histories, moves, news, trips)
ENVIRONMENT: Final = "corpus"

SYSTEM: Final = System(
    "corpus",
    "Work in flight in every part of the library, for the tests of compatibility",
    tables=tuple(dict.fromkeys(table for part in (*PARTS, raw, files) for table in part.TABLES)),
    patterns=tuple(pattern for part in PARTS for pattern in part.PATTERNS),
    queues=(*news.QUEUES, *trips.QUEUES),
    buckets=files.BUCKETS,
    flows=(trips.TRIPS,),
    admin=Admin(migrations={each.name: each for each in (moves.CARDS, moves.SEATS, moves.DESKS)}),
    privacy=Privacy(subjects={histories.KIND: histories.find_subject_data}),
)


def open_library(folder: Path, clock: ManualClock) -> Stores:
    """Open the data folder as the system's processes do."""
    settings = Settings(
        tables=f"sqlite:{folder / 'tables.db'}",
        queues=f"sqlite:{folder / 'queues.db'}",
        objects=f"file:{folder / 'objects'}",
        keys=f"file:{folder / 'keys.json'}",
        environment=ENVIRONMENT,
    )
    return open_stores(SYSTEM, settings, clock=clock)


async def write_library(folder: Path) -> tuple[Stores, dict[str, Any]]:
    """Write the data folder, and return its stores, still open, with the notes of every part."""
    clock = ManualClock(WRITTEN_AT - 2 * 86400)
    stores = open_library(folder, clock)
    tables: Any = stores.tables
    hide_machine(stores)
    await provision(stores, SYSTEM)
    clock.moment = WRITTEN_AT
    notes: dict[str, Any] = {"written_at": WRITTEN_AT}
    for part in (*PARTS, raw):
        with bind_correlation_id("a correlation id"):
            notes[part.__name__.rpartition(".")[2]] = await part.write(stores)
        assert clock.moment == WRITTEN_AT, part
    notes["files"] = await files.write(stores, folder)
    # From here on started work stays undone, under the lease of a dead worker.
    tables._worker.close()
    tables._worker._leases.take(LEASE)
    notes["raw"] |= await raw.leave(stores)
    notes["effects"] |= await effects.leave(stores)
    return stores, notes
