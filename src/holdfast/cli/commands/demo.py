"""`holdfast demo`: the stories of what is built, run end to end, with what they cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.choosing import chosen_systems
from holdfast.cli.extras import require, stores_extras
from holdfast.cli.misuse import CalledWrongly

if TYPE_CHECKING:
    from rich.console import Console

ENGINE = "tables"


def demo(
    system: Annotated[
        str | None,
        typer.Argument(help="One story: `tables`, or a system's name. All of them if none is named."),
    ] = None,
) -> None:
    """Run the tables engine through a working day, and each system through its story."""
    if system in (None, ENGINE):
        require("demo", "serve", "aws")
    from holdfast.cli.showing import Screen
    from holdfast.model.system import installed_names

    known = (ENGINE, *installed_names())
    if system is not None and system not in known:
        raise CalledWrongly(f"There is no story of {system!r}: there are {', '.join(known)}.")
    console = Screen(highlight=False)
    if system in (None, ENGINE):
        _tell_of_the_engine(console)
    if system != ENGINE:
        _tell_of_systems(console, system)


def _tell_of_the_engine(console: Console) -> None:
    from holdfast.cli.stories import tables

    tables.tell(console)


def _tell_of_systems(console: Console, named: str | None) -> None:
    from holdfast.cli.stories.systems import tell

    for system in chosen_systems(named, lambda each: (*stores_extras(each), *each.extras)):
        tell(system, console)
