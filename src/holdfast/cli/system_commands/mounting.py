"""Where the commands of systems hang: a group for each installed system, loaded when it is called and not before."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import typer
import typer.main
from typer.core import TyperGroup

from holdfast.errors import SettingsError

if TYPE_CHECKING:
    from holdfast.model.system import System

PANEL: Final = "Systems"


class HoldfastGroup(TyperGroup):
    """Holdfast's own commands, and after them one for each installed system. A name of ours is never a system's."""

    def list_commands(self, ctx: Any) -> list[str]:
        own = super().list_commands(ctx)
        return [*own, *(name for name in _installed_names() if name not in own)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        own = super().get_command(ctx, cmd_name)
        if own is None and cmd_name in _installed_names():
            return SystemGroup(cmd_name)
        return own


class SystemGroup(TyperGroup):
    """The commands of one system. Its name is known without the system; everything else is not."""

    def __init__(self, system: str) -> None:
        super().__init__(
            name=system,
            help=f"Commands of the system {system}.",
            no_args_is_help=True,
            rich_help_panel=PANEL,
        )
        self._system = system

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        # Now it is called: a system that cannot be is told before any help is shown.
        _ = self._made
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: Any) -> list[str]:
        return self._made.list_commands(ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return self._made.get_command(ctx, cmd_name)

    @cached_property
    def _made(self) -> TyperGroup:
        from holdfast.cli.choosing import chosen_systems

        (system,) = chosen_systems(self._system)
        if not system.commands:
            raise SettingsError(
                f"The system {system.name} declares no commands of its own: `holdfast --help` lists those that every "
                "system has."
            )
        return typer.main.get_group(_app(system))


def shadowed_systems(own: Collection[str]) -> list[str]:
    """The installed systems that are named as a command of ours, and so cannot be called by their name."""
    return [name for name in _installed_names() if name in own]


def _installed_names() -> tuple[str, ...]:
    from holdfast.model.system import installed_names

    return installed_names()


def _app(system: System) -> typer.Typer:
    """Groups for all words but the last, the commands in them."""
    from holdfast.cli.system_commands.calling import command_of

    groups: dict[tuple[str, ...], typer.Typer] = {(): _group()}
    for name, command in system.commands.items():
        *words, last = name.split(" ")
        for depth in range(1, len(words) + 1):
            path = tuple(words[:depth])
            if path not in groups:
                groups[path] = _group()
                groups[path[:-1]].add_typer(groups[path], name=path[-1], help=_told_group(system, path))
        made, told = command_of(system, name, command)
        groups[tuple(words)].command(last, help=told)(made)
    return groups[()]


def _group() -> typer.Typer:
    return typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


def _told_group(system: System, path: tuple[str, ...]) -> str:
    """What can be done there, as nobody has described it: `list, show, create`."""
    start = f"{' '.join(path)} "
    below = [name.removeprefix(start).split(" ")[0] for name in system.commands if name.startswith(start)]
    return ", ".join(dict.fromkeys(below))
