"""Operator commands of the directory: import a CSV file, list employees, try the words of approvers.

`holdfast tripcortex directory import FILE --dry-run`, `… directory list`, `… directory approvers ada "L1"`.
"""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Final

from holdfast import Page, Stores
from holdfast.core.errors import InvalidRequest
from holdfast.model.system import Command, Listing
from tripcortex.directory.approvers import open_finder
from tripcortex.directory.csv_import import import_csv
from tripcortex.model import directory
from tripcortex.settings import TripCortexSettings

COLUMNS: Final = (
    "id",
    "display_name",
    "manager_id",
    "level",
    "department",
    "roles",
    "delegate_id",
    "active",
)


async def directory_import(
    stores: Stores,
    file: Annotated[Path, "A CSV file of all employees, with a header"],
    dry_run: Annotated[bool, "Only report the difference; write nothing"] = False,
    partial: Annotated[bool, "Leave employees alone whom the file does not name"] = False,
) -> Any:
    """Import the directory of employees from a CSV file; employees that it leaves out are deactivated."""
    try:
        content = await asyncio.to_thread(file.read_bytes)
    except OSError as error:
        raise InvalidRequest(f"Could not read {file}: {error.strerror}.") from error
    report = await import_csv(stores, content, dry_run=dry_run, partial=partial)
    if report.removed and not dry_run:
        # Imported here because the list of commands needs no web framework.
        from tripcortex.api.trips import Trips

        await Trips(stores).reassign_approvals()
    return asdict(report)


async def directory_approvers(
    stores: Stores,
    traveller: Annotated[str, "The employee id of the traveller"],
    words: Annotated[list[str], "Approvers as a policy names them, such as “L1 manager”"],
) -> Any:
    """Show who would be asked to approve a traveller's trip, by stage."""
    settings = TripCortexSettings.load()
    finder = await open_finder(stores, traveller, settings)
    found = [
        {"stage": position, **ask.model_dump(mode="json", include={"word", "people", "is_named"})}
        for position, stage in enumerate(await finder.find_stages(words, ()), 1)
        for ask in stage
    ]
    return Listing(Page(tuple(found)), ("stage", "word", "people", "is_named"))


async def directory_list(
    stores: Stores,
    limit: Annotated[int, "How many employees, at most 200"] = 100,
    offset: Annotated[int, "How many employees to skip"] = 0,
) -> Any:
    """List the employees in the directory, by id."""
    limit = min(max(limit, 1), directory.MAX_LIST)
    rows = await stores.run(directory.employees(limit=limit, offset=max(offset, 0)))
    return Listing(Page(tuple(each.model_dump(mode="json") for each in rows)), COLUMNS)


DIRECTORY_COMMANDS: Final = {
    "directory import": Command(directory_import),
    "directory list": Command(directory_list, "support"),
    "directory approvers": Command(directory_approvers, "support"),
}
