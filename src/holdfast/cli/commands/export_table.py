"""`holdfast export`: write a system's table to a CSV file that `holdfast import` reads back."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.config.settings import Settings
from holdfast.core.errors import NotFound

if TYPE_CHECKING:
    from holdfast.model.entities.entity import Entity
    from holdfast.model.system import System


def export_table(
    system: Annotated[str, typer.Argument(metavar="SYSTEM", help="The system that declares the table.")],
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The table to export.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The CSV file to write.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Export a whole table to a CSV file.

    The export reads, and on DynamoDB pays for, every item.
    """
    from holdfast.cli.output.console import get_console, print_json
    from holdfast.model.system import load_system

    found = load_system(system)
    rows = asyncio.run(_export(found, _find_entity(found, table), file, as_json))
    if as_json:
        print_json({"system": found.name, "table": table, "file": str(file), "rows": rows})
    else:
        get_console().print(f"{rows:,} rows of {table} exported to {file}.", soft_wrap=True, markup=False)


def _find_entity(system: System, table: str) -> type[Entity]:
    """Return the only entity of the table. Raise `NotFound` if the table has none or several."""
    entities: list[type[Entity]] = list(system.get_table(table).entities)
    if len(entities) != 1:
        names = ", ".join(entity.__name__ for entity in entities)
        raise NotFound(
            f"{table} holds {names or 'no entity'}: only a table with exactly one entity can be exported."
        )
    return entities[0]


async def _export(system: System, entity: type[Entity], file: Path, as_json: bool) -> int:
    """Export the table, with a progress bar unless `as_json`, and return the number of rows."""
    from holdfast.cli.output.console import progress_bar
    from holdfast.runtime import describe_table, export_csv, open_stores

    with progress_bar(enabled=not as_json) as show:
        async with open_stores(system, Settings.load()) as stores:
            table = entity.scan(reason="an export reads everything").table
            description = await describe_table(stores, table)
            total = 0 if description is None else description.item_count
            return await export_csv(
                stores,
                entity,
                file,
                progress=lambda rows: show(f"{table.name} (rows)", rows, max(rows, total)),
            )
