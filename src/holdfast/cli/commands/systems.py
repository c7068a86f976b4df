"""`holdfast systems`: list the installed systems, what each declares, and those that do not load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.arguments.system_names import NONE_INSTALLED, load_installed
from holdfast.cli.system_commands import find_shadowed_systems

if TYPE_CHECKING:
    from holdfast.model.system import System


def systems(
    ctx: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the installed systems and what each declares."""
    from holdfast.cli.output.console import print_json

    _warn_shadowed(ctx)
    found, broken = load_installed()
    if as_json:
        errors = [{"system": name, "error": error} for name, error in broken.items()]
        print_json([*(_to_json(system) for system in found), *errors])
    else:
        _print_systems(found, broken)


def _warn_shadowed(ctx: typer.Context) -> None:
    """Warn about each system with the name of a Holdfast command: its own commands cannot be called."""
    own = getattr(ctx.find_root().command, "commands", {})
    for name in find_shadowed_systems(own):
        typer.echo(
            f"The commands of the system {name} cannot be called: `holdfast {name}` is another command. "
            "Rename the system and its entry point.",
            err=True,
        )


def _print_systems(found: Sequence[System], broken: Mapping[str, str]) -> None:
    from rich.markup import escape

    from holdfast.cli.output.console import build_table, get_console, number_column

    if not found and not broken:
        get_console().print(NONE_INSTALLED)
    table = build_table(
        "system", number_column("tables"), number_column("indexes"), number_column("queues"),
        number_column("buckets"), number_column("schemas"), number_column("patterns"),
        "components", "purpose",
    )  # fmt: skip
    for system in found:
        declared = (
            *(system.tables, system.indexes, system.queues, system.buckets, system.schemas),
            system.patterns,
        )
        components = ", ".join(component.name for component in system.components)
        table.add_row(system.name, *(str(len(several)) for several in declared), components, system.purpose)
    if found:
        get_console().print(table)
    for name, error in broken.items():
        get_console().print(f"[red]{escape(name)}[/] {escape(error)}", soft_wrap=True)


def _to_json(system: System) -> dict[str, Any]:
    return {
        "system": system.name,
        "title": system.title,
        "purpose": system.purpose,
        "tables": [table.name for table in system.tables],
        "indexes": [repr(index) for index in system.indexes],
        "queues": [queue.name for queue in system.queues],
        "buckets": [bucket.name for bucket in system.buckets],
        "schemas": [schema.name for schema in system.schemas],
        "patterns": [pattern.id for pattern in system.patterns],
        "components": [component.name for component in system.components],
    }
