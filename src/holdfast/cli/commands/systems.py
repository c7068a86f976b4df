"""`holdfast systems`: what is installed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.choosing import NONE_INSTALLED
from holdfast.errors import DeclarationError

if TYPE_CHECKING:
    from holdfast.model.system import System


def systems(
    as_json: Annotated[bool, typer.Option("--json", help="Answer in JSON.")] = False,
) -> None:
    """List the systems that are installed, and what each declares."""
    from holdfast.cli.showing import print_json

    found, broken = _installed()
    if as_json:
        told = [{"system": name, "error": error} for name, error in broken.items()]
        print_json([*(_as_json(system) for system in found), *told])
    else:
        _print_systems(found, broken)


def _installed() -> tuple[list[System], dict[str, str]]:
    """Every system that can be loaded, and of the others why not."""
    from holdfast.model.system import ENTRY_POINTS, installed_system

    found, broken = [], {}
    for name in sorted(entry_points(group=ENTRY_POINTS).names):
        try:
            found.append(installed_system(name))
        except DeclarationError as error:
            broken[name] = error.message
    return found, broken


def _print_systems(found: Sequence[System], broken: Mapping[str, str]) -> None:
    from rich.markup import escape

    from holdfast.cli.showing import console, number, plain_table

    if not found and not broken:
        console().print(NONE_INSTALLED)
    table = plain_table(
        "system", number("tables"), number("indexes"), number("queues"), number("buckets"), number("patterns"),
        "components", "purpose",
    )  # fmt: skip
    for system in found:
        declared = (system.tables, system.indexes, system.queues, system.buckets, system.patterns)
        components = ", ".join(component.name for component in system.components)
        table.add_row(system.name, *(str(len(several)) for several in declared), components, system.purpose)
    if found:
        console().print(table)
    for name, error in broken.items():
        console().print(f"[red]{escape(name)}[/] {escape(error)}", soft_wrap=True)


def _as_json(system: System) -> dict[str, Any]:
    return {
        "system": system.name,
        "title": system.title,
        "purpose": system.purpose,
        "tables": [table.name for table in system.tables],
        "indexes": [repr(index) for index in system.indexes],
        "queues": [queue.name for queue in system.queues],
        "buckets": [bucket.name for bucket in system.buckets],
        "patterns": [pattern.id for pattern in system.patterns],
        "components": [component.name for component in system.components],
    }
