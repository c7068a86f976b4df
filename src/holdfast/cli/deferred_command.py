"""`DeferredCommand`: a command whose module is imported when the command is called, not when it is listed."""

from __future__ import annotations

import importlib
from functools import cached_property
from typing import Any

import typer
import typer.main
from typer.core import TyperCommand

from holdfast.cli.plain_help import PlainCommand


class DeferredCommand(TyperCommand):
    """A command that is listed by its name, help and panel. Its function has the name of its module."""

    def __init__(self, name: str, *, module: str, help: str, panel: str) -> None:
        super().__init__(name, help=help, rich_help_panel=panel)
        self._module = module

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Import the command and make its context, which parses the arguments and then runs the command."""
        return self.loaded.make_context(info_name, args, parent, **extra)

    @cached_property
    def loaded(self) -> Any:
        """The command itself, with its parameters."""
        function = getattr(importlib.import_module(self._module), self._module.rpartition(".")[2])
        app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        app.command(self.name, cls=PlainCommand)(function)
        return typer.main.get_command(app)
