"""`holdfast systems`: what is installed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.choosing import NONE_INSTALLED, loadable
from holdfast.cli.system_commands import shadowed_systems
from holdfast.errors import DeclarationError

if TYPE_CHECKING:
    from holdfast.model.system import System


def systems(
    ctx: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Answer in JSON.")] = False,
) -> None:
    """List the systems that are installed, and what each declares."""
    from holdfast.cli.showing import print_json

    _tell_shadowed(ctx)
    found, broken = _installed()
    if as_json:
        told = [{"system": name, "error": error} for name, error in broken.items()]
        print_json([*(_as_json(system) for system in found), *told])
    else:
        _print_systems(found, broken)


def _tell_shadowed(ctx: typer.Context) -> None:
    """A system that is named as a command of ours: its own commands cannot be reached."""
    own = getattr(ctx.find_root().command, "commands", {})
    for name in shadowed_systems(own):
        typer.echo(
            f"The system {name} cannot be called by its name: `holdfast {name}` is another command. Rename the system "
            "and its entry point.",
            err=True,
        )


def _installed() -> tuple[list[System], dict[str, str]]:
    """Every system that can be loaded, and of the others why not."""
    from holdfast.model.system import installed_names

    found, broken = [], {}
    for name in installed_names():
        try:
            system, lack = loadable(name)
        except DeclarationError as error:
            broken[name] = error.message
            continue
        if system is None:
            broken[name] = str(lack)
        else:
            found.append(system)
    return found, broken


def _print_systems(found: Sequence[System], broken: Mapping[str, str]) -> None:
    from rich.markup import escape

    from holdfast.cli.showing import console, number, plain_table

    if not found and not broken:
        console().print(NONE_INSTALLED)
    table = plain_table(
        "system", number("tables"), number("indexes"), number("queues"), number("buckets"), number("schemas"),
        number("patterns"), "components", "purpose",
    )  # fmt: skip
    for system in found:
        declared = (
            *(system.tables, system.indexes, system.queues, system.buckets, system.schemas),
            system.patterns,
        )
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
        "schemas": [schema.name for schema in system.schemas],
        "patterns": [pattern.id for pattern in system.patterns],
        "components": [component.name for component in system.components],
    }
