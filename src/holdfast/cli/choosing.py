"""Which systems a command is about: the one that is named, or all that are installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

if TYPE_CHECKING:
    from holdfast.model.system import System

SystemName: TypeAlias = Annotated[
    str | None,
    typer.Argument(metavar="[SYSTEM]", help="One system; all that are installed if none is named."),
]

NONE_INSTALLED = "No system is installed. One announces itself by the entry point `holdfast.systems`."


def chosen_systems(name: str | None) -> list[System]:
    from holdfast.model.system import installed_system, installed_systems

    return list(installed_systems().values()) if name is None else [installed_system(name)]
