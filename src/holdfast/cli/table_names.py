"""Which tables a name means: those of a system, one that a system declares, or one of the store as it is called there.

Declared names are as everywhere without the environment; the store has them with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.cli.choosing import loadable
from holdfast.errors import NotFound
from holdfast.settings import Settings

if TYPE_CHECKING:
    from holdfast.model.system import System


@dataclass(frozen=True)
class NamedTables:
    """Physical names, and the system that declares them, if one does."""

    names: tuple[str, ...]
    system: System | None = None


def named_tables(name: str, settings: Settings) -> NamedTables:
    """The tables of the system of that name, or the one table."""
    from holdfast.model.system import installed_names, installed_system

    if name not in installed_names():
        return named_table(name, settings)
    system = installed_system(name)
    if not system.tables:
        raise NotFound(f"{name} declares no table.")
    return NamedTables(tuple(each.physical_name(settings.environment) for each in system.tables), system)


def named_table(name: str, settings: Settings) -> NamedTables:
    """The table that a system declares, or else the one that the store has under this very name."""
    from holdfast.model.system import installed_names

    if name in installed_names():
        return _only_table(name, settings)
    for each in installed_names():
        system, _ = loadable(each)
        for table in () if system is None else system.tables:
            if table.name == name:
                return NamedTables((table.physical_name(settings.environment),), system)
    return NamedTables((name,))


def _only_table(system: str, settings: Settings) -> NamedTables:
    several = named_tables(system, settings)
    if len(several.names) > 1:
        assert several.system is not None
        names = ", ".join(table.name for table in several.system.tables)
        raise NotFound(f"{system} is a system with several tables: name one of {names}.")
    return several
