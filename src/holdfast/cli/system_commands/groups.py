"""Command groups of Typer: one for each installed system, loaded only when it is called."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import typer
import typer.main

from holdfast.cli.plain_help import PlainCommand, PlainGroup
from holdfast.cli.usage_error import UsageError
from holdfast.core import installed_systems

if TYPE_CHECKING:
    from holdfast.model.system import System

SYSTEMS_PANEL: Final = "Systems"


class HoldfastGroup(PlainGroup):
    """Holdfast's own commands, then one group per installed system.

    An own command wins over a system of the same name.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        self._add_systems()
        return super().list_commands(ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.commands:
            self._add_systems()
        return super().get_command(ctx, cmd_name)

    def _add_systems(self) -> None:
        """Add a group for each installed system. Their names are looked up only if they are needed."""
        for name in installed_systems.find_entry_points():
            if name not in self.commands:
                self.add_command(SystemGroup(name))


class SystemGroup(PlainGroup):
    """The commands of one system. The system is loaded when the group is called, not when it is listed."""

    def __init__(self, system: str) -> None:
        super().__init__(
            name=system,
            help=f"Show the system {system}, or run one of its commands.",
            no_args_is_help=True,
            rich_help_panel=SYSTEMS_PANEL,
        )
        self._system_name = system

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Load the system before any help is printed, so that a load error is reported; then parse."""
        self._add_commands()
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: Any) -> list[str]:
        self._add_commands()
        return super().list_commands(ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        self._add_commands()
        return super().get_command(ctx, cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if not self._system.admin.commands:
            raise UsageError(
                f"The system {self.name} declares no commands: `holdfast {self.name} --help` lists the "
                "general commands that apply to it."
            )
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Format the system's description, its own commands, and the general commands that apply to it."""
        from holdfast.cli.system_commands.general_commands import list_general_commands

        general = list_general_commands(self._system, ctx.find_root().command)
        commands: dict[Any, Any] = {**self.commands, **{each.name: each for each in general}}
        text = f"{self._system.title or self._system.name}: {self._system.purpose.rstrip('.')}."
        PlainGroup(name=self.name, help=text, commands=commands).format_help(ctx, formatter)

    @cached_property
    def _system(self) -> System:
        """The system. Raise `SettingsError` if it lacks an extra."""
        from holdfast.cli.arguments.system_names import select_systems

        (system,) = select_systems(self._system_name)
        return system

    def _add_commands(self) -> None:
        """Load the system and add its commands."""
        if not self.commands and self._system.admin.commands:
            self.commands.update(typer.main.get_group(build_system_app(self._system)).commands)


def find_shadowed_systems(commands: Mapping[str, Any]) -> list[str]:
    """Return the installed systems that cannot be called because a Holdfast command has their name."""
    installed = installed_systems.find_entry_points()
    return [name for name in installed if name in commands and not isinstance(commands[name], SystemGroup)]


def build_system_app(system: System) -> typer.Typer:
    """Build the Typer app: a group for all words of a command name but the last, and the commands in them."""
    from holdfast.cli.system_commands.callbacks import build_callback

    groups: dict[tuple[str, ...], typer.Typer] = {(): _new_app()}
    for name, command in system.admin.commands.items():
        *words, last = name.split(" ")
        for depth in range(1, len(words) + 1):
            path = tuple(words[:depth])
            if path not in groups:
                groups[path] = _new_app()
                groups[path[:-1]].add_typer(
                    groups[path], name=path[-1], short_help=_describe_group(system, path)
                )
        callback, about = build_callback(system, name, command)
        groups[tuple(words)].command(last, help=about, cls=PlainCommand)(callback)
    return groups[()]


def _new_app() -> typer.Typer:
    return typer.Typer(
        cls=PlainGroup, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
    )


def _describe_group(system: System, path: tuple[str, ...]) -> str:
    """Return the names of the commands in a group, for the list of groups: `list, show, create`."""
    start = f"{' '.join(path)} "
    below = [
        name.removeprefix(start).split(" ")[0] for name in system.admin.commands if name.startswith(start)
    ]
    return ", ".join(dict.fromkeys(below))
