"""`holdfast demo`: the story of what is built so far, run end to end, with what it cost."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from holdfast.cli.extras import require
from holdfast.cli.misuse import CalledWrongly


def demo(
    system: Annotated[
        str | None, typer.Argument(help="One system's story; all that there is if none is named.")
    ] = None,
) -> None:
    """Run the tables engine through a working day: in process, over HTTP, killed and reopened."""
    if system not in (None, "tables"):
        raise CalledWrongly(
            f"There is no story of {system!r} yet: the systems come one by one. Try: holdfast demo"
        )
    require("demo", "serve", "aws")
    from holdfast.cli.stories import tables

    tables.tell(Console(highlight=False))
