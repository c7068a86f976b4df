"""Read the rows of a list from the stores of one system, or of every installed system."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from holdfast.cli.arguments.system_names import select_systems
from holdfast.cli.output.error_lines import format_error
from holdfast.core.errors import DeclarationError, NotFound

if TYPE_CHECKING:
    from holdfast.model.system import System

Row = TypeVar("Row")


def read_rows(name: str | None, read: Callable[[System], Coroutine[Any, Any, list[Row]]]) -> list[Row]:
    """Return the rows that `read` returns for the named system, or for every installed one if `name` is None.

    If a named system is not set up here, its error is raised. Otherwise such a system is skipped with a line
    on standard error and the others are read.
    """
    rows: list[Row] = []
    for system in select_systems(name):
        try:
            rows += asyncio.run(read(system))
        except (DeclarationError, NotFound) as error:
            if name is not None:
                raise
            typer.echo(f"{system.name} is skipped: {format_error(error)}", err=True)
    return rows
