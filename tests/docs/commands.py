"""Look up the commands of the command line and the options of each, for the tests of the documentation."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import typer.main

from holdfast.cli.app import app
from holdfast.cli.deferred_command import DeferredCommand
from holdfast.model.system import list_system_names


@cache
def list_command_names() -> frozenset[str]:
    return frozenset(_get_commands())


@cache
def list_options(command: str) -> frozenset[str]:
    """List the options of a command, or of `holdfast` itself if the name is empty."""
    return _get_options(_get_commands()[command].loaded if command else typer.main.get_command(app))


def is_system_command(words: Sequence[str]) -> bool:
    """Return True if the words call a command of a system, such as `agenticpm projects list`."""
    return bool(words) and words[0] not in list_command_names() and words[0] in list_system_names()


def list_system_command_options(words: Sequence[str]) -> frozenset[str]:
    """List the options of the system command that these words begin with; fail if there is none."""
    found: Any = typer.main.get_command(app)
    for word in words:
        if not hasattr(found, "get_command") or word.startswith("-"):
            break
        found = found.get_command(None, word)
        assert found is not None, f"holdfast {' '.join(words)}: no such command"
    return _get_options(found)


def _get_options(command: Any) -> frozenset[str]:
    """Return the options of a command, `--help` included."""
    every = [option for param in command.params for option in (*param.opts, *param.secondary_opts)]
    return frozenset(option for option in every if option.startswith("-")) | {"--help"}


def _get_commands() -> dict[str, DeferredCommand]:
    return dict(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
