"""The commands of Holdfast that apply to a system, for the help of the system."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from typer.core import TyperCommand

if TYPE_CHECKING:
    from holdfast.model.system import System

GENERAL_PANEL: Final = "General commands"
# `holdfast.mcp.AGENT`, without importing the SDK.
AGENT_COMPONENT: Final = "agent"


def list_general_commands(system: System, holdfast: Any) -> list[TyperCommand]:
    """Return an entry for each command that applies to the system, with the help that `holdfast` lists."""
    return [
        TyperCommand(
            f"holdfast {words}", help=holdfast.commands[words.split()[0]].help, rich_help_panel=GENERAL_PANEL
        )
        for words in _list_words(system)
    ]


def _list_words(system: System) -> Iterator[str]:
    """List the words of each command that applies, as the user types them."""
    from holdfast.model.demo import find_working_demo

    name = system.name
    if system.http.routes or any(each.routes or each.has_work for each in system.components):
        yield from (f"run {name}", f"up {name}")
    yield from (f"{command} {name}" for command in ("tables", "patterns", "check", "cost", "retention"))
    if any(table.global_indexes for table in system.tables):
        yield f"indexes status {name}"
    yield from (f"docs {name} --out DIR", f"iac TOOL {name} --out DIR", f"iam {name} --out DIR")
    yield from (f"{command} list {name}" for command, declared in _get_lists(system).items() if declared)
    if system.schemas or system.admin.migrations:
        yield f"migrate {name}"
    if system.admin.why:
        yield f"why {name} ID"
    if any(each.name == AGENT_COMPONENT for each in system.components):
        yield f"mcp {name}"
    demo = find_working_demo(system)
    yield from (
        f"{word} {name}" for word, declared in (("sample", demo.sample), ("demo", demo.story)) if declared
    )


def _get_lists(system: System) -> dict[str, Any]:
    """Return what the commands with a `list` show, by command."""
    return {"queues": system.queues, "outbox": system.outboxes, "flows": system.flows}
