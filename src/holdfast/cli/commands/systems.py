"""`holdfast systems`: what is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.choosing import NONE_INSTALLED, chosen_systems

if TYPE_CHECKING:
    from holdfast.model.system import System


def systems(
    as_json: Annotated[bool, typer.Option("--json", help="Answer in JSON.")] = False,
) -> None:
    """List the systems that are installed, and what each declares."""
    from holdfast.cli.showing import console, number, plain_table, print_json

    found = chosen_systems(None)
    if as_json:
        print_json([_as_json(system) for system in found])
        return
    if not found:
        console().print(NONE_INSTALLED)
        return
    table = plain_table(
        "system", number("tables"), number("indexes"), number("patterns"), "components", "purpose"
    )
    for system in found:
        counts = (len(system.tables), len(system.indexes), len(system.patterns))
        components = ", ".join(component.name for component in system.components)
        table.add_row(system.name, *map(str, counts), components, system.purpose)
    console().print(table)


def _as_json(system: System) -> dict[str, Any]:
    return {
        "system": system.name,
        "title": system.title,
        "purpose": system.purpose,
        "tables": [table.name for table in system.tables],
        "indexes": [repr(index) for index in system.indexes],
        "patterns": [pattern.id for pattern in system.patterns],
        "components": [component.name for component in system.components],
    }
