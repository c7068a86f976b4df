"""Resolve the table or system name that the user typed to physical table names.

Declared names are given without the environment; names in the store include it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.cli.arguments.system_names import try_load_system
from holdfast.config.settings import Settings
from holdfast.core.errors import NotFound

if TYPE_CHECKING:
    from holdfast.model.system import System


@dataclass(frozen=True)
class TableSelection:
    """Physical table names, and the system that declares them, if any."""

    names: tuple[str, ...]
    system: System | None = None


def resolve_tables(name: str, settings: Settings) -> TableSelection:
    """Return all tables of the system of this name, else the one table of this name.

    Raise `NotFound` for a system without tables; a table of the store is not looked up.
    """
    from holdfast.model.system import list_system_names, load_system

    if name not in list_system_names():
        return resolve_table(name, settings)
    system = load_system(name)
    if not system.tables:
        raise NotFound(f"{name} declares no table.")
    return TableSelection(tuple(each.physical_name(settings.environment) for each in system.tables), system)


def resolve_table(name: str, settings: Settings) -> TableSelection:
    """Return the only table of the system of this name, else the declared table, else this name as it is.

    Raise `NotFound` for a system with several tables or none; the store is not asked.
    """
    from holdfast.model.system import list_system_names

    if name in list_system_names():
        return _resolve_only_table(name, settings)
    for each in list_system_names():
        system, _ = try_load_system(each)
        for table in () if system is None else system.tables:
            if table.name == name:
                return TableSelection((table.physical_name(settings.environment),), system)
    return TableSelection((name,))


def _resolve_only_table(system: str, settings: Settings) -> TableSelection:
    """Return the system's table. Raise `NotFound` if it has several."""
    several = resolve_tables(system, settings)
    if len(several.names) > 1:
        assert several.system is not None
        names = ", ".join(table.name for table in several.system.tables)
        raise NotFound(f"{system} is a system with several tables: give one of {names}.")
    return several
