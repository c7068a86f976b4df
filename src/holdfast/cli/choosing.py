"""Which systems a command is about: the one that is named, or all that are installed and have what they need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from holdfast.cli.extras import lack_behind, lack_of
from holdfast.errors import DeclarationError, SettingsError

if TYPE_CHECKING:
    from holdfast.model.system import System

SystemName: TypeAlias = Annotated[
    str | None,
    typer.Argument(metavar="[SYSTEM]", help="One system; all that are installed if none is named."),
]

NONE_INSTALLED = "No system is installed. One announces itself by the entry point `holdfast.systems`."


def chosen_systems(
    name: str | None, needed: Callable[[System], Sequence[str]] = lambda system: ()
) -> list[System]:
    """The one that is named, or all that can be used here. One that lacks an extra of those `needed` is refused by its
    name; among all, it is left out with a line on standard error, so that it does not take the others down.
    """
    from holdfast.model.system import installed_names

    chosen: list[System] = []
    for each in installed_names() if name is None else (name,):
        system, lack = loadable(each)
        if system is not None:
            lack = lack_of(system, needed(system))
        if system is not None and lack is None:
            chosen.append(system)
        elif name is None:
            typer.echo(f"{each} is left out: it {lack}", err=True)
        else:
            raise SettingsError(f"The system {each} {lack}")
    return chosen


def loadable(name: str) -> tuple[System | None, str | None]:
    """The system, or what it lacks to be loaded. Whatever else is wrong with it is raised."""
    from holdfast.model.system import installed_system

    try:
        return installed_system(name), None
    except DeclarationError as error:
        lack = lack_behind(error.__cause__, name)
        if lack is None:
            raise
        return None, lack
