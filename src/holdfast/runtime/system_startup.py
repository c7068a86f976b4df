"""Start of a system: what each process that runs it does first, on open stores.

It creates what is missing and migrates, warns of what it may not change, and runs the start-up functions. A
host that only reads, such as `holdfast mcp` or `holdfast why`, does not start the system: it uses what is
there, and what is missing is an error of the operation that needs it.
"""

from __future__ import annotations

import logging

from holdfast.core.errors import AccessRefused
from holdfast.model.demo import find_working_demo
from holdfast.model.system import System
from holdfast.runtime.stores import Stores
from holdfast.runtime.system_provisioner import provision
from holdfast.runtime.table_provisioner import get_index_reports

log = logging.getLogger(__name__)


async def start_system(system: System, stores: Stores) -> None:
    """Create missing resources, log a warning for each that could not be changed and for each missing index,
    and run the `on_startup` of the system and of its demo.
    """
    for name, refused in (await provision(stores, system)).items():
        log.warning("The %s is used unchanged: %s", name, refused)
    await _warn_of_missing_indexes(system, stores)
    for on_startup in (system.deployment.on_startup, find_working_demo(system).on_startup):
        if on_startup is not None:
            await on_startup(stores)


async def _warn_of_missing_indexes(system: System, stores: Stores) -> None:
    """Log a warning for each declared index that an older table lacks, unless it is optional."""
    for table in system.tables:
        try:
            reports = await get_index_reports(stores, [table])
        except AccessRefused:
            continue  # `provision` has reported it
        wanted = {index.name for index in table.global_indexes if index.default}
        for report in reports:
            if report.status == "ABSENT" and report.index in wanted:
                log.warning(
                    "The table %s lacks the index %s: `holdfast indexes add %s` adds it.",
                    stores.physical_name(table),
                    report.index,
                    system.name,
                )
