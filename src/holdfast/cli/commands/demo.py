"""`holdfast demo`: the stories of what is built, run end to end, with what they cost."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from holdfast.cli.extras import require
from holdfast.cli.misuse import CalledWrongly

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
    from holdfast.model import installed_systems

    systems = installed_systems()
    known = (ENGINE, *systems)
    if system is not None and system not in known:
        raise CalledWrongly(f"There is no story of {system!r}: there are {', '.join(known)}.")
    console = Console(highlight=False)
    for name in known if system is None else (system,):
        if name == ENGINE:
            _tell_of_the_engine(console)
        else:
            from holdfast.cli.stories.systems import tell

            tell(systems[name], console)


def _tell_of_the_engine(console: Console) -> None:
    from holdfast.cli.stories import tables

    tables.tell(console)
