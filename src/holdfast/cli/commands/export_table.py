"""`holdfast export`: a system's table into a CSV file that `holdfast import` reads back."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.errors import NotFound
from holdfast.settings import Settings

if TYPE_CHECKING:
    from holdfast.model.entity import Entity
    from holdfast.model.system import System


def export_table(
    system: Annotated[str, typer.Argument(metavar="SYSTEM", help="Whose table.")],
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The table to write out.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The CSV file to make.")],
    as_json: Annotated[bool, typer.Option("--json", help="Answer in JSON.")] = False,
) -> None:
    """Write a whole table into a CSV file. It reads everything, and costs as much."""
    from holdfast.cli.showing import console, print_json
    from holdfast.model.system import installed_system

    found = installed_system(system)
    rows = asyncio.run(_exported(found, _entity(found, table), file, as_json))
    if as_json:
        print_json({"system": found.name, "table": table, "file": str(file), "rows": rows})
    else:
        console().print(f"{rows:,} rows of {table} are in {file}.", soft_wrap=True, markup=False)


def _entity(system: System, table: str) -> type[Entity]:
    entities: list[type[Entity]] = list(system.table(table).entities)
    if len(entities) != 1:
        names = ", ".join(entity.__name__ for entity in entities)
        raise NotFound(
            f"{table} holds {names or 'nothing'}: only a table with one kind of rows can be exported."
        )
    return entities[0]


async def _exported(system: System, entity: type[Entity], file: Path, as_json: bool) -> int:
    from holdfast.cli.showing import progress_bar
    from holdfast.runtime import describe, export_csv, open_stores

    with progress_bar(shown=not as_json) as show:
        async with open_stores(system, Settings.load()) as stores:
            table = entity.scan(reason="an export is everything").table
            description = await describe(stores, table)
            total = 0 if description is None else description.item_count
            return await export_csv(
                stores,
                entity,
                file,
                progress=lambda rows: show(f"{table.name} (rows)", rows, max(rows, total)),
            )
