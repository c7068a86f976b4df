"""Load the system that the user named on the command line, or every system that can be used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from holdfast.cli.extras import describe_import_error, describe_missing_extras
from holdfast.core.errors import DeclarationError, SettingsError

if TYPE_CHECKING:
    from holdfast.model.system import System

OptionalSystemName: TypeAlias = Annotated[
    str | None,
    typer.Argument(metavar="SYSTEM", help="A system. Default: every installed system."),
]

NONE_INSTALLED = (
    "No system is installed. A package provides one through the entry point `holdfast.systems`. "
    "`holdfast new NAME` creates one."
)


def select_systems(
    name: str | None, required_extras: Callable[[System], Sequence[str]] = lambda system: ()
) -> list[System]:
    """Load the named system, or every installed system if `name` is None.

    `required_extras` returns the extras that a system needs for this command. If one is missing, a
    named system raises `SettingsError`; otherwise the system is skipped with a line on standard error
    and the others are returned.
    """
    from holdfast.model.system import list_system_names

    selected: list[System] = []
    for each in list_system_names() if name is None else (name,):
        system, missing = try_load_system(each)
        if system is not None:
            missing = describe_missing_extras(system, required_extras(system))
        if system is not None and missing is None:
            selected.append(system)
        elif name is None:
            typer.echo(f"{each} is skipped: it {missing}", err=True)
        else:
            raise SettingsError(f"The system {each} {missing}")
    return selected


def load_installed(
    required_extras: Callable[[System], Sequence[str]] = lambda system: (),
) -> tuple[list[System], dict[str, str]]:
    """Return the systems that load and have the extras which this command needs, and for each of the others
    the reason why it does not.
    """
    from holdfast.model.system import list_system_names

    found, broken = [], {}
    for name in list_system_names():
        try:
            system, missing = try_load_system(name)
            if system is not None:
                missing = describe_missing_extras(system, required_extras(system))
        except DeclarationError as error:
            broken[name] = error.message
            continue
        if system is None or missing is not None:
            broken[name] = str(missing)
        else:
            found.append(system)
    return found, broken


def try_load_system(name: str) -> tuple[System | None, str | None]:
    """Return the system, or a description of the extra it is missing. Raise any other load error."""
    from holdfast.model.system import load_system

    try:
        return load_system(name), None
    except DeclarationError as error:
        missing = describe_import_error(error.__cause__, name)
        if missing is None:
            raise
        return None, missing
