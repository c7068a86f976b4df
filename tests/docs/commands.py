"""The command line as it is: the names of its commands and the options each takes."""

from __future__ import annotations

from functools import cache

import typer.main

from holdfast.cli.app import app


@cache
def command_names() -> frozenset[str]:
    return frozenset(_commands())


@cache
def options_of(command: str) -> frozenset[str]:
    """The options of a command, or of `holdfast` itself when the name is empty."""
    group = typer.main.get_command(app)
    params = _commands()[command].params if command else group.params
    return frozenset(option for param in params for option in param.opts if option.startswith("-")) | {
        "--help"
    }


def _commands() -> dict[str, typer.core.TyperCommand]:
    return dict(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
