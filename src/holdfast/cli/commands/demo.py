"""`holdfast demo`: run the story of the tables engine and of each system, and print what they cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.arguments.system_names import select_systems
from holdfast.cli.extras import describe_missing_demo, get_scratch_extras, require_extras
from holdfast.cli.usage_error import UsageError

if TYPE_CHECKING:
    from rich.console import Console

TABLES_STORY = "tables"


def demo(
    system: Annotated[
        str | None,
        typer.Argument(
            metavar="SYSTEM", help="The story to run: `tables`, or a system's name. Default: all stories."
        ),
    ] = None,
) -> None:
    """Run the story of the tables engine and the story of each system."""
    if system in (None, TABLES_STORY):
        require_extras("demo", "serve", "aws")
    from holdfast.cli.output.console import SafeConsole
    from holdfast.model.system import list_system_names

    known = (TABLES_STORY, *list_system_names())
    if system is not None and system not in known:
        raise UsageError(f"Unknown story {system!r}: choose from {', '.join(known)}.")
    console = SafeConsole(highlight=False)
    if system in (None, TABLES_STORY):
        _run_tables_story(console)
    if system != TABLES_STORY:
        _run_system_stories(console, system)


def _run_tables_story(console: Console) -> None:
    from holdfast.cli.stories import tables_story

    tables_story.run_story(console)


def _run_system_stories(console: Console, name: str | None) -> None:
    """Run the story of the named system, or of every system whose extras and demo are installed."""
    from holdfast.cli.stories.system_stories import run_story
    from holdfast.model.demo import find_demo

    for system in select_systems(name, lambda each: (*get_scratch_extras(each), *each.deployment.extras)):
        if name is None and find_demo(system).story is None:
            typer.echo(f"{system.name} is skipped: {describe_missing_demo(system)}", err=True)
        else:
            run_story(system, console)
