"""A process that changes the crew roster, or migrates it and kills itself, on one tables file.

traffic NAME SEED            changes and reads the roster, prints "ready", and on a line on its standard
                             input ends and prints the acknowledged assignments, which must exist, as JSON
migrate STEP COUNT MOMENT    migrates up to the end of STEP ("remove" too), and kills itself at the
                             COUNT-th request to the store: "before" it is made or "after" it is done
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from random import Random
from typing import Any, Final

from holdfast import Stores
from holdfast.guarantees.table_migration import MigrationStep, Pace, migrate, remove_source
from holdfast.stores.tables.embedded import EmbeddedTables, open_tables
from skymarshal.model.entities import CrewAssignment
from skymarshal.model.roster import CREW_ROSTER_V2
from skymarshal.system import SYSTEM
from tests.faults.self_killing import SelfKillingTables
from tests.systems.skymarshal.acceptance.roster_traffic import Traffic, keep_reading

# Short, so that others do not wait long for a dead process.
PACE: Final = Pace(lease_s=0.3, hold_s=1.0, segments=2, batch_size=10)
RESTING: Final = "old-0"


async def main(path: Path, role: str, *arguments: Any) -> None:
    with open_tables(path) as tables:
        await _run_traffic(tables, *arguments) if role == "traffic" else _run_migration(tables, *arguments)


async def _run_traffic(tables: EmbeddedTables, name: str, seed: int) -> None:
    """Write and read until a line arrives on standard input, then print the acknowledged rows as JSON."""
    stores = Stores(tables, system=SYSTEM)
    known = (await stores.all(CrewAssignment.scan(reason="the rows to change"))).items
    [resting] = [each for each in known if each.roster_id == RESTING]
    writer = Traffic(stores, name, Random(seed), [each for each in known if each is not resting])
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(writer.run(stop))
        group.create_task(keep_reading(stores.for_component("agent"), stop, resting))
        os.write(1, b"ready\n")
        await asyncio.to_thread(sys.stdin.readline)
        stop.set()
    acknowledged = [each.model_dump(mode="json") for each in (resting, *writer.rows.values())]
    os.write(1, json.dumps({"changes": writer.changes, "there": acknowledged}).encode() + b"\n")


async def _run_migration(tables: EmbeddedTables, step: str, count: int, moment: str) -> None:
    """Migrate up to the step, or remove the source, with a store that kills the process."""
    stores = Stores(SelfKillingTables(tables, count, is_after=moment != "before"), system=SYSTEM)
    if step == "remove":
        await remove_source(CREW_ROSTER_V2, stores, pace=PACE)
    else:
        await migrate(CREW_ROSTER_V2, stores, until=MigrationStep(step), pace=PACE)
